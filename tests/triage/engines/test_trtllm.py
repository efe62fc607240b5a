# ruff: noqa: E501  (lines as the engine prints them)
"""TensorRT-LLM's commonest reports, C++ runtime, PyTorch backend and Triton around them."""

import pytest

from tests.triage.engines.reports import Report, check

SIZED = """\
[TensorRT-LLM][INFO] Engine version 0.17.0 found in the config file, assuming engine(s) built by new builder API.
[TensorRT-LLM][INFO] MPI size: 1, MPI local size: 1, rank: 0
[TensorRT-LLM][INFO] TRTGptModel maxBatchSize: 64
[TensorRT-LLM][INFO] Loaded engine size: 15317 MiB
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 2410.00 MiB for execution context memory.
[TensorRT-LLM][INFO] [MemUsageChange] TensorRT-managed allocation in IExecutionContext creation: CPU +0, GPU +0, now: CPU 0, GPU 15310 (MiB)
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 1.40 GB GPU memory for runtime buffers.
[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 39.39 GiB, available: 18.22 GiB
[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 2099
[TensorRT-LLM][INFO] Number of tokens per block: 64.
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 16.40 GiB for max tokens in paged KV cache (134336).
"""
UP = SIZED + (
    "I0301 08:15:40.100000 1 grpc_server.cc:2463] Started GRPCInferenceService at 0.0.0.0:8001\n"
    "I0301 08:15:40.101000 1 http_server.cc:4692] Started HTTPService at 0.0.0.0:8000\n"
)
TORCH_UP = """\
[07/19/2025-09:01:02] [TRT-LLM] [I] TensorRT-LLM version: 1.0.0rc4
[07/19/2025-09:01:44] [TRT-LLM] [RANK 0] [I] Use 30.55 GB for model weights.
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 38.12 GiB for max tokens in paged KV cache (312288).
[07/19/2025-09:02:31] [TRT-LLM] [RANK 0] [I] Creating CUDA graph instances for 12 batch sizes.
INFO:     Application startup complete.
[07/19/2025-09:05:11] [TRT-LLM] [RANK 0] [I] iter = 40, global_rank = 0, rank = 0, currank_total_requests = 0/0, \
elapsed_time = 0.03s, timestamp = 2025-07-19 09:05:11, num_scheduled_requests: 9, \
states = {'num_ctx_requests': 0, 'num_ctx_tokens': 0, 'num_generation_tokens': 9}
"""
ITERATION = (
    "[07/19/2025-09:05:12] [TRT-LLM] [RANK 0] [I] iter = 41, global_rank = 0, rank = 0, currank_total_requests = 1/1, "
    "host_step_time = 31.2ms, prev_device_step_time = 30.1ms, timestamp = 2025-07-19 09:05:12, num_scheduled_requests: 10, "
    "states = {'num_ctx_requests': 1, 'num_ctx_tokens': 16384, 'num_generation_tokens': 9}\n"
)
TABLE = """\
[07/08/2025-19:47:15] [TRT-LLM] [RANK 1] [E] Failed to initialize executor on rank 1: Executor creation failed due to \
insufficient GPU memory.

The following component could not be created: {component}
Total GPU memory (GiB): 139.81
Free GPU memory before component creation attempt (GiB): {free}

Previously created components and free GPU memory before/after creation (GiB):
{before}

Please refer to the TensorRT-LLM documentation for information on how to control the memory usage.
"""
GEN_STATS = (
    '[TensorRT-LLM][INFO] {{"Active Request Count":{active},"Context Requests":0,"Free KV cache blocks":{free},'
    '"Generation Requests":{running},"Iteration Counter":{step},"Max KV cache blocks":2448,"Max Request Count":256,'
    '"MicroBatch ID":0,"Runtime CPU Memory Usage":28784,"Runtime GPU Memory Usage":540173600,'
    '"Runtime Pinned Memory Usage":0,"Scheduled Requests":{running},"Timestamp":"12-13-2023 14:55:14",'
    '"Tokens per KV cache block":128,"Total Context Tokens":0,"Used KV cache blocks":{used}}}\n'
)

REPORTS = (
    Report(
        "the engine itself does not fit",
        """\
[TensorRT-LLM][INFO] Engine version 0.14.0 found in the config file, assuming engine(s) built by new builder API.
[TensorRT-LLM][INFO] Loaded engine size: 68370 MiB
[TensorRT-LLM][ERROR] [defaultAllocator.cpp::allocate::31] Error Code 1: Cuda Runtime (out of memory)
[TensorRT-LLM][WARNING] Requested amount of GPU memory (69568823808 bytes) could not be allocated. There may not be enough \
free memory for allocation to succeed.
[TensorRT-LLM][ERROR] [deserialize.cpp::load::572] Error Code 2: OutOfMemory (Requested size was 69568823808 bytes.)
[TensorRT-LLM][ERROR] Assertion failed: Failed to deserialize cuda engine. (/home/jenkins/tllmRuntime.cpp:135)
""",
        "oom", "load_time",
    ),
    Report(
        "the engine does not fit, older spelling",
        """\
[TensorRT-LLM][INFO] Loaded engine size: 13200 MiB
[TensorRT-LLM][ERROR] 1: [defaultAllocator.cpp::allocate::20] Error Code 1: Cuda Runtime (out of memory)
[TensorRT-LLM][WARNING] Requested amount of GPU memory (13841203200 bytes) could not be allocated. There may not be enough \
free memory for allocation to succeed.
[TensorRT-LLM][ERROR] 2: [safeDeserialize.cpp::load::269] Error Code 2: OutOfMemory (no further information)
""",
        "oom", "load_time",
    ),
    Report(
        "Triton could not make the model's instance: no room for its buffers",
        """\
[TensorRT-LLM][INFO] Loaded engine size: 12855 MiB
[TensorRT-LLM][INFO] [MemUsageChange] TensorRT-managed allocation in IExecutionContext creation: CPU +0, GPU +0, now: CPU 0, \
GPU 12569 (MiB)
E1103 02:59:01.152656 81041 backend_model.cc:553] ERROR: Failed to create instance: unexpected error when creating \
modelInstanceState: [TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out of memory \
(/app/tensorrt_llm/cpp/tensorrt_llm/runtime/tllmBuffers.h:112)
1       0x7f5fe6888d85 /opt/tritonserver/backends/tensorrtllm/libtriton_tensorrtllm.so(+0x35d85) [0x7f5fe6888d85]
2       0x7f5fe68e4f08 /opt/tritonserver/backends/tensorrtllm/libtriton_tensorrtllm.so(+0x91f08) [0x7f5fe68e4f08]
E1103 02:59:01.152700 81041 model_lifecycle.cc:622] failed to load 'tensorrt_llm' version 1: Internal: unexpected error when \
creating modelInstanceState: [TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out \
of memory (/app/tensorrt_llm/cpp/tensorrt_llm/runtime/tllmBuffers.h:112)
error: creating server: Internal - failed to load all models
""",
        "oom", "warm_up", survived=False,
    ),
    Report(
        "only Triton's table of models is left",
        """\
+--------------+---------+------------------------------------------------------------------------------------------------+
| Model        | Version | Status                                                                                         |
+--------------+---------+------------------------------------------------------------------------------------------------+
| preprocessing | 1      | READY                                                                                          |
| tensorrt_llm | 1       | UNAVAILABLE: Internal: unexpected error when creating modelInstanceState: [TensorRT-LLM][ERROR] \
CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out of memory (/a |
|              |         | pp/tensorrt_llm/cpp/tensorrt_llm/runtime/tllmBuffers.h:112)                                    |
+--------------+---------+------------------------------------------------------------------------------------------------+
I1206 20:31:04.901310 128 server.cc:264] Waiting for in-flight requests to complete.
error: creating server: Internal - failed to load all models
""",
        "oom", "warm_up", survived=False,
    ),
    Report("a step's buffers, in forwardAsync", UP + """\
[TensorRT-LLM][INFO] {"Active Request Count":1,"Context Requests":1,"Free KV cache blocks":1800,"Generation Requests":0,\
"Iteration Counter":12,"Max KV cache blocks":2099,"Max Request Count":64,"Scheduled Requests":1,\
"Tokens per KV cache block":64,"Total Context Tokens":30100,"Used KV cache blocks":299}
[TensorRT-LLM][ERROR] Encountered an error in forwardAsync function: [TensorRT-LLM][ERROR] CUDA runtime error in \
::cudaMallocAsync(ptr, n, mMemPool->getPool(), mCudaStream->get()): out of memory (/src/cpp/tensorrt_llm/runtime/tllmBuffers.h:124)
1       0x7f31c64f2a5d void tensorrt_llm::common::check<cudaError>(cudaError, char const*, char const*, int) + 301
2       0x7f31c6a81c30 tensorrt_llm::batch_manager::TrtGptModelInflightBatching::executeStep(int) + 912
""", "oom", "prefill_spike"),
    Report("the PyTorch backend's step", TORCH_UP + ITERATION + """\
[07/19/2025-09:05:12] [TRT-LLM] [RANK 0] [E] Encountered an error in forward function: CUDA out of memory. Tried to allocate \
1.86 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.12 GiB is free. Process 4711 has 77.98 GiB memory in use. Of the \
allocated memory 74.01 GiB is allocated by PyTorch, with 1.20 GiB allocated in private pools (e.g., CUDA Graphs), and 402.33 MiB \
is reserved by PyTorch but unallocated.
[07/19/2025-09:05:12] [TRT-LLM] [RANK 0] [E] Traceback (most recent call last):
  File "/usr/local/lib/python3.12/dist-packages/tensorrt_llm/_torch/pyexecutor/py_executor.py", line 1570, in _forward_step
    outputs = forward(scheduled_requests, self.resource_manager)
  File "/usr/local/lib/python3.12/dist-packages/tensorrt_llm/_torch/modules/gated_mlp.py", line 120, in forward
    h1 = self.gate_up_proj(x)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.86 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.12 GiB \
is free.
""", "oom", "prefill_spike"),
    Report("the pool is empty in a step (C++)", UP + GEN_STATS.format(active=249, free=0, running=231, step=90, used=2448) + """\
[TensorRT-LLM][ERROR] Encountered an error in forwardAsync function: [TensorRT-LLM][ERROR] Assertion failed: Can't allocate new \
blocks. No free blocks left. (/code/tensorrt_llm/cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp:362)
1       0x7f2285df817a tensorrt_llm::batch_manager::kv_cache_manager::BlockManager::allocateBlock(bool) + 954
""", "oom", "decode_growth", "kv_blocks"),
    Report("the block manager has no leaf to take", UP + """\
[TensorRT-LLM][ERROR] Encountered an error in forwardAsync function: [TensorRT-LLM][ERROR] Assertion failed: No free block \
found. This shouldn't happen! (/code/tensorrt_llm/cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp:712)
1       0x7f2285df817a tensorrt_llm::batch_manager::kv_cache_manager::WindowBlockManager::getFreeBlock(int) + 954
""", "oom", "decode_growth", "kv_blocks"),
    Report("only the statistics show it: a full pool, and running requests that are paused", UP
        + GEN_STATS.format(active=200, free=500, running=190, step=10, used=1948)
        + GEN_STATS.format(active=220, free=10, running=200, step=20, used=2438)
        + GEN_STATS.format(active=221, free=0, running=180, step=30, used=2448)
        + GEN_STATS.format(active=221, free=2, running=150, step=40, used=2446)
        + GEN_STATS.format(active=221, free=0, running=120, step=50, used=2448),
        "oom", "decode_growth", "kv_blocks", True),
    Report("a component could not be created: the KV cache", TABLE.format(component="KV cache", free="108.86",
        before="Model: 139.55 / 110.70\nSampler: 110.70 / 110.70\nDrafter: 110.33 / 110.33"), "oom", "warm_up"),
    Report("a component could not be created: the model",
        TABLE.format(component="Model", free="139.40", before=""), "oom", "load_time"),
    Report("weights of the PyTorch backend", """\
[07/19/2025-09:01:02] [TRT-LLM] [I] TensorRT-LLM version: 1.0.0rc4
Loading safetensors weights in parallel: 100%|##########| 15/15 [00:03<00:00,  4.35it/s]
[07/19/2025-09:01:12] [TRT-LLM] [RANK 0] [E] Failed to initialize executor on rank 0: CUDA out of memory. Tried to allocate \
896.00 MiB. GPU 0 has a total capacity of 23.55 GiB of which 520.00 MiB is free. Process 91 has 23.03 GiB memory in use. Of the \
allocated memory 22.60 GiB is allocated by PyTorch, and 12.00 MiB is reserved by PyTorch but unallocated.
[07/19/2025-09:01:12] [TRT-LLM] [RANK 0] [E] Traceback (most recent call last):
  File "/usr/lib/python3.12/site-packages/tensorrt_llm/_torch/pyexecutor/model_engine.py", line 1071, in _load_model
    model = AutoModelForCausalLM.from_config(config_copy)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB.
""", "oom", "load_time"),
    Report("CUDA graphs of the PyTorch backend", """\
[07/19/2025-09:01:02] [TRT-LLM] [I] TensorRT-LLM version: 1.0.0rc4
[07/19/2025-09:01:44] [TRT-LLM] [RANK 0] [I] Use 30.55 GB for model weights.
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 38.12 GiB for max tokens in paged KV cache (312288).
[07/19/2025-09:02:31] [TRT-LLM] [RANK 0] [I] Run generation only CUDA graph warmup for batch size=128, draft_len=0
[07/19/2025-09:02:33] [TRT-LLM] [RANK 0] [E] Failed to initialize executor on rank 0: CUDA error: out of memory
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
""", "oom", "warm_up"),
    Report("one sequence does not fit in the pool", SIZED + """\
[TensorRT-LLM][ERROR] [TensorRT-LLM][ERROR] Assertion failed: Impossible to fit in any sequence in kvCache \
(/code/tensorrt_llm/cpp/tensorrt_llm/batch_manager/trtGptModelInflightBatching.cpp:202)
""", "capacity_gate", None, "kv_blocks"),
    Report("not memory: an engine built for another version", """\
[TensorRT-LLM][ERROR] IRuntime::deserializeCudaEngine: Error Code 1: Serialization (Serialization assertion failed.)
[TensorRT-LLM][ERROR] Assertion failed: Failed to deserialize cuda engine. (/home/jenkins/tllmRuntime.cpp:135)
error: creating server: Internal - failed to load all models
""", "not_oom", None, None),
)  # fmt: skip


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_report(report: Report) -> None:
    check(report)


def test_figures_of_the_table() -> None:
    found = check(REPORTS[10])
    assert found is not None
    assert found.engine == "trtllm"


def test_size_of_the_engine_that_did_not_fit() -> None:
    found = check(REPORTS[0])
    assert found is not None
    assert found.requested_bytes == 69568823808
