"""Failures told in other words than the framework's own, and what looks like them: pairs of logs that differ in one thing."""

# ruff: noqa: E501  a line of a log is one line

import pytest

from oomctl.collectors.artifacts.logs.system import crashes, looks_like
from tests.triage.logs import first, triaged

OOM = "CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of 79.10 GiB of which 512.00 MiB is free. Including non-PyTorch memory, this process has 78.58 GiB memory in use. Of the allocated memory 76.10 GiB is allocated by PyTorch, and 204.00 MiB is reserved by PyTorch but unallocated."


def traceback(*frames: tuple[str, str, str], ends: str, quote: str = '"') -> str:
    """A traceback, the outermost frame first: (file, function, code)."""
    lines = ["Traceback (most recent call last):"]
    for file, function, code in frames:
        lines += [f"  File {quote}{file}{quote}, line 9, in {function}", f"    {code}"]
    return "\n".join([*lines, ends]) + "\n"


DECODE = 'ERROR shard-manager: text_generation_launcher: "Method Decode encountered an error.\n'
STEP = ("/opt/tgi/models/causal_lm.py", "generate_token", "logits, past = self.forward(")
GROWS = ("/opt/transformers/models/opt/modeling_opt.py", "forward", "value = torch.cat([past_key_value[1], value], dim=2)")


@pytest.mark.parametrize("quote", ['"', '\\"'], ids=["plain", "escaped"])
def test_frames_with_escaped_quotes_are_frames(quote: str) -> None:
    oom = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 30.00 MiB (GPU 0; 23.69 GiB total capacity; 22.61 GiB already allocated; 11.19 MiB free; 23.02 GiB reserved in total by PyTorch)"
    shard = traceback(("/opt/tgi/server.py", "Decode", "self.model.step()"), STEP, GROWS, ends=oom, quote=quote)
    found = first(f'{DECODE}{shard}" rank=0\n')
    assert (found.oom_class, found.causes[0].cause) == ("decode_growth", "kv_growth")


@pytest.mark.parametrize(
    ("code", "oom_class"),
    [
        ('model = AutoModel.from_pretrained("acme/otter", device_map="cuda")', "load_time"),
        ("hidden = torch.zeros(8, 4096, device='cuda')", None),
    ],
)
def test_a_script_s_own_line_tells_that_it_loads(code: str, oom_class: str | None) -> None:
    """Where the log shows no frame of the library below it."""
    found = first(
        f'  File "D:\\work\\chat.py", line 8, in <module>\n    {code}\ntorch.cuda.{OOM.format(asked="26.00 MiB")}\n'.replace(
            "torch.cuda.CUDA", "torch.cuda.OutOfMemoryError: CUDA"
        )
    )
    assert found.oom_class == oom_class


EXECUTE = ("/pkg/vllm/v1/worker/gpu_model_runner.py", "execute_model", "out = self.model(**inputs)")
PUNICA = ("/pkg/vllm/lora/punica_wrapper/punica_gpu.py", "add_lora_linear", "buffer = torch.zeros(")
REJECTS = ("/pkg/vllm/v1/sample/rejection_sampler.py", "forward", "target_logits = raw_target_logits.clone()")
MOE = ("/pkg/vllm/model_executor/layers/fused_moe/modular_kernel.py", "_allocate_buffers", "workspace = torch.empty(")


@pytest.mark.parametrize(
    ("frame", "asked", "oom_class", "cause"),
    [
        (PUNICA, "1.75 GiB", "prefill_spike", "prefill_activation"),
        (PUNICA, "64.00 MiB", None, None),
        (REJECTS, "3.63 GiB", "prefill_spike", "logits"),
        (MOE, "9.00 GiB", "prefill_spike", "prefill_activation"),
        (MOE, "600.00 MiB", None, None),
    ],
    ids=["adapter", "adapter, small", "rejection", "experts", "experts, small"],
)
def test_sizes_that_no_decode_step_takes(
    frame: tuple[str, str, str], asked: str, oom_class: str | None, cause: str | None
) -> None:
    found = first(traceback(EXECUTE, frame, ends=f"torch.OutOfMemoryError: {OOM.format(asked=asked)}"))
    assert found.oom_class == oom_class
    assert [link.cause for link in found.causes] == ([cause] if cause else [])


READY = "main: server is listening on http://127.0.0.1:8080\n"
TASK = "slot launch_slot_: id  0 | task 0 | processing task\nslot update_slots: id  0 | task 0 | new prompt, n_ctx_slot = 128000, n_keep = 0, task.n_tokens = 22\n"
CREATE = """\
{0}CUDA error: the resource allocation failed
{0}  current device: 0, in function cublas_handle at ggml/src/ggml-cuda/common.cuh:1411
{0}  cublasCreate_v2(&cublas_handles[device])
"""


@pytest.mark.parametrize("head", ["", "0.21.102.551 E "], ids=["bare", "headed"])
@pytest.mark.parametrize(("work", "oom_class"), [(TASK, "warm_up"), (TASK + TASK + TASK, None)], ids=["first", "later"])
def test_a_library_s_handle_is_made_at_the_first_use(head: str, work: str, oom_class: str | None) -> None:
    found = first(READY + work + CREATE.format(head) + "Aborted (core dumped)\n")
    assert (found.verdict, found.resource, found.oom_class) == ("oom", "device", oom_class)
    assert found.causes[0].cause == "library_workspace"
    assert found.survived is False


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("OpenBLAS blas_thread_init: pthread_create failed for thread 31 of 64: Resource temporarily unavailable", "thread_limit"),
        ("OpenBLAS blas_thread_init: pthread_create: Resource temporarily unavailable", "thread_limit"),
        ("libgomp: Thread creation failed: Resource temporarily unavailable", "thread_limit"),
        ("what():  Resource temporarily unavailable", "thread_limit"),
        ("runtime: failed to create new OS thread (have 2048 already; errno=11)", "thread_limit"),
        ("[8812.1] cgroup: fork rejected by pids controller in /kubepods/pod1", "thread_limit"),
        ("OpenBLAS blas_thread_init: pthread_create failed for thread 31 of 64: Cannot allocate memory", None),
        ("runtime: failed to create new OS thread (have 2048 already; errno=12)", None),
    ],
)  # fmt: skip
def test_a_limit_on_threads_in_its_spellings(line: str, code: str | None) -> None:
    assert looks_like(line) or code is None
    assert [fact.fields["code"] for fact in crashes.facts(line)] == ([code] if code else [])


def test_a_limit_on_threads_is_no_lack_of_memory() -> None:
    found = first("libgomp: Thread creation failed: Resource temporarily unavailable\nAborted (core dumped)\n")
    assert found.verdict == "not_oom"
    assert "ulimit -u" in (found.remedies[0].setting or "")


def test_the_worker_died_in_the_words_of_older_releases() -> None:
    failed = f"ERROR 03-18 21:41:10 [engine.py:160] torch.OutOfMemoryError: {OOM.format(asked='1.00 GiB')}\n"
    dead = "CRITICAL 03-18 21:41:10 [launcher.py:116] MQLLMEngine is already dead, terminating server process\n"
    assert [first(failed + after).survived for after in ("", dead)] == [None, False]


@pytest.mark.parametrize(
    "shell", ["Aborted (core dumped)", "/opt/run.sh: line 3:    22 Aborted                 (core dumped) serve"]
)
def test_a_shell_s_word_on_an_abort(shell: str) -> None:
    assert [item.survived for item in triaged(f"{shell}\n")] == [False]


REJECTED = traceback(EXECUTE, REJECTS, ends=f"torch.OutOfMemoryError: {OOM.format(asked='900.00 MiB')}")
REPORT = "(APIServer pid=1) INFO 08-24 02:14:11 [loggers.py:259] Engine 000: Avg prompt throughput: 2980.0 tokens/s, Avg generation throughput: 7210.3 tokens/s, Running: 768 reqs, Waiting: 0 reqs, GPU KV cache usage: 44.7%, Prefix cache hit rate: 61.8%\n"
HIERARCHY = '[2025-12-02 07:05:13 TP0] Scheduler hit an exception: Traceback (most recent call last):\n  File "/pkg/sglang/srt/mem_cache/memory_pool_host.py", line 90, in __init__\n    raise ValueError(\nValueError: Not enough host memory available. Requesting 40.00 GB but only have 22.18 GB free. Please reduce the size of the hierarchical cache.\n'
SWAP = traceback(
    ("/pkg/vllm/core/scheduler.py", "_preempt_by_swap", "self._swap_out(group, blocks)"),
    ends="RuntimeError: Aborted due to the lack of CPU swap space. Please increase the swap space to avoid this error.",
)
LAYERS = """\
{0}llama_model_load_from_file_impl: using device CUDA1 (NVIDIA GeForce RTX 4090) (0000:03:00.0) - 22994 MiB free
print_info: n_layer          = 40
load_tensors: loading model tensors, this can take a while... (mmap = true)
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 23210.12 MiB on device 1: cudaMalloc failed: out of memory
llama_model_load: error loading model: unable to allocate CUDA1 buffer
"""
TRITON = "[TensorRT-LLM][INFO] Loaded engine size: 24840 MiB\n[TensorRT-LLM][INFO] [MemUsageChange] TensorRT-managed allocation in engine deserialization: CPU +0, GPU +24836, now: CPU 0, GPU 24836 (MiB)\nE0118 07:53:59.509842 1067 backend_model.cc:635] ERROR: Failed to create instance: unexpected error when creating modelInstanceState: [TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out of memory (/app/tensorrt_llm/cpp/tensorrt_llm/runtime/tllmBuffers.h:112)\n"


@pytest.mark.parametrize(
    ("log", "setting"),
    [
        (REPORT + REJECTED, "--max-num-seqs 384"),
        (HIERARCHY, "--hicache-size 22"),
        (SWAP, "--swap-space 16"),
        (LAYERS.format(""), "--n-gpu-layers 36"),
        (LAYERS.format("Welcome to KoboldCpp - Version 1.104\n"), "--gpulayers 36"),
        (TRITON, "config.pbtxt: kv_cache_free_gpu_mem_fraction lower"),
    ],
    ids=["sampled logits", "host cache", "swap", "layers", "koboldcpp", "triton"],
)
def test_the_first_thing_to_change(log: str, setting: str) -> None:
    assert next(remedy.setting for remedy in first(log).remedies if remedy.when == "change") == setting


@pytest.mark.parametrize(("backend", "tool"), [("CUDA", "nvidia-smi"), ("NPU", "npu-smi"), ("HIP", "rocm-smi")])
def test_who_holds_the_device_is_asked_of_its_vendor_s_tool(backend: str, tool: str) -> None:
    failed = f"RuntimeError: {backend} out of memory. Tried to allocate 2.52 GiB (NPU 3; 60.97 GiB total capacity; 54.71 GiB already allocated; 1.18 GiB free; 57.02 GiB reserved in total by PyTorch)\n"
    assert any((item.command or "").startswith(tool) for item in first(failed).missing)


LOADS = """\
Jun 28 08:05:25 box ollama[1300]: load_tensors: loading model tensors, this can take a while... (mmap = false)
Jun 28 08:05:42 box ollama[1300]: time=2025-06-28T08:05:42.415-07:00 level=INFO source=server.go:625 msg="waiting for server to become available" status="llm server loading model"
Jun 28 08:05:42 box ollama[1300]: [GIN] 2025/06/28 - 08:05:42 | 500 | 19.20148201s |       127.0.0.1 | POST     "/api/chat"
Jun 28 08:05:43 box systemd[1]: ollama.service: A process of this unit has been killed by the OOM killer.
"""


def test_a_server_that_answers_with_an_error_has_not_loaded_for_that() -> None:
    found = first(LOADS)
    assert (found.engine, found.oom_class, found.resource, found.phase) == ("ollama", "load_time", "host", "loading")


WAITED = "[rank{0}]:[E1012 22:31:22.267261276 ProcessGroupNCCL.cpp:607] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=88, OpType=GATHER, NumelIn=32064, NumelOut=0, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\nterminate called after throwing an instance of 'c10::DistBackendError'\n"
WAITS = "(VllmWorkerProcess pid={0}) WARNING 10-12 22:31:22 shm_broadcast.py:396] No available block found in 60 second.\n"
GONE = "ERROR 10-12 22:31:20 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 3106 died, exit code: -9\n"
SIZE = "INFO 10-12 20:00:00 llm_engine.py:234] Initializing a V0 LLM engine (v0.7.3) with config: model='acme/otter', tensor_parallel_size={0}, pipeline_parallel_size=1\n"


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        (WAITS.format(3106) + WAITS.format(3107) + WAITED.format(3), "not_oom"),
        (SIZE.format(2) + WAITS.format(3106) + WAITED.format(0), "not_oom"),
        (SIZE.format(4) + WAITS.format(3106) + WAITED.format(0), None),
        (GONE + WAITS.format(3107) + WAITS.format(3108) + WAITED.format(3), None),
    ],
    ids=["several", "both of two", "two of four", "one is gone"],
)
def test_a_rank_that_waits_for_others_that_are_there_hangs(log: str, verdict: str | None) -> None:
    found = first(
        log + "ERROR 10-12 22:31:25 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 3108 died, exit code: -6\n"
    )
    assert found.verdict == verdict
    assert found.survived is False


POOL = "CUDA error: out of memory\n  current device: 0, in function {0} at /src/ggml/src/ggml-cuda.cu:291\n  ggml_cuda_device_malloc(&ptr, look_ahead_size, device)\n"


@pytest.mark.parametrize(
    ("before", "function", "oom_class"),
    [
        (READY + TASK, "alloc", "prefill_spike"),
        (READY + TASK, "ggml_cuda_pool_malloc_vmm", "prefill_spike"),
        ("", "alloc", None),
    ],
)
def test_a_pool_grows_for_a_batch_larger_than_any_before(before: str, function: str, oom_class: str | None) -> None:
    assert first(before + POOL.format(function)).oom_class == oom_class


@pytest.mark.parametrize(
    "says", ["Insufficient VRAM for model and cache", "Insufficient VRAM in split for model and cache"]
)
def test_exllama_s_loaders_say_that_they_load(says: str) -> None:
    assert first(f"ERROR: RuntimeError: {says}\n").oom_class == "load_time"


LISTENS = traceback(
    ("/pkg/vllm/v1/worker/gpu_worker.py", "init_device", "init_worker_distributed_environment("),
    ("/pkg/torch/distributed/rendezvous.py", "_create_c10d_store", "return TCPStore("),
    ends="torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. {0}",
)
FAILED = (
    "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
)


@pytest.mark.parametrize("prefix", ["", "(Rollout pid=891) (EngineCore_0 pid=892) "])
@pytest.mark.parametrize(
    ("reason", "verdict"), [("name: EADDRINUSE, message: address already in use", "not_oom"), ("socket closed", None)]
)
def test_a_port_in_use_is_no_lack_of_memory(prefix: str, reason: str, verdict: str | None) -> None:
    log = LISTENS.format(reason).splitlines()
    assert first("".join(f"{prefix}{line}\n" for line in log) + FAILED).verdict == verdict
