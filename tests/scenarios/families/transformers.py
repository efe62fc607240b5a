"""transformers and plain PyTorch scripts: as of 4.3x, 4.5x and 5.x, under torchrun, and as a notebook prints them.

Forms as in public reports and source: transformers/modeling_utils, core_model_loading, cache_utils, generation/utils and
generation/continuous_batching; accelerate/utils/modeling; torchrun's `[rank0]:` and its elastic summary; IPython's
tracebacks. There is no engine: what tells the phases is the script's own printing and the frames.
"""

# ruff: noqa: E501  one printed line is one line

from tests.scenarios.families.dialect import Dialect, Fixture
from tests.scenarios.labels import label

SCRIPT = Dialect(
    "5.x script",
    {"F": "", "L": "{now:%Y-%m-%d %H:%M:%S} INFO serve: "},
    {
        "start": "| /opt/venv/bin/python serve_hf.py --model {model} --dtype bfloat16 --device-map auto\n| [transformers] loading configuration file {model}/config.json",
        "load": "| Fetching 9 files: 100%|##########| 9/9 [00:00<00:00, 9812.4it/s]\n| Loading weights:  31%|###1      | 90/290 [00:04<00:09, 21.32it/s]",
        "loaded": "| Loading weights: 100%|##########| 290/290 [00:13<00:00, 21.90it/s]\nL model loaded, {weights:GiB} GiB allocated",
        "warm": "L warm-up generation done",
        "ready": "L Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)",
        "serve": "L generated batch of {running}, input length 384, 128 new tokens, torch.cuda.memory_allocated {held:GiB} GiB",
        "prompt": "L generating: batch 1, input length {prompt}",
        "stop": "L shutting down",
        "restart": "| systemd[1]: hf-serve.service: Found left-over process {other_pid} (python) in control group while starting unit. Ignoring.",
        "swap": "L unloading {model}\nL loading aurora-32b-chat\n| [transformers] loading configuration file aurora-32b-chat/config.json",
        "reload": "L loading adapter /srv/adapters/tone-v3",
    },
)
OLD = SCRIPT.but(
    "4.3x script without times",
    {"L": ""},
    {
        "start": "| $ python generate.py --model {model}\n| /usr/lib/python3/dist-packages/torch/cuda/__init__.py:628: UserWarning: Can't initialize NVML",
        "load": "| Loading checkpoint shards:   0%|          | 0/8 [00:00<?, ?it/s]",
        "loaded": "| Loading checkpoint shards: 100%|##########| 8/8 [01:02<00:00,  7.80s/it]",
        "ready": "",
        "serve": "| step {n}: batch 4, input length 384, 128 new tokens",
        "prompt": "| step {n}: batch 1, input length {prompt}",
    },
    root="/home/user/miniconda3/envs/hf/lib/python3.10/site-packages/",
)
_RANK = "[rank{rank}]: "
TORCHRUN = SCRIPT.but(
    "torchrun",
    {"F": _RANK, "Z": _RANK},
    {
        "start": "| W0714 10:02:11.480000 2210 torch/distributed/run.py:774] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n| [Gloo] Rank 0 is connected to {ranks} peer ranks.",
    },
)
BATCHING = SCRIPT.but(
    "continuous batching",
    {
        "B": "{now:%Y-%m-%d %H:%M:%S},118 - ContinuousBatchingLogger - INFO - ",
        "D": "{now:%Y-%m-%d %H:%M:%S},118 - ContinuousBatchingLogger - DEBUG - ",
    },
    {
        "cache": "B PagedAttentionCache initialized with self.num_blocks = {blocks}, self.block_size = {block_tokens}, page_size = 1024, self.max_batch_tokens = {chunk} num_attention_masks = 1",
        "serve": "D Scheduled: {running}, Waiting: {waiting}, Active: {running}. cum Q: 412. cum KV: {used_tokens}, free blocks: {unused}",
        "prompt": "D Scheduled: 1, Waiting: 0, Active: 1. cum Q: {prompt}. cum KV: {prompt}, free blocks: {unused}",
    },
)
NOTEBOOK = SCRIPT.but(
    "notebook",
    words={
        "start": "| In [3]: model = AutoModelForCausalLM.from_pretrained('{model}', device_map='cuda')",
        "serve": "| In [{n}]: out = model.generate(**tok(prompts, return_tensors='pt').to('cuda'), max_new_tokens=128)",
        "prompt": "| In [{n}]: out = model.generate(**long_inputs, max_new_tokens=16)  # input length {prompt}",
    },
)

_T = "\n| Traceback (most recent call last):\n"
_FROM = "F /srv/app/serve_hf.py:<module> model = AutoModelForCausalLM.from_pretrained(\nF transformers/models/auto/auto_factory.py:from_pretrained return model_class.from_pretrained(\nF transformers/modeling_utils.py:from_pretrained ) = cls._load_pretrained_model(\n"
_OOM = "| torch.OutOfMemoryError: {oom}\n"
_OLD = "| torch.cuda.OutOfMemoryError: {oom20}\n"
_GENERATE = "F /srv/app/serve_hf.py:answer out = model.generate(**inputs, max_new_tokens=512)\nF torch/utils/_contextlib.py:decorate_context return func(*args, **kwargs)\nF transformers/generation/utils.py:generate result = decoding_method(\n"
_PREFILL = (
    _GENERATE
    + "F transformers/generation/utils.py:_sample outputs = self._prefill(input_ids, generation_config, model_kwargs)\nF transformers/models/qwen2/modeling_qwen2.py:forward logits = self.lm_head(hidden_states[:, slice_indices, :])\nF torch/nn/modules/linear.py:forward return F.linear(input, self.weight, self.bias)\n"
)
_ATTENTION = (
    _GENERATE
    + "F transformers/generation/utils.py:greedy_search outputs = self(\nF transformers/models/llama/modeling_llama.py:forward attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32).to(query_states.dtype)\nF torch/nn/functional.py:softmax ret = input.softmax(dim, dtype=dtype)\n"
)
_DECODE = (
    _GENERATE
    + "F transformers/generation/utils.py:_sample outputs = model_forward(**model_inputs, return_dict=True)\nF transformers/models/qwen2/modeling_qwen2.py:forward key_states, value_states = past_key_values.update(key_states, value_states, self.layer_idx, cache_kwargs)\nF transformers/cache_utils.py:update self.keys = torch.cat([self.keys, key_states], dim=-2)\n"
)
_MLP = (
    _GENERATE
    + "F transformers/generation/utils.py:_sample outputs = self._prefill(input_ids, generation_config, model_kwargs)\nF transformers/models/qwen2/modeling_qwen2.py:forward down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))\n"
)
_FAILED = "\n| E0714 10:05:47.201000 2210 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: {rank} (pid: {pid}) of binary: /opt/venv/bin/python"
_IPYTHON = """
| ---------------------------------------------------------------------------
| OutOfMemoryError                          Traceback (most recent call last)
| Cell In[3], line 1
| ----> 1 model = AutoModelForCausalLM.from_pretrained(name, device_map='cuda')
|
| File /opt/venv/lib/python3.12/site-packages/transformers/modeling_utils.py:4793, in PreTrainedModel._load_pretrained_model(cls, model, state_dict, checkpoint_files)
| -> 4793     caching_allocator_warmup(model_to_load, expanded_device_map, factor=2)
|
| File /opt/venv/lib/python3.12/site-packages/transformers/modeling_utils.py:5803, in caching_allocator_warmup(model, expanded_device_map, factor)
| -> 5803     _ = torch.empty(byte_count // factor, dtype=torch.float16, device=device, requires_grad=False)
|
| OutOfMemoryError: {oom}
"""

_SUMMARY = """
| |===========================================================================|
| |                  PyTorch CUDA memory summary, device ID 0                 |
| |---------------------------------------------------------------------------|
| |            CUDA OOMs: 1            |        cudaMalloc retries: 4         |
| |===========================================================================|
| |        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
| |---------------------------------------------------------------------------|
| | Allocated memory      | {allocated:MiB.0} MiB | {allocated:MiB.0} MiB |  91022 GiB |  90955 GiB |
| | GPU reserved memory   | {reserved:MiB.0} MiB | {reserved:MiB.0} MiB | {reserved:MiB.0} MiB |      0 B   |
| | Non-releasable memory | {cached:MiB.0} MiB | {cached:MiB.0} MiB |  61022 GiB |  61013 GiB |
| |===========================================================================|
"""


def _ranked(text: str) -> str:
    """The same as torchrun prints it: each line behind its rank."""
    return "\n".join("Z" + line[1:] if line.startswith("| ") else line for line in text.split("\n"))


_FIXTURES = (
    ("load_weights", "bnb_4bit", SCRIPT, _T + _FROM + "F transformers/quantizers/quantizer_bnb_4bit.py:create_quantized_param new_value = bnb.nn.Params4bit(new_value, requires_grad=False, **kwargs).to(target_device)\nF bitsandbytes/nn/modules.py:_quantize w = self.data.contiguous().to(device)\n" + _OOM),
    ("load_weights", "notebook", NOTEBOOK, _IPYTHON),
    ("load_weights", "accelerate_no_figures", OLD, _T + _FROM + "F transformers/modeling_utils.py:_load_state_dict_into_meta_model set_module_tensor_to_device(model, param_name, param_device, **set_module_kwargs)\nF accelerate/utils/modeling.py:set_module_tensor_to_device new_value = value.to(device)\n| RuntimeError: CUDA error: out of memory\n| CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"),
    ("load_neighbour", "torchrun", TORCHRUN, _T + _FROM + "F transformers/core_model_loading.py:_materialize_copy tensor = tensor.to(device=device, dtype=dtype)\n" + _OOM),
    ("warm_up_run", "compile", SCRIPT, "L warming up" + _T + "F /srv/app/serve_hf.py:warm_up model.generate(**dummy, max_new_tokens=8)\nF torch/_inductor/cudagraph_trees.py:_record static_outputs = model(inputs)\nF torch/_inductor/runtime/triton_heuristics.py:benchmark_all_configs timings = {{launcher: self.bench(launcher, *args, **kwargs)\n" + _OOM),
    ("warm_up_pool", "continuous_batching", BATCHING, _T + "F transformers/generation/continuous_batching/continuous_api.py:_run_generation_loop paged_attention_cache = PagedAttentionCache(\nF transformers/generation/continuous_batching/cache.py:__init__ new_layer_key_cache = torch.empty(self.cache_shape, dtype=self.dtype, device=self.device)\n" + _OOM),
    ("warm_up_pool", "static_cache", OLD, _T + "F /srv/app/generate.py:main past = StaticCache(config, max_batch_size=8, max_cache_len=32768, device='cuda')\nF transformers/cache_utils.py:__init__ new_layer_key_cache = torch.zeros(cache_shape, dtype=self.dtype, device=layer_device)\n| torch.cuda.OutOfMemoryError: {oom21}\n"),
    ("warm_up_run", "graph_torchrun", TORCHRUN, _T + "F /srv/app/serve_hf.py:warm_up with torch.cuda.graph(graph):\nF torch/cuda/graphs.py:__exit__ self.cuda_graph.capture_end()\n" + _OOM),
    ("prefill_long_prompt", "logits", SCRIPT, _T + _PREFILL + _OOM),
    ("prefill_long_prompt", "old_attention", OLD, _T + _ATTENTION + _OLD),
    ("prefill_long_prompt", "torchrun", TORCHRUN, _T + _MLP + _OOM),
    ("prefill_looks_fragmented", "batching", BATCHING, _T + "F transformers/generation/continuous_batching/continuous_api.py:_generation_step self._forward_process_and_sample(batch_data, logit_processor)\n" + _MLP.replace(_GENERATE, "").partition("\n")[2] + _OOM),
    ("decode_cache_growth", "cat", SCRIPT, _T + _DECODE + _OOM),
    ("decode_cache_growth", "old_cat", OLD, _T + _DECODE.replace("self.keys = torch.cat([self.keys, key_states], dim=-2)", "self.key_cache[layer_idx] = torch.cat([self.key_cache[layer_idx], key_states], dim=-2)") + _OLD),
    ("decode_cache_growth", "torchrun", TORCHRUN, _T + _DECODE + _OOM),
    ("decode_exhausted", "batching", BATCHING, _T + "F transformers/generation/continuous_batching/continuous_api.py:_inner_generation_loop if not batch_processor.prepare_next_batch():\nF transformers/generation/continuous_batching/continuous_api.py:prepare_next_batch raise RuntimeError(\"No requests can be scheduled and no request can be offloaded.\")\n| RuntimeError: No requests can be scheduled and no request can be offloaded.\n"),
    ("fragmentation_same_shape", "mlp", SCRIPT, _T + _MLP + _OOM),
    ("fragmentation_same_shape", "old_message", OLD, _T + _ATTENTION + _OLD),
    ("fragmentation_same_shape", "torchrun", TORCHRUN, _T + _MLP + _OOM),
    ("fragmentation_same_shape", "summary", SCRIPT, _T + _MLP + _OOM + _SUMMARY),
    ("fragmentation_same_shape", "hip", SCRIPT, _T + _MLP + "| torch.OutOfMemoryError: {oom_hip}\n"),
    ("recovery_restart", "left_over", SCRIPT, _T + _FROM + "F transformers/core_model_loading.py:_materialize_copy tensor = tensor.to(device=device, dtype=dtype)\n" + _OOM),
    ("recovery_swap", "second_model", SCRIPT, _T + _FROM.replace("<module>", "swap") + "F transformers/modeling_utils.py:caching_allocator_warmup _ = torch.empty(int(byte_count // factor), dtype=torch.float16, device=device, requires_grad=False)\n" + _OOM),
    ("recovery_reload", "adapter", SCRIPT, _T + "F /srv/app/serve_hf.py:add_adapter model.load_adapter(path, adapter_name=name)\nF transformers/integrations/peft.py:load_adapter adapter_state_dict = load_peft_weights(peft_model_id, token=token, device=device)\nF peft/utils/save_and_load.py:load_peft_weights adapters_weights = safe_load_file(filename, device=device)\n" + _OOM),
    ("recovery_restart", "torchrun", TORCHRUN, _T + _FROM + "F transformers/core_model_loading.py:_materialize_copy tensor = tensor.to(device=device, dtype=dtype)\n" + _OOM),
    ("not_oom_illegal_access", "script", SCRIPT, _T + _DECODE + "| torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"),
    ("healthy", "script", SCRIPT, ""),
    ("healthy", "batching", BATCHING, ""),
)  # fmt: skip
_UNPROVEN = label("oom", "fragmentation", "device", survived=None, also_classes=("prefill_spike", None))
"""No line of the library tells which shapes ran before: the other answers are honest too. The summary's figures tell."""


def _fixture(story: str, variant: str, dialect: Dialect, failure: str) -> Fixture:
    unproven = _UNPROVEN if story.startswith("fragmentation") and variant != "summary" else None
    if dialect is TORCHRUN:
        return Fixture("transformers", story, variant, dialect, _ranked(failure) + _FAILED, 2, unproven)
    return Fixture("transformers", story, variant, dialect, failure, label=unproven)


FIXTURES = tuple(_fixture(*row) for row in _FIXTURES)
