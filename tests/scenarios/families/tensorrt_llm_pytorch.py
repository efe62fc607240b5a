"""TensorRT-LLM's PyTorch backend: trtllm-serve of two versions, without times, and inside Triton's Python backend.

Forms as in public reports and source: _torch/pyexecutor (iteration log, executor creation table), llmapi, executor.
"""

# ruff: noqa: E501  one printed line is one line

from tests.scenarios.families.dialect import Dialect, Fixture
from tests.scenarios.families.tensorrt_llm_cpp import BLOCKS, TRITON

PYTORCH = Dialect(
    "PyTorch backend 1.0",
    {
        "I": "[{now:%m/%d/%Y-%H:%M:%S}] [TRT-LLM] [RANK {rank}] [I] ",
        "E": "[{now:%m/%d/%Y-%H:%M:%S}] [TRT-LLM] [RANK {rank}] [E] ",
        "C": "[TensorRT-LLM][INFO] ",
        "X": "[TensorRT-LLM][ERROR] ",
        "F": "",
    },
    {
        "start": """
| [TensorRT-LLM] TensorRT-LLM version: 1.0.0
I Using LLM with PyTorch backend
I Set nccl_plugin to None.
| rank 0 using MpiPoolSession to spawn MPI processes
""",
        "load": """
I* Prefetching {weights:GB}GB checkpoint files.
| Loading weights:  12%|#2        | 41/339 [00:02<00:15, 19.4it/s]
""",
        "loaded": "I* Use {weights:GB} GB for model weights.",
        "cache": """
C [MemUsageChange] Allocated {kv:GiB} GiB for max tokens in paged KV cache ({pool_tokens}).
I* Memory used after loading model weights (inside torch) in memory usage profiling: {weights:GiB} GiB
I* Memory used after loading model weights (outside torch) in memory usage profiling: {non_torch:GiB} GiB
""",
        "warm": """
I* [Autotuner] Autotuning process starts ...
I* [Autotuner] Autotuning process ends
I* Creating CUDA graph instances for 9 batch sizes.
""",
        "ready": """
| INFO:     Started server process [{pid}]
| INFO:     Application startup complete.
| INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)
""",
        "serve": "I iter = {n}, global_rank = 0, rank = 0, currank_total_requests = 0/{running}, host_step_time = 21.73ms, prev_device_step_time = 21.2ms, timestamp = {now:%Y-%m-%d %H:%M:%S}, num_scheduled_requests: {running}, states = {{'num_ctx_requests': 0, 'num_ctx_tokens': 0, 'num_generation_tokens': {running}}}",
        "prompt": "I iter = {n}, global_rank = 0, rank = 0, currank_total_requests = 0/{running}, host_step_time = 310.4ms, prev_device_step_time = 300.2ms, timestamp = {now:%Y-%m-%d %H:%M:%S}, num_scheduled_requests: {running}, states = {{'num_ctx_requests': 1, 'num_ctx_tokens': {prompt}, 'num_generation_tokens': {running}}}",
        "stop": """
| INFO:     Shutting down
| INFO:     Finished server process [{pid}]
""",
        "restart": "| systemd[1]: trtllm-serve.service: Found left-over process {other_pid} (python3) in control group while starting unit. Ignoring.",
        "reload": """
| INFO:     10.0.3.7:{port} - "POST /update_weights HTTP/1.1" 200 OK
I* update weights from ipc handles
""",
        "sleep": """
I* Releasing memory with tags: model_weights_main, kv_cache
| INFO:     10.0.3.7:{port} - "POST /release_memory HTTP/1.1" 200 OK
""",
        "wake": "I* Resuming memory with tags: model_weights_main, kv_cache",
    },
)
_ITER = "I iter = {n}, global_rank = 0, rank = 0, num_scheduled_requests = {running}, kv_cache_util = {usage:.3f}, currank_total_requests = 0/{running}, host_step_time = 19.8ms, prev_device_step_time = 19.002ms, timestamp = {now:%Y-%m-%d %H:%M:%S}, states = {{'num_ctx_requests': CONTEXT, 'num_ctx_tokens': TOKENS, 'num_generation_tokens': {running}, 'cached_kv_tokens': {used_tokens}}}"
NEWER = PYTORCH.but(
    "PyTorch backend 1.3",
    {
        "I": "[{now:%m/%d/%Y-%H:%M:%S}] [TRT-LLM] [I] [_torch][RANK {rank}] ",
        "E": "[{now:%m/%d/%Y-%H:%M:%S}] [TRT-LLM] [E] [_torch][RANK {rank}] ",
    },
    {
        "serve": _ITER.replace("CONTEXT", "0").replace("TOKENS", "0"),
        "prompt": _ITER.replace("CONTEXT", "1").replace("TOKENS", "{prompt}"),
        "start": """
| [TensorRT-LLM] TensorRT-LLM version: 1.3.0rc4
I Using LLM with PyTorch backend
""",
    },
)
BARE = PYTORCH.but("PyTorch backend, no times", {"I": "[TRT-LLM] [I] ", "E": "[TRT-LLM] [E] "})

_START = """
| Traceback (most recent call last):
F tensorrt_llm/executor/worker.py:worker_main worker: GenerationExecutorWorker = worker_cls(
F tensorrt_llm/_torch/pyexecutor/py_executor_creator.py:create_py_executor model_engine = PyTorchModelEngine(
"""
_STEP = """
| Traceback (most recent call last):
F tensorrt_llm/_torch/pyexecutor/py_executor.py:_forward_step outputs = forward(scheduled_requests, self.resource_manager,
F tensorrt_llm/_torch/pyexecutor/model_engine.py:_forward_step logits = self.model_forward(**inputs)
F tensorrt_llm/_torch/models/modeling_qwen.py:forward hidden_states = self.mlp(hidden_states)
F tensorrt_llm/_torch/modules/gated_mlp.py:forward h1 = self.gate_up_proj(x)
F tensorrt_llm/_torch/modules/linear.py:apply output = F.linear(input, module.weight, bias)
| torch.OutOfMemoryError: {oom}
E Encountered an error in forward function: {oom}
"""
_TABLE = """
| RuntimeError: Executor creation failed due to insufficient GPU memory.
|
| The following component could not be created: WHAT
| Total GPU memory (GiB): {total:GiB}
| Free GPU memory before component creation attempt (GiB): {left:GiB}
|
| Previously created components and free GPU memory before/after creation (GiB):
BEFORE|
| Please refer to the TensorRT-LLM documentation for information on how to control the memory usage through TensorRT-LLM configuration options. Possible options include:
|   Model: reduce max_num_tokens and/or shard the model weights across GPUs by enabling pipeline and/or tensor parallelism
|   KV cache: reduce free_gpu_memory_fraction
"""
_MODEL = """
| Model: {total:GiB} / {left:GiB}
| Sampler: {left:GiB} / {left:GiB}
"""


def _fixture(story: str, variant: str, dialect: Dialect, failure: str, ranks: int = 1) -> Fixture:
    return Fixture("tensorrt_llm", story, variant, dialect, failure, ranks)


FIXTURES = (
    _fixture("load_neighbour", "pytorch_ranks", PYTORCH, """
E Error executing load_single_module with args ('model.layers.17.mlp.down_proj', Linear()): {oom}
E Failed to initialize executor on rank {rank}: {oom}
""", 2),
    _fixture("load_weights", "table", PYTORCH, _START + """
F tensorrt_llm/_torch/pyexecutor/py_executor_creator.py:observe_creation_stage raise RuntimeError(explanation) from e
""" + _TABLE.replace("WHAT", "Model").replace("BEFORE", "")),
    _fixture("load_staging", "no_times", BARE, _START + """
F tensorrt_llm/_torch/pyexecutor/model_engine.py:_load_model model = model_loader.load(checkpoint_dir)
F tensorrt_llm/_torch/models/modeling_utils.py:load_single_module module.load_weights(weights=module_weights)
F tensorrt_llm/_torch/modules/linear.py:load_weights_fused_gate_up_linear fused_weight = torch.cat((gate_weight, up_weight))
| torch.OutOfMemoryError: {oom}
"""),
    _fixture("warm_up_pool", "table_ranks", PYTORCH, """
E Failed to initialize executor on rank {rank}: Executor creation failed due to insufficient GPU memory.
""" + _START + _TABLE.replace("WHAT", "KV cache").replace("BEFORE", _MODEL), 2),
    _fixture("warm_up_run", "capture", NEWER, _START + """
F tensorrt_llm/_torch/pyexecutor/model_engine.py:warmup self._run_cuda_graph_warmup(resource_manager)
F tensorrt_llm/_torch/pyexecutor/model_engine.py:_capture_generation_cuda_graphs self.forward(batch,
F tensorrt_llm/_torch/pyexecutor/cuda_graph_runner.py:capture output = forward_fn(capture_inputs)
| torch.OutOfMemoryError: {oom}
""", 2),
    _fixture("prefill_long_prompt", "pytorch", PYTORCH, _STEP),
    _fixture("prefill_looks_fragmented", "newer_ranks", NEWER, _STEP, 2),
    _fixture("decode_exhausted", "newer", NEWER, """
| Traceback (most recent call last):
F tensorrt_llm/_torch/pyexecutor/py_executor.py:_executor_loop_overlap self.resource_manager.prepare_resources(scheduled_batch)
F tensorrt_llm/_torch/pyexecutor/resource_manager.py:prepare_resources self.impl.add_token(req.py_request_id)
| RuntimeError: [TensorRT-LLM][ERROR] """ + BLOCKS),
    _fixture("fragmentation_same_shape", "pytorch", PYTORCH, _STEP),
    _fixture("fragmentation_same_shape", "newer_ranks", NEWER, _STEP, 4),
    _fixture("fragmentation_same_shape", "no_times", BARE, _STEP),
    _fixture("fragmentation_same_shape", "python_backend", NEWER.but("Triton's Python backend", {"X": TRITON.marks["X"]}), _STEP + """
X pb_stub.cc:714] Failed to process the request(s) for model 'tensorrt_llm_0_0', message: RequestError: {oom}
"""),
    _fixture("recovery_restart", "pytorch", PYTORCH, _START + """
F tensorrt_llm/_torch/models/modeling_utils.py:load_weights load_single_module(name, module)
| torch.OutOfMemoryError: {oom}
"""),
    _fixture("recovery_reload", "rlhf", NEWER, """
| Traceback (most recent call last):
F tensorrt_llm/llmapi/rlhf_utils.py:update_weights weights[param_name] = func(*list_args)
F torch/multiprocessing/reductions.py:rebuild_cuda_tensor storage = storage_cls._new_shared_cuda(
| torch.OutOfMemoryError: {oom}
""", 2),
    _fixture("recovery_wake", "virtual_memory", BARE, """
| Traceback (most recent call last):
F tensorrt_llm/executor/base_worker.py:wakeup materialize_with_tag(*tags)
F tensorrt_llm/_torch/virtual_memory.py:materialize_with_tag return get_virtual_memory_manager().materialize_with_tag(tag)
| RuntimeError: [TensorRT-LLM][ERROR] CUDA driver error in cuMemCreate(&handle, size, &prop, 0): CUDA_ERROR_OUT_OF_MEMORY: out of memory. (/src/tensorrt_llm/cpp/tensorrt_llm/runtime/virtualMemory.cpp:74)
"""),
    _fixture("healthy", "newer", NEWER, ""),
)  # fmt: skip
