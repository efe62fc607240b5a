# ruff: noqa: E501  (lines as the engine prints them)
"""llama.cpp's and ollama's commonest reports, of every backend."""

import pytest

from tests.triage.engines.reports import Report, check
from tests.triage.logs import triaged

LOAD = """\
build: 5581 (71e74a3a) with cc (Ubuntu 11.4.0) 11.4.0 for x86_64-linux-gnu
main: loading model
srv    load_model: loading model '/models/m-Q4_K_M.gguf'
llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 3090) - 23869 MiB free
llama_model_loader: loaded meta data with 53 key-value pairs and 723 tensors from /models/m-Q4_K_M.gguf (version GGUF V3 (latest))
load_tensors: loading model tensors, this can take a while... (mmap = true)
"""
LOADED = (
    LOAD
    + """\
load_tensors: offloading 80 repeating layers to GPU
load_tensors: offloaded 81/81 layers to GPU
load_tensors:   CPU_Mapped model buffer size =   563.62 MiB
load_tensors:        CUDA0 model buffer size = 18926.01 MiB
.................................................................................................
llama_context: n_seq_max     = 4
llama_context: n_ctx         = 131072
"""
)
KV = "llama_kv_cache_unified:      CUDA0 KV buffer size =  2048.00 MiB\n"
UP = (
    LOADED
    + KV
    + """\
llama_context:      CUDA0 compute buffer size =   566.00 MiB
main: server is listening on http://0.0.0.0:8080 - starting the main loop
srv  update_slots: all slots are idle
"""
)
PROMPT = """\
srv  log_server_r: request: POST /v1/chat/completions 127.0.0.1 200
slot launch_slot_: id  0 | task 0 | processing task
slot update_slots: id  0 | task 0 | new prompt, n_ctx_slot = 32768, n_keep = 0, n_prompt_tokens = 18211
slot update_slots: id  0 | task 0 | prompt processing progress, n_past = 2048, n_tokens = 2048, progress = 0.112459
"""
NO_SLOT = """\
decode: failed to find a memory slot for batch of size {0}
srv  update_slots: failed to find free space in the KV cache, retrying with smaller batch size, i = 0, n_batch = {1}, ret = 1
"""
OLLAMA = """\
time=2025-04-29T12:31:20.270+02:00 level=INFO source=routes.go:1172 msg="Listening on 127.0.0.1:11434 (version 0.6.6)"
time=2025-04-29T12:31:25.104+02:00 level=INFO source=server.go:138 msg=offload library=cuda layers.requested=-1 layers.model=49 layers.offload=49 layers.split="" memory.available="[11.4 GiB]" memory.required.full="10.3 GiB" memory.required.partial="10.3 GiB" memory.required.kv="2.2 GiB" memory.required.allocations="[10.3 GiB]" memory.weights.total="7.6 GiB" memory.graph.full="512.0 MiB"
time=2025-04-29T12:31:25.201+02:00 level=INFO source=server.go:405 msg="starting llama server" cmd="/usr/bin/ollama runner --model /m"
"""

REPORTS = (
    Report("weights, CUDA", LOAD + """\
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 35533.34 MiB on device 0: cudaMalloc failed: out of memory
llama_model_load: error loading model: unable to allocate CUDA0 buffer
llama_load_model_from_file: failed to load model
""", "oom", "load_time", survived=False),
    Report("weights, Vulkan", """\
ggml_vulkan: Found 1 Vulkan devices:
ggml_vulkan: 0 = AMD Radeon RX 6600M (RADV NAVI23) (radv) | uma: 0 | fp16: 1 | warp size: 32
llama_model_loader: loaded meta data with 24 key-value pairs and 291 tensors from m.gguf (version GGUF V3 (latest))
ggml_vulkan: Device memory allocation of size 8589934592 failed.
ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory
alloc_tensor_range: failed to allocate Vulkan0 buffer of size 8589934592
llama_model_load: error loading model: unable to allocate Vulkan0 buffer
llama_model_load_from_file_impl: failed to load model
""", "oom", "load_time", survived=False),
    Report("weights, SYCL", """\
llama_model_loader: loaded meta data with 24 key-value pairs and 291 tensors from m.gguf (version GGUF V3 (latest))
llm_load_tensors: ggml ctx size =    0.27 MiB
ggml_backend_sycl_buffer_type_alloc_buffer: can't malloc 5679087616 Bytes memory on device
llama_model_load: error loading model: unable to allocate SYCL0 buffer
llama_load_model_from_file: failed to load model
""", "oom", "load_time", survived=False),
    Report("weights, host memory", LOAD + """\
ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 437944320
alloc_tensor_range: failed to allocate CPU buffer of size 437944320
llama_model_load: error loading model: unable to allocate CPU buffer
llama_model_load_from_file_impl: failed to load model
""", "oom", "load_time", "host", False),
    Report("KV cache", LOADED + """\
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 20480.00 MiB on device 0: cudaMalloc failed: out of memory
alloc_tensor_range: failed to allocate CUDA0 buffer of size 21474836480
llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache
common_init_from_params: failed to create context with model '/models/m-Q4_K_M.gguf'
srv    load_model: failed to load model, '/models/m-Q4_K_M.gguf'
main: exiting due to model loading error
""", "oom", "warm_up", survived=False),
    Report("compute buffers", LOADED + KV + """\
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 8192.25 MiB on device 0: cudaMalloc failed: out of memory
ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 8589984768
graph_reserve: failed to allocate compute buffers
llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers
""", "oom", "warm_up"),
    Report("a prompt, in the pool of CUDA buffers", UP + PROMPT + """\
CUDA error: out of memory
  current device: 0, in function alloc at /app/ggml/src/ggml-cuda/ggml-cuda.cu:424
  cuMemCreate(&handle, reserve_size, &prop, 0)
/app/ggml/src/ggml-cuda/ggml-cuda.cu:84: CUDA error
""", "oom", "prefill_spike"),
    Report("the same on ROCm", UP.replace("CUDA0", "ROCm0") + PROMPT + """\
ROCm error: out of memory
  current device: 0, in function alloc at /app/ggml/src/ggml-cuda/ggml-cuda.cu:376
  ggml_cuda_device_malloc(&ptr, look_ahead_size, device)
/app/ggml/src/ggml-cuda/ggml-cuda.cu:75: ROCm error
""", "oom", "prefill_spike"),
    Report("Metal, command buffers", """\
llama_model_loader: loaded meta data with 24 key-value pairs and 291 tensors from m.gguf (version GGUF V3 (latest))
load_tensors: Metal_Mapped model buffer size = 13166.91 MiB
llama_context: n_ctx         = 65536
llama_kv_cache_unified:      Metal KV buffer size = 10240.00 MiB
llama_context:      Metal compute buffer size =  8344.00 MiB
main: server is listening on http://127.0.0.1:8080 - starting the main loop
""" + PROMPT + """\
ggml_metal_graph_compute: command buffer 0 failed with status 5
error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)
ggml_metal_graph_compute: command buffer 1 failed with status 5
error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)
""", "oom", "prefill_spike"),
    Report("SYCL, while it computes a prompt", UP.replace("CUDA0", "SYCL0") + PROMPT + """\
Native API failed. Native API returns: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)
Exception caught at file:/app/ggml/src/ggml-sycl/ggml-sycl.cpp, line:3761
""", "oom", "prefill_spike"),
    Report("no slot in the cache, until the batch is given up", UP + PROMPT
        + NO_SLOT.format(512, 256) + NO_SLOT.format(256, 128) + NO_SLOT.format(2, 1) + """\
decode: failed to find a memory slot for batch of size 1
srv  update_slots: failed to decode the batch: KV cache is full - try increasing it via the context size, i = 0, n_batch = 1, ret = 1
srv    send_error: task id = 0, error: Context size has been exceeded.
""", "oom", "decode_growth", "kv_blocks"),
    Report("no slot for a large batch, but for a smaller one", UP + PROMPT + NO_SLOT.format(512, 256) + """\
slot print_timing: id  0 | task 0 | prompt eval time =    1234.56 ms / 18211 tokens
slot      release: id  0 | task 0 | stop processing: n_past = 18300, truncated = 0
""", "oom", "decode_growth", "kv_blocks", True),
    Report("newer prefix: minutes, seconds, level", UP.replace("main: server", "0.11.023.111 I main: server") + """\
29.22.826.495 E init_batch: failed to prepare attention ubatches
29.22.826.496 W decode: failed to find a memory slot for batch of size 36
29.22.827.363 W srv        decode: failed to find free space in the KV cache, retrying with smaller batch size, off = 2012, n_batch = 16, ret = 1
29.22.827.496 W decode: failed to find a memory slot for batch of size 1
29.22.828.363 E srv        decode: failed to decode the batch: KV cache is full - try increasing it via the context size, off = 2012, n_batch = 1, ret = 1
""", "oom", "decode_growth", "kv_blocks"),
    Report("the context is full and shifts", UP + """\
slot launch_slot_: id  1 | task 7 | processing task
slot update_slots: id  1 | task 7 | slot context shift, n_keep = 1, n_left = 32766, n_discard = 16383
slot update_slots: id  1 | task 7 | slot context shift, n_keep = 1, n_left = 32766, n_discard = 16383
""", "oom", "decode_growth", "kv_blocks", True),
    Report("a request larger than the context", UP + """\
slot launch_slot_: id  0 | task 2017 | processing task
slot update_slots: id  0 | task 2017 | new prompt, n_ctx_slot = 2048, n_keep = 0, n_prompt_tokens = 2059
srv    send_error: task id = 2017, error: the request exceeds the available context size. try increasing the context size or enable context shift
srv  update_slots: no tokens to decode
slot launch_slot_: id  0 | task 2018 | processing task
""", "capacity_gate", None, "kv_blocks", True),
    Report("ollama: more than the system has", """\
time=2025-01-31T20:48:19.587Z level=WARN source=server.go:136 msg="model request too large for system" requested="391.0 GiB" available=393216983040 total="1690.2 GiB" free="358.4 GiB" swap="7.8 GiB"
time=2025-01-31T20:48:19.587Z level=INFO source=sched.go:428 msg="NewLlamaServer failed" model=/root/.ollama/models/blobs/sha256-9801 error="model requires more system memory (391.0 GiB) than is available (366.2 GiB)"
[GIN] 2025/01/31 - 20:48:19 | 500 |  1.394289898s |       127.0.0.1 | POST     "/api/generate"
""", "capacity_gate", None, "host", True),
    Report("ollama: only the client's line", "Error: model requires more system memory (164.8 GiB) than is available (13.4 GiB)\n",
        "capacity_gate", None, "host", False),
    Report("ollama: the runner could not load", OLLAMA + """\
load_tensors: loading model tensors, this can take a while... (mmap = true)
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9730.01 MiB on device 0: cudaMalloc failed: out of memory
alloc_tensor_range: failed to allocate CUDA0 buffer of size 10202658816
llama_model_load: error loading model: unable to allocate CUDA0 buffer
llama_model_load_from_file_impl: failed to load model
panic: unable to load model: /root/.ollama/models/blobs/sha256-83d0
goroutine 24 [running]:
time=2025-04-29T12:31:28.521+02:00 level=ERROR source=sched.go:457 msg="error loading llama server" error="llama runner process has terminated: cudaMalloc failed: out of memory"
[GIN] 2025/04/29 - 12:31:28 | 500 |  3.058028071s |       127.0.0.1 | POST     "/api/generate"
""", "oom", "load_time", survived=True),
    Report("ollama: only the scheduler's line", OLLAMA + """\
time=2025-04-29T12:31:28.521+02:00 level=ERROR source=sched.go:457 msg="error loading llama server" error="llama runner process has terminated: cudaMalloc failed: out of memory\\nggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 838447104"
[GIN] 2025/04/29 - 12:31:28 | 500 |  3.058028071s |       127.0.0.1 | POST     "/api/generate"
""", "oom", "warm_up"),
    Report("ollama: a chat runs out", OLLAMA + """\
load_tensors:        CUDA0 model buffer size =  7784.00 MiB
llama_kv_cache_unified:      CUDA0 KV buffer size =  2048.00 MiB
llama_context:      CUDA0 compute buffer size =   512.00 MiB
time=2025-04-29T12:31:28.000+02:00 level=INFO source=server.go:624 msg="llama runner started in 2.76 seconds"
[GIN] 2025/04/29 - 12:31:30 | 200 |  3.058028071s |       127.0.0.1 | POST     "/api/chat"
CUDA error: out of memory
  current device: 0, in function alloc at //ml/backend/ggml/ggml/src/ggml-cuda/ggml-cuda.cu:424
  ggml_cuda_device_malloc(&ptr, look_ahead_size, device)
//ml/backend/ggml/ggml/src/ggml-cuda/ggml-cuda.cu:84: CUDA error
""", "oom", "prefill_spike"),
    Report("ollama: the runner is killed", OLLAMA + """\
time=2025-04-29T12:31:28.521+02:00 level=ERROR source=sched.go:457 msg="error loading llama server" error="llama runner process has terminated: signal: killed"
""", None, None, "host"),
    Report("healthy", UP + PROMPT + """\
slot print_timing: id  0 | task 0 | prompt eval time =    1234.56 ms / 18211 tokens
slot      release: id  0 | task 0 | stop processing: n_past = 18300, truncated = 0
""", "none"),
    Report("Vulkan falls back from pinned memory", UP + "ggml_vulkan: Failed to allocate pinned memory.\n" + PROMPT, "none"),
)  # fmt: skip


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_report(report: Report) -> None:
    check(report)


@pytest.mark.parametrize("backend", ["CUDA", "HIP", "MUSA", "ROCm"])
def test_size_and_device(backend: str) -> None:
    call = {"ROCm": "hip", "HIP": "hip", "MUSA": "musa"}.get(backend, "cuda")
    line = f"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 512.50 MiB on device 1: {call}Malloc failed: out of memory\n"
    (found,) = triaged(LOAD + line)
    assert (found.requested_bytes, found.resource) == (512 * 2**20 + 2**19, "device")
