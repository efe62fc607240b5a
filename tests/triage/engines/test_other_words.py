"""Failures in the words of runtimes, servers and platforms that no reader of an engine knows.

Each log is made up from the form of a public report or of the program's source: llama.cpp on Vulkan (llama.cpp 12817), vLLM
on TPUs, JAX, gunicorn's arbiter, Windows, Google Cloud Run, Triton's Python backend, MLC LLM, SGLang's HiCache, Ascend's CANN
(vllm-ascend 3141), ExLlamaV2, LMDeploy (lmdeploy 4944), ONNX Runtime.
"""

# ruff: noqa: E501  a line of a log is one line

import pytest

from tests.triage.logs import first, triaged

START = "INFO 06-10 08:00:20 [core.py:69] Initializing a V1 LLM engine (v0.9.1) with config: model='acme/otter-7b'\n"
CORE = "ERROR 06-10 08:03:10 [core.py:515] "
VULKAN = """\
llama_model_load_from_file_impl: using device Vulkan0 (AMD Radeon RX 6600M) - 8176 MiB free
load_tensors:      Vulkan0 model buffer size =  3122.50 MiB
llama_kv_cache:    Vulkan0 KV buffer size =  288.00 MiB
ggml_vulkan: Device memory allocation of size 3959422976 failed.
ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory
ggml_gallocr_reserve_n: failed to allocate Vulkan0 buffer of size 3959422976
srv    load_model: failed to load model, 'm.gguf'
"""
TPU = f"""\
{START}{CORE}EngineCore failed to start.
{CORE}Traceback (most recent call last):
{CORE}  File "/workspace/vllm/vllm/v1/worker/tpu_model_runner.py", line 1350, in profile_run
{CORE}    xm.mark_step()
{CORE}RuntimeError: Bad StatusOr access: RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 1.13G. That was not possible. There are 605.13M free.; (0x0x0_HBM0)
"""
JAX = """\
Traceback (most recent call last):
  File "/opt/server/run.py", line 88, in generate
    out = step(params, tokens)
jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.
"""
GUNICORN = """\
[2026-04-01 10:00:00 +0000] [7] [INFO] Booting worker with pid: 7
[2026-04-01 10:01:10 +0000] [1] [ERROR] Worker (pid:7) was sent SIGKILL! Perhaps out of memory?
"""
WINDOWS = """\
Traceback (most recent call last):
  File "C:\\tgw\\env\\lib\\site-packages\\transformers\\modeling_utils.py", line 4100, in from_pretrained
    state_dict = load_state_dict(shard_file)
OSError: The paging file is too small for this operation to complete. (os error 1455)
"""
CLOUD_RUN = (
    '{"severity":"INFO","textPayload":"INFO 06-10 08:00:25 [gpu_model_runner.py:1600] Starting to load model acme/otter-7b...","timestamp":"2026-06-10T08:00:25.1Z"}\n'
    '{"severity":"ERROR","textPayload":"Memory limit of 16384 MiB exceeded with 16742 MiB used. Consider increasing the memory limit","timestamp":"2026-06-10T08:01:25.1Z"}\n'
    '{"severity":"WARNING","textPayload":"Container terminated on signal 9.","timestamp":"2026-06-10T08:01:26.1Z"}\n'
)
TRITON = (
    "E0410 16:58:12.900000 1 model_lifecycle.cc:641] \"failed to load 'reranker' version 1: Internal: Unable to initialize shared memory key "
    "'triton_python_backend_shm_region_3' to requested size (67108864 bytes). If you are running Triton inside docker, use '--shm-size' flag. "
    'Error: No space left on device"\n'
)
MLC = """\
Traceback (most recent call last):
  File "/workspace/mlc-llm/cpp/serve/config.cc", line 571, in mlc::llm::serve::InferrableEngineConfig::InferForKVCache
ValueError: Error: Insufficient GPU memory error: The available single GPU memory is 20403.200 MB, which is less than the sum of model weight size (19322.100 MB) and temporary buffer size (3688.000 MB).
"""
HICACHE = """\
[2026-03-25 09:32:19] server_args=ServerArgs(model_path='/m/q', tp_size=1, hicache_ratio=4.0, enable_hierarchical_cache=True)
[2026-03-25 09:32:20] Scheduler hit an exception: Traceback (most recent call last):
  File "/w/sglang/python/sglang/srt/mem_cache/memory_pool_host.py", line 90, in __init__
    raise ValueError(
ValueError: Not enough host memory available. Requesting 58.08 GB but only have 41.20 GB free. Please reduce the size of the hierarchical cache.
"""
NPU = f"""\
{START}INFO 09-28 07:22:00 [loggers.py:127] Engine 000: Avg prompt throughput: 900.0 tokens/s, Avg generation throughput: 100.0 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 3.1%, Prefix cache hit rate: 0.0%
[rank7]:[E928 07:22:40.736525688 compiler_depend.ts:429] operator():build/CMakeFiles/torch_npu.dir/compiler_depend.ts:128 NPU function error: call aclnnMoeDistributeDispatchV2 failed, error code is 207001
EL0004: [PID: 316198] 2025-09-28-07:22:29.827.496 Failed to allocate memory.
"""
EXL2 = """\
Traceback (most recent call last):
  File "/opt/tabbyAPI/backends/exllamav2/model.py", line 560, in load_model_sync
    for value in self.model.load_autosplit_gen(
RuntimeError: Insufficient VRAM for model and cache
"""
FAULT = "[Tue Sep  8 10:05:32 2026] traps: lmdeploy[3838286] general protection fault ip:7f8304036898 sp:7f7fde7fa710 error:0 in libc.so.6[7f8304036000+195000]\n"
ONNX = """\
Traceback (most recent call last):
  File "/opt/srv/app.py", line 12, in <module>
    model = og.Model(path)
onnxruntime_genai.OrtException: Non-zero status code returned while running MatMulNBits node. Status Message: bfc_arena.cc:376 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool, onnxruntime::Stream*) Failed to allocate memory for requested buffer of size 1638400000
"""


@pytest.mark.parametrize(
    ("log", "verdict", "resource", "oom_class", "requested"),
    [
        pytest.param(VULKAN, "oom", "device", "warm_up", 3959422976, id="vulkan"),
        pytest.param(TPU, "oom", "device", "warm_up", round(1.13 * 2**30), id="tpu"),
        pytest.param(JAX, "oom", "device", None, 2**33, id="jax"),
        pytest.param(GUNICORN, None, "host", None, None, id="gunicorn"),
        pytest.param(WINDOWS, "oom", "host", "load_time", None, id="windows"),
        pytest.param(CLOUD_RUN, "oom", "host", "load_time", None, id="cloud run"),
        pytest.param(TRITON, "oom", "host", None, 67108864, id="triton"),
        pytest.param(MLC, "capacity_gate", "device", None, None, id="mlc"),
        pytest.param(HICACHE, "capacity_gate", "host", None, None, id="hicache"),
        pytest.param(NPU, "oom", "device", None, None, id="npu"),
        pytest.param(EXL2, "oom", "device", "load_time", None, id="exllamav2"),
        pytest.param(FAULT, None, None, None, None, id="general protection fault"),
        pytest.param(ONNX, "oom", "device", None, 1638400000, id="onnxruntime"),
    ],
)
def test_verdict(log: str, verdict: str | None, resource: str | None, oom_class: str | None, requested: int | None) -> None:
    found = first(log)
    assert (found.verdict, found.resource, found.oom_class, found.requested_bytes) == (
        verdict,
        resource,
        oom_class,
        requested,
    )


@pytest.mark.parametrize(
    "line",
    [
        "grpc.RpcError: RESOURCE_EXHAUSTED: Received message larger than max (5242880 vs. 4194304)",
        "RuntimeError: RESOURCE_EXHAUSTED: Quota exceeded for quota metric 'Generate requests'",
        "ERROR 06-10 08:03:10 [x.py:5] OSError: [Errno 28] No space left on device: '/var/log/app.log'",
        "[2026-04-01 10:01:10 +0000] [1] [ERROR] Worker (pid:7) was sent SIGTERM!",
        "INFO 06-10 08:03:10 [x.py:5] sending SIGKILL to worker 7",
    ],
)
def test_what_only_sounds_alike(line: str) -> None:
    assert triaged(f'Traceback (most recent call last):\n  File "/opt/a.py", line 1, in f\n{line}\n{line}\n') == []


def test_what_to_change_fits_the_platform() -> None:
    assert [remedy.setting for remedy in first(HICACHE).remedies] == ["--hicache-size 41", "--hicache-ratio 2"]
    assert not any("resources.limits" in (remedy.setting or "") for remedy in first(WINDOWS).remedies)
    assert first(NPU).phase == "serving"
