"""SGLang: 0.3 with full stops, 0.5 with commas, one rank and several, for ROCm.

Forms as in the engine's source: sglang/srt/managers (scheduler, schedule_batch, tp_worker), model_executor (model_runner,
cuda_graph_runner), mem_cache, lora, disaggregation of 0.3 to 0.5; uvicorn's lines; systemd.
"""

# ruff: noqa: E501  one printed line is one line

from tests.scenarios.families.dialect import Dialect, Fixture

_NOW = "[{now:%Y-%m-%d %H:%M:%S}"
NEW = Dialect(
    "0.5",
    {"I": f"{_NOW}] ", "R": f"{_NOW} TP{{rank}}] ", "F": ""},
    {
        "start": "I server_args=ServerArgs(model_path='{model}', tp_size={ranks}, mem_fraction_static=0.86, chunked_prefill_size={chunk}, max_running_requests={slots}, context_length={context}, kv_cache_dtype='auto', disable_cuda_graph=False)",
        "load": "R* Init torch distributed begin.\nR* Init torch distributed ends. elapsed=2.11 s, mem usage={non_torch:GiB} GB\nR* Load weight begin. avail mem={at_start:GiB} GB",
        "wait": "| Loading safetensors checkpoint shards:  12% Completed | 1/8 [00:0{n}<00:09,  1.31s/it]",
        "loaded": "R* Load weight end. elapsed=14.21 s, type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=31.12 GB, mem usage={weights:GiB} GB.",
        "cache": "R* KV Cache is allocated. dtype: torch.bfloat16, #tokens: {pool_tokens}, K size: {half:GiB} GB, V size: {half:GiB} GB\nR* Memory pool end. avail mem=9.91 GB",
        "warm": "R* Capture cuda graph begin. This can take up to several minutes. avail mem=9.80 GB\nR* Capture cuda graph end. Time elapsed: 21.22 s. mem usage={graph:GiB} GB. avail mem=9.01 GB.",
        "ready": "R max_total_num_tokens={pool_tokens}, chunked_prefill_size={chunk}, max_prefill_tokens=16384, max_running_requests={slots}, context_len={context}, available_gpu_mem=9.01 GB\n| INFO:     Application startup complete.\nI The server is fired up and ready to roll!",
        "serve": "R Decode batch, #running-req: {running}, #token: {used_tokens}, token usage: {usage:.2f}, cuda graph: True, gen throughput (token/s): {running}1.22, #queue-req: {waiting}, ",
        "prompt": "R Prefill batch, #new-seq: 1, #new-token: {prompt}, #cached-token: 0, token usage: {usage:.2f}, #running-req: {running}, #queue-req: {waiting}, ",
        "stop": "| INFO:     Shutting down\n| INFO:     Finished server process [{pid}]",
        "restart": "| systemd[1]: sglang.service: Found left-over process {other_pid} (sglang::schedul) in control group while starting unit. Ignoring.",
        "reload": "R* Update engine weights online from disk begin. avail mem=9.01 GB",
        "sleep": '| INFO:     10.0.3.7:{port} - "POST /release_memory_occupation HTTP/1.1" 200 OK',
        "wake": '| INFO:     10.0.3.7:{port} - "POST /resume_memory_occupation HTTP/1.1" 200 OK',
    },
    root="/sgl-workspace/sglang/python/",
)
OLD = NEW.but(
    "0.4",
    words={
        "load": "R* Init torch distributed begin.\nR* Load weight begin. avail mem={at_start:GiB} GB",
        "loaded": "R* Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=31.12 GB",
        "cache": "R* Memory pool end. avail mem=9.91 GB",
        "serve": "R Decode batch. #running-req: {running}, #token: {used_tokens}, token usage: {usage:.2f}, gen throughput (token/s): {running}1.22, #queue-req: {waiting}",
        "prompt": "R Prefill batch. #new-seq: 1, #new-token: {prompt}, #cached-token: 0, cache hit rate: 0.00%, token usage: {usage:.2f}, #running-req: {running}, #queue-req: {waiting}",
    },
)

_T = "R Scheduler hit an exception: Traceback (most recent call last):\n"
_OOM = "| torch.OutOfMemoryError: {oom}\n"
_GONE = "\nI Received sigquit from a child process. It usually means the child failed.\n"
_INIT = (
    _T
    + "F sglang/srt/managers/scheduler.py:run_scheduler_process scheduler = Scheduler(server_args, port_args, gpu_id, tp_rank, dp_rank)\nF sglang/srt/managers/tp_worker.py:__init__ self.model_runner = ModelRunner(\n"
)
_LOAD = _INIT + "F sglang/srt/model_executor/model_runner.py:load_model self.model = get_model(\n"
_CREATE = _LOAD + "F sglang/srt/layers/linear.py:create_weights weight = ModelWeightParameter(data=torch.empty(\n"
_STAGING = (
    _LOAD
    + "F sglang/srt/layers/quantization/fp8.py:process_weights_after_loading qweight, weight_scale = per_token_group_quant_fp8(layer.weight, 128)\n"
)
_POOL = (
    _INIT
    + "F sglang/srt/model_executor/model_runner.py:init_memory_pool self.token_to_kv_pool = MHATokenToKVPool(\nF sglang/srt/mem_cache/memory_pool.py:_create_buffers torch.zeros((size + page_size, head_num, head_dim), dtype=self.store_dtype, device=device)\n"
)
_CAPTURE = (
    _INIT
    + "F sglang/srt/model_executor/model_runner.py:init_cuda_graphs self.cuda_graph_runner = CudaGraphRunner(self)\nF sglang/srt/model_executor/cuda_graph_runner.py:capture_one_batch_size run_once()\n"
)
_ADVICE = "| \n| Possible solutions:\n| 1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n| 2. set --cuda-graph-max-bs to a smaller value (e.g., 16)\n"
_STEP = (
    _T
    + "F sglang/srt/managers/scheduler.py:event_loop_overlap result = self.run_batch(batch)\nF sglang/srt/managers/tp_worker.py:forward_batch_generation logits_output = self.model_runner.forward(forward_batch)\nF sglang/srt/model_executor/model_runner.py:forward_extend return self.model.forward(\n"
)
_MLP = "F sglang/srt/models/qwen2.py:forward hidden_states = self.mlp(hidden_states)\nF sglang/srt/layers/activation.py:forward_cuda out = torch.empty(output_shape, dtype=x.dtype, device=x.device)\n"
_MOE = "F sglang/srt/models/deepseek_v2.py:forward hidden_states = self.mlp(hidden_states)\nF sglang/srt/layers/moe/fused_moe_triton/fused_moe.py:fused_experts_impl intermediate_cache1 = torch.empty(\n"
_LOGITS = "F sglang/srt/layers/logits_processor.py:_get_logits logits = torch.matmul(hidden_states.to(lm_head.weight.dtype), lm_head.weight.T)\n"
_RETRACT = "R KV cache pool is full. Retract requests. #retracted_reqs: {paused}, #new_tokens_gained: 412, #new_token_ratio: 0.2816 -> 0.5127\n"
_DECODE = (
    _T
    + "F sglang/srt/managers/scheduler.py:update_running_batch batch.prepare_for_decode()\nF sglang/srt/managers/schedule_batch.py:prepare_for_decode self.out_cache_loc = alloc_for_decode(self, token_per_req=1)\n| RuntimeError: Decode out of memory. Try to lower your batch size.\n| Try to allocate {running} tokens.\n| Avaliable tokens: 3\n"
)
_LAST = (
    _T
    + 'F sglang/srt/managers/scheduler.py:update_running_batch retracted_reqs, new_token_ratio = batch.retract_decode()\nF sglang/srt/managers/schedule_batch.py:retract_decode assert self.token_to_kv_pool.available_size() > 0, "No space left for only one request"\n| AssertionError: No space left for only one request\n'
)
_RESUME = (
    _T
    + "F sglang/srt/managers/scheduler.py:event_loop_overlap self.process_input_requests(recv_reqs)\nF sglang/srt/managers/scheduler.py:resume_memory_occupation self.memory_saver_adapter.resume(GPU_MEMORY_TYPE_KV_CACHE)\nF torch_memory_saver/entrypoint.py:resume self._impl_ctx.binary_info.cdll.tms_resume(tag_bytes)\n| RuntimeError: CUDA error: out of memory\n"
)
_UPDATE = (
    _T
    + "F sglang/srt/managers/scheduler.py:update_weights_from_disk success, message = self.tp_worker.update_weights_from_disk(recv_req)\nF sglang/srt/model_executor/model_runner.py:update_weights_from_disk model = model_load_weights(self.model, iter)\n"
    + _OOM
)
_LORA = (
    _T
    + "F sglang/srt/managers/tp_worker.py:load_lora_adapter result = self.model_runner.load_lora_adapter(recv_req.to_ref())\nF sglang/srt/lora/lora_manager.py:load_lora_adapter self.load_lora_weights(lora_ref)\n"
    + _OOM
)
_GATE = (
    _INIT
    + "F sglang/srt/model_executor/model_runner.py:init_memory_pool raise RuntimeError(\n| RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n"
)
_ILLEGAL = _STEP + "| torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"


def _form(failure: str, message: str) -> str:
    return failure.replace("{oom}", f"{{{message}}}")


_ROWS = (
    ("load_weights", "create", NEW, _CREATE + _OOM, 1),
    ("load_weights", "old_message", OLD, _form(_CREATE + _OOM, "oom21"), 1),
    ("load_staging", "fp8_ranks", NEW, _STAGING + _OOM, 2),
    ("load_neighbour", "fp8", OLD, _STAGING + _OOM, 1),
    ("warm_up_pool", "buffers", NEW, _POOL + _OOM, 1),
    ("warm_up_pool", "buffers_ranks", OLD, _POOL + _OOM, 2),
    ("warm_up_run", "capture", NEW, _CAPTURE + _OOM, 1),
    ("warm_up_run", "capture_advice", OLD, _CAPTURE + "| Exception: Capture cuda graph failed: {oom}\n" + _ADVICE, 1),
    ("prefill_long_prompt", "mlp", NEW, _STEP + _MLP + _OOM, 1),
    ("prefill_long_prompt", "moe_ranks", NEW, _STEP + _MOE + _OOM, 2),
    ("prefill_long_prompt", "logits", OLD, _STEP + _LOGITS + _OOM, 1),
    ("prefill_looks_fragmented", "mlp", OLD, _STEP + _MLP + _OOM, 1),
    ("decode_preempting", "retract", NEW, _RETRACT, 1),
    ("decode_preempting", "old_retract", OLD, "R Decode out of memory happened. #retracted_reqs: {paused}, #new_token_ratio: 0.2816 -> 0.5127\n", 1),
    ("decode_exhausted", "decode", NEW, _RETRACT.replace("{paused}", "4") + _DECODE, 1),
    ("decode_exhausted", "last_request", OLD, _LAST, 1),
    ("fragmentation_same_shape", "mlp", NEW, _STEP + _MLP + _OOM, 1),
    ("fragmentation_same_shape", "moe_ranks", NEW, _STEP + _MOE + _OOM, 2),
    ("fragmentation_same_shape", "old_message", OLD, _form(_STEP + _MLP + _OOM, "oom21"), 1),
    ("fragmentation_same_shape", "hip", NEW, _form(_STEP + _MLP + _OOM, "oom_hip"), 1),
    ("recovery_restart", "left_over", NEW, _CREATE + _OOM, 1),
    ("recovery_wake", "resume", NEW, _RESUME, 1),
    ("recovery_wake", "resume_ranks", NEW, _RESUME, 2),
    ("recovery_reload", "weights", NEW, _UPDATE, 1),
    ("recovery_reload", "adapter", OLD, _LORA, 1),
    ("gate_start", "mem_fraction", NEW, _GATE, 1),
    ("not_oom_illegal_access", "step", NEW, _ILLEGAL, 1),
    ("healthy", "new", NEW, "", 1),
    ("healthy", "old_ranks", OLD, "", 2),
)  # fmt: skip
FIXTURES = tuple(
    Fixture("sglang", story, variant, dialect, failure + (_GONE if "Traceback" in failure else ""), ranks)
    for story, variant, dialect, failure, ranks in _ROWS
)
