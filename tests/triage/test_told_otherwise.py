"""Failures told in other words than the framework's own, and what looks like them: pairs of logs that differ in one thing."""

# ruff: noqa: E501  a line of a log is one line

import pytest

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
        ("model = peft.PeftModel.from_pretrained(base, path)", "load_time"),
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
    ("line", "verdict"),
    [
        ("OpenBLAS blas_thread_init: pthread_create failed for thread 31 of 64: Resource temporarily unavailable", "not_oom"),
        ("OpenBLAS blas_thread_init: pthread_create: Resource temporarily unavailable", "not_oom"),
        ("libgomp: Thread creation failed: Resource temporarily unavailable", "not_oom"),
        ("  what():  Resource temporarily unavailable", "not_oom"),
        ("runtime: failed to create new OS thread (have 2048 already; errno=11)", "not_oom"),
        ("[8812.1] cgroup: fork rejected by pids controller in /kubepods/pod1", "not_oom"),
        ("OpenBLAS blas_thread_init: pthread_create failed for thread 31 of 64: Cannot allocate memory", None),
    ],
)  # fmt: skip
def test_a_limit_on_threads_is_no_lack_of_memory(line: str, verdict: str | None) -> None:
    found = first(f"{line}\nAborted (core dumped)\n")
    assert found.verdict == verdict
    assert ("ulimit -u" in (found.remedies[0].setting or "")) is (verdict == "not_oom")


def test_the_worker_died_in_the_words_of_older_releases() -> None:
    failed = f"ERROR 03-18 21:41:10 [engine.py:160] torch.OutOfMemoryError: {OOM.format(asked='1.00 GiB')}\n"
    dead = "CRITICAL 03-18 21:41:10 [launcher.py:116] MQLLMEngine is already dead, terminating server process\n"
    assert [first(failed + after).survived for after in ("", dead)] == [None, False]


@pytest.mark.parametrize(
    "shell", ["Aborted (core dumped)", "/opt/run.sh: line 3:    22 Aborted                 (core dumped) serve"]
)
def test_a_shell_s_word_on_an_abort(shell: str) -> None:
    assert [item.survived for item in triaged(f"{shell}\n")] == [False]
