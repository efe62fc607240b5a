# ruff: noqa: E501  (lines as the engine prints them)
"""vLLM on other accelerators, LMCache beside an engine, and engines inside RL frameworks."""

import pytest

from tests.triage.engines.reports import Report, check

START = "INFO 06-09 06:57:00 [llm_engine.py:240] Initializing a V0 LLM engine (v0.9.2) with config: model='m'\n"
LOADING = START + "INFO 06-09 06:57:10 [model_runner.py:1170] Starting to load model m...\n"
LOADED = LOADING + "INFO 06-09 06:57:40 [model_runner.py:1182] Loading model weights took 27.5376 GB\n"
UP = (
    LOADED
    + "INFO 06-09 06:57:50 [executor_base.py:112] # npu blocks: 5210, # CPU blocks: 910\nINFO:     Application startup complete.\n"
)
LOAD_FRAMES = """\
Traceback (most recent call last):
  File "/usr/lib/python3.10/site-packages/vllm/model_executor/model_loader/loader.py", line 377, in load_model
    model = _initialize_model(vllm_config=vllm_config)
  File "/usr/lib/python3.10/site-packages/vllm/model_executor/models/llama.py", line 488, in __init__
    self.model = self._init_model(vllm_config=vllm_config,
"""
PROFILE_FRAMES = """\
Traceback (most recent call last):
  File "/usr/lib/python3.10/site-packages/vllm_ascend/worker/worker.py", line 170, in determine_available_memory
    self.model_runner.profile_run()
"""
KV_FRAMES = """\
Traceback (most recent call last):
  File "/opt/venv/lib/python3.12/site-packages/vllm/v1/worker/gpu_worker.py", line 560, in initialize_from_config
    self.model_runner.initialize_kv_cache(kv_cache_config)
"""
WAKE = """\
(WorkerDict pid=1751030) INFO 02-18 10:00:00 [worker.py:120] Sleep mode freed 61.20 GiB memory, 3.10 GiB memory is still in use.
(WorkerDict pid=1751030) INFO 02-18 10:00:01 [executor_base.py:208] It took 1.185601 seconds to fall asleep.
"""
RAY = """\
(main_task pid=1748945) Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): ray::WorkerDict.actor_rollout_generate_sequences() (pid=1751030, ip=10.65.194.91, actor_id=d2209bc23ff0)
(main_task pid=1748945)   File "/verl/verl/workers/fsdp_workers.py", line 463, in generate_sequences
(main_task pid=1748945)     with self.rollout_sharding_manager:
(main_task pid=1748945)   File "/verl/verl/workers/sharding_manager/fsdp_vllm.py", line 79, in __enter__
(main_task pid=1748945)     self.inference_engine.wake_up()
(main_task pid=1748945)   File "/opt/vllm/device_allocator/cumem.py", line 207, in wake_up
(main_task pid=1748945)     create_and_map(handle)
(main_task pid=1748945) RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62
"""

REPORTS = (
    Report("Ascend, loading", LOADING + LOAD_FRAMES + "RuntimeError: NPU out of memory. Tried to allocate 22.00 MiB (NPU 0; 60.97 GiB total capacity; 60.24 GiB already allocated; 60.24 GiB current active; 19.52 MiB free; 60.65 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.\n",
        "oom", "load_time"),
    Report("Ascend, profiling", LOADED + PROFILE_FRAMES + "torch.OutOfMemoryError: NPU out of memory. NPUWorkspaceAllocator tried to allocate 22.00 MiB(NPU 0; 60.97 GiB total capacity; 19.52 MiB free). If you want to reduce memory usage, take a try to set the environment variable TASK_QUEUE_ENABLE=1.\n",
        "oom", "warm_up"),
    Report("Ascend, its runtime's own words", LOADED + PROFILE_FRAMES + "RuntimeError: alloc:torch_npu/csrc/core/npu/NPUCachingAllocator.cpp:1100 NPU function error: aclrtMallocAlign32, error code is 207001\n[Error]: Failed to allocate memory.\nEL0004: [PID: 4412] 2025-06-09-06:57:54.123.456 Failed to allocate memory.\n",
        "oom", "warm_up"),
    Report("XPU, KV cache", LOADED + KV_FRAMES + "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 896.00 MiB. GPU 0 has a total capacity of 22.71 GiB. Of the allocated memory 21.50 GiB is allocated by PyTorch, and 120.00 MiB is reserved by PyTorch but unallocated.\n",
        "oom", "warm_up"),
    Report("XPU, Level Zero's words", LOADED + KV_FRAMES + "RuntimeError: level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)\n",
        "oom", "warm_up"),
    Report("Gaudi, loading", LOADING + LOAD_FRAMES + "RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::234881024 (224)MB\n",
        "oom", "load_time"),
    Report("Gaudi, a graph's workspace", LOADED.replace("took", "took in total").replace("GB", "GiB of device memory") + "INFO 06-09 06:57:55 hpu_model_runner.py:1210] [Warmup][Prompt][1/28] batch_size:4 seq_len:1024 free_mem:2.3 GiB\n" + "RuntimeError: FATAL ERROR :: MODULE:SYNHELPER workspace Allocation of size ::14493510400 failed!\n",
        "oom", "warm_up"),
    Report("ROCm, bare", LOADING + LOAD_FRAMES + "RuntimeError: HIP error: out of memory\nHIP kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n",
        "oom", "load_time"),
    Report("verl, waking up", WAKE + RAY, "oom", "recovery"),
    Report("verl, waking up, frames only", RAY, "oom", "recovery"),
    Report("torch_memory_saver", """\
[2025-08-12 10:00:00 TP0] release_memory_occupation
[2025-08-12 10:00:09 TP0] resume_memory_occupation
[torch_memory_saver.cpp] CUresult error: 2 (out of memory)  file=csrc/utils.h func=cu_mem_create line=104
""", "oom", "recovery"),
    Report("torch_memory_saver, the CUDA runtime's words", """\
[2025-11-03 08:00:00] The server is fired up and ready to roll!
[2025-11-03 08:00:01] INFO:     127.0.0.1:50110 - "POST /release_memory_occupation HTTP/1.1" 200 OK
[torch_memory_saver.cpp] cuMemCreate CUDA_ERROR_OUT_OF_MEMORY (may not be an issue e.g. torch allocator will free cache and retry)
[core.cu] cudaError error: 2 (out of memory)  file=csrc/core.cu func=resume line=90
Fatal Python error: Aborted

Current thread 0x00007f0000000740 (most recent call first):
  File "/opt/venv/lib/python3.12/site-packages/sglang/srt/managers/scheduler.py", line 11 in resume_memory_occupation
""", "oom", "recovery"),
    Report("LMCache's pinned pool", LOADED + """\
Traceback (most recent call last):
  File "/vllm-workspace/LMCache/lmcache/v1/cache_engine.py", line 714, in _Create_memory_allocator
    return MixedMemoryAllocator(int(max_local_cpu_size * 1024**3))
  File "/vllm-workspace/LMCache/lmcache/v1/memory_management.py", line 1285, in __init__
    buffer = torch.empty(size, dtype=torch.uint8, pin_memory=True)
RuntimeError: CUDA error: out of memory
""", "oom", "warm_up", "host"),
    Report("LMCache's pool is full", UP + """\
[2025-07-02 16:41:44,038] LMCache WARNING: Failed to allocate memory for tensor(torch.Size([2, 64, 64, 1024]), torch.bfloat16) because no memory is available (memory_management.py:409:lmcache.v1.memory_management)
""", "oom", None, "host", True),
)  # fmt: skip


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_report(report: Report) -> None:
    check(report)
