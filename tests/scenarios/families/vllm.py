"""vLLM: V0 of 2024, V1 with one process and with workers, with details of each iteration, for ROCm.

Forms as in the engine's source: vllm/engine, worker, core of 0.6; v1/engine, v1/worker, v1/core, v1/metrics/loggers,
logging_utils/dump_input, device_allocator/cumem, lora, distributed/kv_transfer of 0.11 to 0.33; uvicorn's lines; systemd.
"""

# ruff: noqa: E501  one printed line is one line

from tests.scenarios.families.dialect import Dialect, Fixture
from tests.scenarios.labels import label

_AT = " {now:%m-%d %H:%M:%S} "


def _v1(core: str, worker: str) -> dict[str, str]:
    """Prefixes; the failure is the worker's, in whose name frames are printed."""
    failed = f"{worker} ERROR{_AT}[multiproc_executor.py:671] " if worker != core else f"{core} ERROR{_AT}[core.py:708] "
    return {
        "A": f"(APIServer pid={{pid}}) INFO{_AT}[api_server.py:1839] ",
        "U": f"(APIServer pid={{pid}}) INFO{_AT}[utils.py:233] ",
        "L": f"(APIServer pid={{pid}}) INFO{_AT}[loggers.py:127] ",
        "P": "(APIServer pid={pid}) ",
        "C": f"{core} INFO{_AT}[core.py:77] ",
        "G": f"{worker} INFO{_AT}[gpu_model_runner.py:2602] ",
        "B": f"{worker} INFO{_AT}[gpu_worker.py:298] ",
        "K": f"{core} INFO{_AT}[kv_cache_utils.py:1087] ",
        "D": f"{core} ERROR{_AT}[core.py:708] ",
        "S": f"{core} ERROR{_AT}[dump_input.py:79] ",
        "X": failed,
        "F": failed,
    }


_CORE = "(EngineCore_DP0 pid={pid}1)"
V1 = Dialect(
    "0.11",
    _v1(_CORE, _CORE),
    {
        "start": """
A vLLM API server version 0.11.0
U non-default args: {{'model': '{model}', 'max_model_len': {context}, 'max_num_seqs': {slots}, 'gpu_memory_utilization': 0.9, 'tensor_parallel_size': {ranks}}}
C Initializing a V1 LLM engine (v0.11.0) with config: model='{model}', speculative_config=None, tokenizer='{model}', dtype=torch.bfloat16, max_seq_len={context}, tensor_parallel_size={ranks}, quantization=None, enforce_eager=False, kv_cache_dtype=auto
""",
        "load": "G* Starting to load model {model}...\n| Loading safetensors checkpoint shards:   0% Completed | 0/8 [00:00<?, ?it/s]",
        "wait": "| Loading safetensors checkpoint shards:  12% Completed | 1/8 [00:0{n}<00:09,  1.31s/it]",
        "loaded": "| Loading safetensors checkpoint shards: 100% Completed | 8/8 [00:09<00:00,  1.21s/it]\nG* Model loading took {weights:GiB.4} GiB and 14.103412 seconds",
        "cache": """
B* Available KV cache memory: {kv:GiB} GiB
K GPU KV cache size: {pool_tokens:,} tokens
K Maximum concurrency for {context:,} tokens per request: 5.31x
""",
        "warm": "| Capturing CUDA graphs (decode, FULL): 100%|##########| 35/35 [00:04<00:00,  7.91it/s]\nG* Graph capturing finished in 9 secs, took {graph:GiB} GiB",
        "ready": "P INFO:     Started server process [{pid}]\nP INFO:     Waiting for application startup.\nP INFO:     Application startup complete.",
        "serve": "L Engine 000: Avg prompt throughput: 41.2 tokens/s, Avg generation throughput: {running}1.4 tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: {percent:.1f}%, Prefix cache hit rate: 0.0%",
        "stop": "P INFO:     Shutting down\nP INFO:     Finished server process [{pid}]",
        "restart": "| systemd[1]: vllm.service: Found left-over process {other_pid} (VLLM::EngineCor) in control group while starting unit. Ignoring.",
        "sleep": "B* Sleep mode freed {held:GiB} GiB memory, 1.20 GiB memory is still in use.\nC It took 3.152677 seconds to fall asleep.",
        "wake": 'P INFO:     10.0.3.7:{port} - "POST /wake_up?tags=weights HTTP/1.1" 200 OK',
    },
)
NEW = V1.but(
    "0.33",
    _v1("(EngineCore pid={pid}1)", "(EngineCore pid={pid}1)"),
    {"start": V1.words["start"].replace("0.11.0", "0.33.0")},
)
WORKERS = V1.but("0.11, workers", _v1(_CORE, "(Worker_TP{rank} pid={pid}{rank})"))
_DETAILS = {
    "prompt": "C Iteration({n}1): 1 context requests, {prompt} context tokens, 0 generation requests, 0 generation tokens, iteration elapsed time: 81.22 ms",
    "serve": "C Iteration({n}2): 0 context requests, 0 context tokens, {running} generation requests, {running} generation tokens, iteration elapsed time: 9.31 ms\n"
    + V1.words["serve"],
}
DETAILS = V1.but("0.11, iteration details", words=_DETAILS)
DETAILS_WORKERS = WORKERS.but("0.11, workers, iteration details", words=_DETAILS)
_V0 = f"ERROR{_AT}engine.py:366] "
V0 = Dialect(
    "0.6",
    {"I": f"INFO{_AT}", "W": f"WARNING{_AT}", "X": _V0, "F": _V0, "E": f"ERROR{_AT}engine.py:158] "},
    {
        "start": """
I api_server.py:528] vLLM API server version 0.6.3
I api_server.py:529] args: Namespace(host=None, model='{model}', tensor_parallel_size={ranks}, gpu_memory_utilization=0.9, max_model_len={context}, max_num_seqs={slots}, swap_space=4)
I llm_engine.py:237] Initializing an LLM engine (v0.6.3) with config: model='{model}', tokenizer='{model}', dtype=torch.bfloat16, max_seq_len={context}, tensor_parallel_size={ranks}, enforce_eager=False
""",
        "load": "I model_runner.py:1056] Starting to load model {model}...",
        "loaded": "I model_runner.py:1067] Loading model weights took {weights:GiB.4} GB",
        "cache": "I gpu_executor.py:122] # GPU blocks: {blocks}, # CPU blocks: 2048\nI gpu_executor.py:126] Maximum concurrency for {context} tokens per request: 5.31x",
        "warm": "I model_runner.py:1395] Capturing the model for CUDA graphs. This may lead to unexpected consequences if the model is not static.\nI model_runner.py:1523] Graph capturing finished in 21 secs.",
        "ready": "| INFO:     Started server process [{pid}]\n| INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)",
        "serve": "I metrics.py:351] Avg prompt throughput: 41.2 tokens/s, Avg generation throughput: {running}1.4 tokens/s, Running: {running} reqs, Swapped: 0 reqs, Pending: {waiting} reqs, GPU KV cache usage: {percent:.1f}%, CPU KV cache usage: 0.0%.",
        "stop": "| INFO:     Shutting down\n| INFO:     Finished server process [{pid}]",
        "restart": V1.words["restart"].replace("VLLM::EngineCor", "python3"),
    },
)
V0_START = V0.but("0.6, a traceback without prefixes", {"X": "", "F": ""})

_T = "X Traceback (most recent call last):\n"
_OOM = "X torch.OutOfMemoryError: {oom}\n"
_FAILED = "P RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}\n"
_DEAD = "P vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.\n"
_INIT = (
    "D EngineCore failed to start.\n"
    + _T
    + "F vllm/v1/engine/core.py:run_engine_core engine_core = EngineCoreProc(*args, **kwargs)\n"
)
_LOAD = "F vllm/v1/worker/gpu_worker.py:load_model self.model_runner.load_model(eep_scale_up=eep_scale_up)\nF vllm/v1/worker/gpu_model_runner.py:load_model self.model = model_loader.load_model(\n"
_CREATE = _LOAD + "F vllm/model_executor/layers/linear.py:create_weights weight = ModelWeightParameter(data=torch.empty(\n"
_STAGING = (
    _LOAD
    + "F vllm/model_executor/layers/quantization/fp8.py:process_weights_after_loading qweight, scale = ops.scaled_fp8_quant(layer.weight, scale=None)\n"
)
_PROFILE = "F vllm/v1/worker/gpu_worker.py:determine_available_memory self.model_runner.profile_run()\nF vllm/v1/worker/gpu_model_runner.py:_dummy_run outputs = self.model(\nF vllm/model_executor/models/llama.py:forward gate_up, _ = self.gate_up_proj(x)\n"
_POOL = "F vllm/v1/worker/gpu_worker.py:initialize_from_config self.model_runner.initialize_kv_cache(kv_cache_config)\nF vllm/v1/worker/gpu_model_runner.py:_allocate_kv_cache_tensors tensor = torch.zeros(kv_cache_tensor.size, dtype=torch.int8, device=self.device)\n"
_CAPTURE = "F vllm/v1/worker/gpu_worker.py:compile_or_warm_up_model cuda_graph_memory_bytes = self.model_runner.capture_model()\nF vllm/v1/worker/gpu_model_runner.py:capture_model self._capture_cudagraphs(\nF vllm/compilation/cuda_graph.py:__call__ with torch.cuda.graph(cudagraph, pool=self.graph_pool):\n"
_SAMPLER = "F vllm/v1/worker/gpu_worker.py:compile_or_warm_up_model self.model_runner._dummy_sampler_run(hidden_states=last_hidden_states)\nF vllm/v1/worker/gpu_model_runner.py:_dummy_sampler_run sampler_output = self.sampler(\n"
_RUN = (
    _T
    + "F vllm/v1/worker/gpu_worker.py:execute_model output = self.model_runner.execute_model(scheduler_output)\nF vllm/v1/worker/gpu_model_runner.py:execute_model model_output = self._model_forward(\n"
)
_MLP = "F vllm/model_executor/models/qwen2.py:forward hidden_states = self.mlp(hidden_states)\nF vllm/model_executor/layers/activation.py:forward_cuda out = torch.empty(output_shape, dtype=x.dtype, device=x.device)\n"
_MOE = "F vllm/model_executor/models/qwen3_moe.py:forward final_hidden_states = self.experts(hidden_states=hidden_states)\nF vllm/model_executor/layers/fused_moe/fused_moe.py:fused_experts_impl intermediate_cache13 = torch.empty(M * top_k_num * max(N, K), device=hidden_states.device)\n"
_LOGPROBS = (
    _T
    + "F vllm/v1/worker/gpu_model_runner.py:execute_model prompt_logprobs_dict = self._get_prompt_logprobs_dict(\nF vllm/v1/sample/sampler.py:compute_logprobs return logits.log_softmax(dim=-1, dtype=torch.float32)\n"
)
_DUMP = "S Dumping scheduler output for model execution: SchedulerOutput(scheduled_new_reqs=[NewRequestData(req_id=chatcmpl-{n},prompt_token_ids_len={prompt},mm_features=[])], num_scheduled_tokens={{chatcmpl-{n}: {prompt}}}, total_num_scheduled_tokens={prompt}, preempted_req_ids=[])\n"
_FATAL = "D EngineCore encountered a fatal error.\n"
_V0_STEP = (
    _T
    + "F vllm/engine/multiprocessing/engine.py:run_engine_loop request_outputs = self.engine_step()\nF vllm/worker/model_runner.py:execute_model hidden_or_intermediate_states = model_executable(\n"
)
_V0_LOAD = (
    _T
    + "F vllm/worker/worker.py:load_model self.model_runner.load_model()\nF vllm/model_executor/layers/linear.py:create_weights weight = Parameter(torch.empty(sum(output_partition_sizes),\n"
)
_V0_DEAD = "E RuntimeError('Engine loop is not running. Inspect the stacktrace to find the original error')\n"
_PREEMPTED = "W scheduler.py:1439] Sequence group cmpl-{n} is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache space. This can affect the end-to-end performance. Increase gpu_memory_utilization or tensor_parallel_size to provide more KV cache memory. total_num_cumulative_preemption={paused}\n"
_SCHEDULE = (
    _FATAL
    + _T
    + 'F vllm/v1/engine/core.py:run_busy_loop self._process_engine_step()\nF vllm/v1/core/sched/scheduler.py:schedule new_blocks = self.kv_cache_manager.allocate_slots(\nF vllm/v1/core/block_pool.py:get_new_blocks raise ValueError(f"Cannot get {{num_blocks}} free blocks from the pool")\nX ValueError: Cannot get 3 free blocks from the pool\n'
    + _DEAD
)
_WAKE = (
    _FATAL
    + _T
    + "F vllm/v1/worker/gpu_worker.py:wake_up allocator.wake_up(tags)\nF vllm/device_allocator/cumem.py:wake_up create_and_map(handle)\nX RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62\n"
    + _DEAD
)
_RELOAD = (
    _FATAL
    + _T
    + "F vllm/v1/worker/gpu_worker.py:reload_weights self.model_runner.reload_weights()\nF vllm/model_executor/models/utils.py:load_weights staged = {{name: tensor.to(device) for name, tensor in weights}}\n"
    + _OOM
    + _DEAD
)
_LORA = (
    _T
    + "F vllm/v1/worker/lora_model_runner_mixin.py:add_lora return self.lora_manager.add_adapter(lora_request)\nF vllm/lora/worker_manager.py:_load_adapter lora = self._lora_model_cls.from_local_checkpoint(\n"
    + _OOM
)
_NIXL = (
    _INIT
    + "F vllm/v1/worker/gpu_model_runner.py:initialize_kv_cache get_kv_transfer_group().register_kv_caches(kv_caches)\nF vllm/distributed/kv_transfer/kv_connector/v1/nixl_connector.py:register_kv_caches self.nixl_wrapper.register_memory(descs, backends=self.nixl_backends)\n"
    + _OOM
    + _FAILED
)
_GATE = (
    _INIT
    + "F vllm/v1/worker/gpu_worker.py:init_device raise ValueError(\nX ValueError: Free memory on device (11.02/{total:GiB} GiB) on startup is less than desired GPU memory utilization (0.9, 71.32 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
    + _FAILED
)
_ILLEGAL = _FATAL + _RUN + "X torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n" + _DEAD


def _hip(failure: str) -> str:
    return failure.replace("{oom}", "{oom_hip}")


_STEP = _FATAL + _RUN + _MLP + _OOM + _DUMP + _DEAD
_ROWS = (
    ("load_weights", "create", V1, _INIT + _CREATE + _OOM + _FAILED, 1),
    ("load_weights", "v0", V0_START, _V0_LOAD + _OOM, 1),
    ("load_staging", "fp8_workers", WORKERS, _INIT + _STAGING + _OOM + _FAILED, 2),
    ("load_neighbour", "create", NEW, _INIT + _CREATE + _OOM + _FAILED, 1),
    ("warm_up_pool", "tensors", V1, _INIT + _POOL + _OOM + _FAILED, 1),
    ("warm_up_run", "capture", NEW, _INIT + _CAPTURE + _OOM + _FAILED, 1),
    ("warm_up_run", "sampler_workers", WORKERS, _INIT + _SAMPLER + _OOM + _FAILED, 2),
    ("warm_up_run", "v0_capture", V0_START, _T + "F vllm/worker/worker.py:_warm_up_model self.model_runner.capture_model(self.gpu_cache)\nF vllm/worker/model_runner.py:capture with torch.cuda.graph(self._graph, pool=memory_pool, stream=stream):\n" + _OOM, 1),
    ("prefill_long_prompt", "mlp", V1, _STEP, 1),
    ("prefill_long_prompt", "moe_workers", WORKERS, _FATAL + _RUN + _MOE + _OOM + _DUMP + _DEAD, 2),
    ("prefill_long_prompt", "prompt_logprobs", NEW, _FATAL + _LOGPROBS + _OOM + _DUMP + _DEAD, 1),
    ("prefill_long_prompt", "v0_layer", V0, _V0_STEP + "F vllm/model_executor/models/llama.py:forward gate_up, _ = self.gate_up_proj(x)\n" + _OOM + _V0_DEAD, 1),
    ("prefill_looks_fragmented", "mlp", NEW, _STEP, 1),
    ("decode_preempting", "silent", V1, "", 1),
    ("decode_preempting", "v0_recompute", V0, _PREEMPTED, 1),
    ("decode_exhausted", "v0_swap", V0, _PREEMPTED.replace("RECOMPUTE", "SWAP").replace("{paused}", "51") + _T + "F vllm/core/scheduler.py:_swap_out raise RuntimeError(\nX RuntimeError: Aborted due to the lack of CPU swap space. Please increase the swap space to avoid this error.\n", 1),
    ("decode_exhausted", "no_free_blocks", NEW, _SCHEDULE, 1),
    ("fragmentation_same_shape", "mlp", DETAILS, _STEP, 1),
    ("fragmentation_same_shape", "moe", DETAILS, _FATAL + _RUN + _MOE + _OOM + _DUMP + _DEAD, 1),
    ("fragmentation_same_shape", "workers", DETAILS_WORKERS, _STEP, 2),
    ("fragmentation_same_shape", "hip", DETAILS, _hip(_STEP), 1),
    ("recovery_restart", "left_over", V1, _INIT + _CREATE + _OOM + _FAILED, 1),
    ("recovery_wake", "cumem", V1, _WAKE, 1),
    ("recovery_wake", "cumem_workers", WORKERS, _WAKE, 2),
    ("recovery_reload", "weights", NEW, _RELOAD, 1),
    ("recovery_reload", "adapter", V1, _LORA, 1),
    ("gate_start", "free_memory", V1, _GATE, 1),
    ("not_oom_illegal_access", "step", NEW, _ILLEGAL, 1),
    ("healthy", "v1", V1, "", 1),
    ("healthy", "v0", V0, "", 1),
    ("healthy", "workers", WORKERS, "", 2),
)  # fmt: skip
_UNPROVEN = label("oom", "prefill_spike", "device", also_classes=(None,))
"""V0 prints no batch: only where the request is too large for all sequences that may run does its size decide."""


def _fixture(story: str, variant: str, dialect: Dialect, failure: str, ranks: int) -> Fixture:
    return Fixture("vllm", story, variant, dialect, failure, ranks, _UNPROVEN if variant == "v0_layer" else None)


FIXTURES = tuple(_fixture(*row) for row in _ROWS)
