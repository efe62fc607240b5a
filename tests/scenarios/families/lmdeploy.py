"""LMDeploy: TurboMind of 2024 and of 2026, and the PyTorch engine, alone and with Ray workers.

Forms as in public reports and source: turbomind's logger, BlockManager, SequenceManager and allocators; lmdeploy/pytorch
engine, executors, cache engine; serve/async_engine (a request's line tells its input tokens); uvicorn's access lines.
TurboMind prints no figure with a failure, so only the PyTorch engine can show fragmentation.
"""

# ruff: noqa: E501  one printed line is one line

from tests.scenarios.families.dialect import Dialect, Fixture

_LOG = "{now:%Y-%m-%d %H:%M:%S},412 - lmdeploy - "
_READY = """
| HINT:    Please open http://0.0.0.0:23333 in a browser for detailed api usage!!!
| INFO:     Started server process [{pid}]
| INFO:     Application startup complete.
| INFO:     Uvicorn running on http://0.0.0.0:23333 (Press CTRL+C to quit)
"""
_ASKED = "I async_engine.py:702 - session={n}, history_tokens=0, input_tokens=TOKENS, max_new_tokens=512, seq_start=True, seq_end=True, step=0, prep=True"
_STOP = "| INFO:     Shutting down\n| INFO:     Finished server process [{pid}]"
_LEFT = "| systemd[1]: lmdeploy.service: Found left-over process {other_pid} (lmdeploy) in control group while starting unit. Ignoring."
TURBOMIND = Dialect(
    "TurboMind 0.6",
    {
        "I": _LOG + "INFO - ",
        "W": _LOG + "WARNING - ",
        "T": "[TM][INFO] ",
        "V": "[TM][WARNING] ",
        "E": "[TM][ERROR] ",
        "F": "",
    },
    {
        "start": "I input backend=turbomind, backend_config=TurbomindEngineConfig(model_format=None, tp={ranks}, session_len={context}, max_batch_size={slots}, cache_max_entry_count=0.8, cache_block_seq_len={block_tokens}, quant_policy=0, max_prefill_token_num={chunk})",
        "load": "V [LlamaTritonModel] `max_context_token_num` is not set, default to {context}.\nW turbomind.py:231 - get 291 model params",
        "loaded": "| Convert to turbomind format: 100%|##########| 48/48 [00:11<00:00,  4.21it/s]\n| [WARNING] gemm_config.in is not found; using default GEMM algo",
        "cache": """
T [BlockManager] block_size = {block:MiB.0} MB
T [BlockManager] max_block_count = {blocks}
T [BlockManager] chunk_size = {blocks}
T LlamaBatch<T>::Start()
""",
        "warm": "T [Gemm2] Tuning sequence: 8, 16, 32, 48, 64, 96, 128\nT [Gemm2] Tuning finished in 2.31 seconds.",
        "ready": _READY,
        "serve": """
T [ProcessInferRequests] Request for {n} received.
T [Forward] [0, {running}), dc_bsz = {running}, pf_bsz = 0, n_tok = {running}, max_q = 1, max_k = 731
T ------------------------- step = 730 -------------------------
""",
        "prompt": """
T [ProcessInferRequests] Request for {n}8 received.
T [Forward] [0, 1), dc_bsz = 0, pf_bsz = 1, n_tok = {prompt}, max_q = {prompt}, max_k = {prompt}
""",
        "stop": _STOP,
        "restart": _LEFT,
        "sleep": '| INFO:     10.0.3.7:{port} - "POST /sleep?level=1 HTTP/1.1" 200 OK',
        "wake": '| INFO:     10.0.3.7:{port} - "POST /wakeup HTTP/1.1" 200 OK',
    },
)
_STAMP = "[{now:%m%d.%H:%M:%S.%f}]"
TURBOMIND_NEW = TURBOMIND.but(
    "TurboMind 0.14",
    {"T": f"[TM][INFO]{_STAMP}", "V": f"[TM][WARN]{_STAMP}", "E": f"[TM][FATAL]{_STAMP}"},
    {
        "load": "V [turbomind.cc:123] `max_context_token_num` is not set, default to {context}.",
        "cache": "T [BlockManager.cc:41] [BlockManager] block_size = {block:MiB} MB\nT [BlockManager.cc:42] [BlockManager] max_block_count = {blocks}",
        "serve": "T [engine.cc:812] dc_bsz = {running}, pf_bsz = 0, n_tok = {running}\n" + _ASKED.replace("TOKENS", "377"),
        "prompt": _ASKED.replace("TOKENS", "{prompt}"),
        "warm": "",
    },
)
PYTORCH = Dialect(
    "PyTorch engine",
    {"I": _LOG + "INFO - ", "W": _LOG + "WARNING - ", "E": _LOG + "ERROR - ", "F": ""},
    {
        "start": "I input backend=pytorch, backend_config=PytorchEngineConfig(dtype='auto', tp={ranks}, session_len={context}, max_batch_size={slots}, cache_max_entry_count=0.8, block_size={block_tokens}, max_prefill_token_num={chunk})",
        "load": "I base.py:163 - Building Model.\n| Loading weights from safetensors:  25%|##5       | 2/8 [00:03<00:09,  1.52s/it]",
        "loaded": "| Loading weights from safetensors: 100%|##########| 8/8 [00:11<00:00,  1.41s/it]\nI base.py:165 - Updating configs.",
        "cache": """
I base.py:168 - Building GraphRunner.
I base.py:171 - Building CacheEngine.
I cache_engine.py:36 - build CacheEngine with config:CacheConfig(max_batches={slots}, block_size={block_tokens}, num_cpu_blocks=0, num_gpu_blocks={blocks}, window_size=-1, cache_max_entry_count=0.8, max_prefill_token_num={chunk}, enable_prefix_caching=False, quant_policy=0)
""",
        "warm": "I base.py:174 - Warming up model.",
        "ready": _READY,
        "serve": _ASKED.replace("TOKENS", "377")
        + '\n| INFO:     10.0.3.9:{port} - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        "prompt": _ASKED.replace("TOKENS", "{prompt}"),
        "stop": _STOP,
        "restart": _LEFT,
        "reload": '| INFO:     10.0.3.7:{port} - "POST /update_weights HTTP/1.1" 200 OK',
    },
)
_RAY = "\x1b[36m(RayWorkerWrapper pid={pid}{rank})\x1b[0m "
RAY = PYTORCH.but("PyTorch engine, Ray workers", {"E": _RAY + PYTORCH.marks["E"], "F": _RAY, "Y": _RAY})

_ALLOCATOR = "[TM][ERROR] CUDA runtime error: out of memory /lmdeploy/src/turbomind/utils/allocator.h:233"
_ABORT = (
    "\n| terminate called after throwing an instance of 'std::runtime_error'\n|   what():  "
    + _ALLOCATOR
    + " \n|\n| Aborted (core dumped)\n"
)
_FATAL = "\nE [allocator.cc:49] CUDA error: out of memory\n| Aborted (core dumped)\n"
_T = "\n| Traceback (most recent call last):\n"
_FORWARD = """
F lmdeploy/pytorch/engine/model_agent.py:_forward_impl output = self.patched_model(**input_dict)
F lmdeploy/pytorch/models/qwen2.py:forward hidden_states = self.mlp(hidden_states)
F lmdeploy/pytorch/nn/linear.py:forward out = self.impl.forward(x, self.weight, self.bias)
| torch.OutOfMemoryError: {oom}
"""
_LOOP = f"E engine.py:904 - Task <MainLoopBackground> failed{_T}F lmdeploy/pytorch/engine/engine.py:__task_callback task.result()\n"
_STEP = (
    _LOOP
    + "F lmdeploy/pytorch/engine/model_agent.py:_async_step_background output = await self._async_model_forward(inputs)\n"
    + _FORWARD
)
_BUILD = f"{_T}F lmdeploy/serve/async_engine.py:_build_pytorch self.engine = Engine(model_path=model_path,\nF lmdeploy/pytorch/engine/executor/base.py:init self.build_model()\n"
_LOAD = "F lmdeploy/pytorch/weight_loader/model_weight_loader.py:load_model_weights loader.load_model_weights(model, device=device)\nF lmdeploy/pytorch/nn/linear.py:create_weights weight = torch.empty((out_features, in_features), dtype=dtype, device=device)\n| torch.OutOfMemoryError: {oom}\n"


def _of_ray(text: str) -> str:
    """The same as a Ray worker prints it: each line behind its name."""
    return "\n".join("Y" + line[1:] if line.startswith("| ") else line for line in text.split("\n"))


def _fixture(story: str, variant: str, dialect: Dialect, failure: str, ranks: int = 1) -> Fixture:
    return Fixture("lmdeploy", story, variant, dialect, _of_ray(failure) if dialect is RAY else failure, ranks)


FIXTURES = (
    _fixture("load_weights", "turbomind", TURBOMIND, f"""{_T}
F lmdeploy/turbomind/turbomind.py:_from_hf self._create_weight(model_comm)
F lmdeploy/turbomind/turbomind.py:_create_weight future.result()
F concurrent/futures/thread.py:run result = self.fn(*self.args, **self.kwargs)
F lmdeploy/turbomind/turbomind.py:_create_weight_func model_comm.create_shared_weights(device_id, rank)
| RuntimeError: [TM][ERROR] CUDA runtime error: out of memory /lmdeploy/src/turbomind/utils/memory_utils.cu:32
"""),
    _fixture("load_weights", "turbomind_new", TURBOMIND_NEW, _FATAL),
    _fixture("load_staging", "pytorch", PYTORCH, _BUILD + _LOAD),
    _fixture("load_neighbour", "ray", RAY, "E ray_executor.py:210 - Build model failed" + _BUILD + _LOAD, 2),
    _fixture("warm_up_pool", "turbomind_instance", TURBOMIND, f"""
| Exception in thread Thread-7 (_create_model_instance):{_T}
F threading.py:run self._target(*self._args, **self._kwargs)
F lmdeploy/turbomind/turbomind.py:_create_model_instance model_inst = self.tm_model.model_comm.create_model_instance(
| RuntimeError: {_ALLOCATOR}
"""),
    _fixture("warm_up_run", "turbomind_new", TURBOMIND_NEW, "T [engine.cc:301] Warm-up lengths: 8, 16, 32, 64, 128, {chunk}" + _FATAL),
    _fixture("warm_up_pool", "pytorch_cache", PYTORCH, "I base.py:171 - Building CacheEngine." + _T + "F lmdeploy/pytorch/engine/executor/base.py:init self.build_cache_engine()\nF lmdeploy/pytorch/engine/cache_engine.py:allocate_gpu_cache caches = self._allocate_cache(self.num_gpu_blocks, 'cuda')\nF lmdeploy/pytorch/engine/cache_engine.py:_allocate_cache key_cache = torch.empty(\n| torch.OutOfMemoryError: {oom}"),
    _fixture("warm_up_run", "ray_graph", RAY, "E ray_executor.py:233 - Warmup failed" + _T + "F lmdeploy/pytorch/engine/model_agent.py:warmup self._forward_impl(inputs)\nF lmdeploy/pytorch/backends/cuda/graph_runner.py:capture output = self.model(**padded_kwargs)\n| torch.OutOfMemoryError: {oom}", 2),
    _fixture("prefill_long_prompt", "turbomind", TURBOMIND, _ABORT),
    _fixture("prefill_long_prompt", "turbomind_new", TURBOMIND_NEW, _FATAL),
    _fixture("prefill_long_prompt", "pytorch", PYTORCH, _STEP),
    _fixture("prefill_looks_fragmented", "ray", RAY, _STEP, 2),
    _fixture("decode_exhausted", "turbomind", TURBOMIND, "| [TM][FATAL] models/llama/SequenceManager.cc(462): Check failed: sequences.empty() || !active.empty() No enough blocks\n| Aborted (core dumped)"),
    _fixture("decode_exhausted", "turbomind_new", TURBOMIND_NEW, "E [SequenceManager.cc:462] Check failed: sequences.empty() || !active.empty() No enough blocks\n| Aborted (core dumped)"),
    _fixture("decode_exhausted", "pytorch", PYTORCH, _LOOP + "F lmdeploy/pytorch/paging/scheduler.py:_schedule_decoding self.block_manager.allocate(seq, prealloc_size)\nF lmdeploy/pytorch/paging/block_manager/base_block_manager.py:allocate raise MemoryError('No enough free memory blocks.')\n| MemoryError: No enough free memory blocks."),
    _fixture("decode_preempting", "pytorch", PYTORCH, "W engine.py:1052 - no next prefill running request, Maybe cache is full, free gpu cache blocks: {unused}, total gpu cache blocks: {blocks}"),
    _fixture("fragmentation_same_shape", "pytorch", PYTORCH, _STEP),
    _fixture("fragmentation_same_shape", "pytorch_old_message", PYTORCH, _STEP.replace("torch.OutOfMemoryError: {oom}", "torch.cuda.OutOfMemoryError: {oom21}")),
    _fixture("fragmentation_same_shape", "ray", RAY, _STEP, 2),
    _fixture("fragmentation_same_shape", "logits", PYTORCH, _STEP.replace("hidden_states = self.mlp(hidden_states)", "return self.lm_head(hidden_states)").replace("{oom}", "{oom20}")),
    _fixture("recovery_restart", "turbomind", TURBOMIND, f"""{_T}
F lmdeploy/turbomind/turbomind.py:_create_weight_func model_comm.create_shared_weights(device_id, rank)
| RuntimeError: [TM][ERROR] CUDA runtime error: out of memory /lmdeploy/src/turbomind/utils/memory_utils.cu:32
"""),
    _fixture("recovery_restart", "pytorch", PYTORCH, _BUILD + _LOAD),
    _fixture("recovery_reload", "ray", RAY, _LOOP + "F lmdeploy/pytorch/engine/model_agent.py:update_params weights = ForkingPickler.loads(pybase64.b64decode(request.serialized_named_tensors))\nF torch/multiprocessing/reductions.py:rebuild_cuda_tensor storage = storage_cls._new_shared_cuda(\n| torch.OutOfMemoryError: {oom}", 2),
    _fixture("recovery_wake", "turbomind_new", TURBOMIND_NEW, _FATAL),
    _fixture("gate_start", "pytorch", PYTORCH, _BUILD + "F lmdeploy/pytorch/engine/executor/base.py:update_configs raise RuntimeError('No enough gpu memory for kv cache.')\n| RuntimeError: No enough gpu memory for kv cache."),
    _fixture("not_oom_illegal_access", "turbomind", TURBOMIND_NEW, "E [kv_cache_utils_v2.cu:555] CUDA error: an illegal memory access was encountered\n| Aborted (core dumped)"),
    _fixture("healthy", "turbomind", TURBOMIND, ""),
    _fixture("healthy", "pytorch", PYTORCH, ""),
)  # fmt: skip
