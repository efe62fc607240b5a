"""What is said: to survivors, of the host, of gates, of silence, of figures that cannot be."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oomctl.analyzers.triage import prefill_spike, recovery, triage
from oomctl.analyzers.triage.groups import incidents
from oomctl.schemas import storage
from oomctl.schemas.verdict import Incident
from tests.logs.reading import read
from tests.triage import tables
from tests.triage.tables import GIB, LOAD_FRAME, LOADING, LOGITS_FRAME, RETRACTION, SERVING, STEP_FRAME, WARMING, Table

ADAPTER_FRAME = ("/pkg/vllm/lora/worker_manager.py", "_load_adapter")
START = datetime(2026, 1, 1, tzinfo=UTC)
TEN_MINUTES = timedelta(minutes=10, seconds=1)
LORA_LOG = """\
(APIServer pid=1) INFO 10-02 11:00:00 [api_server.py:1346] vLLM API server version 0.11.0
(APIServer pid=1) INFO 10-02 11:00:01 [utils.py:253] non-default args: {'model': 'm', 'max_loras': 8}
(EngineCore_DP0 pid=9) INFO 10-02 11:00:10 [gpu_model_runner.py:4735] Starting to load model m...
(EngineCore_DP0 pid=9) INFO 10-02 11:00:40 [kv_cache_utils.py:1319] GPU KV cache size: 100,000 tokens
(APIServer pid=1) INFO:     Application startup complete.
(EngineCore_DP0 pid=9) ERROR 10-02 11:01:05 [core.py:700] Traceback (most recent call last):
(EngineCore_DP0 pid=9) ERROR 10-02 11:01:05 [core.py:700]   File "/pkg/lora/worker_manager.py", line 9, in _load_adapter
(EngineCore_DP0 pid=9) ERROR 10-02 11:01:05 [core.py:700]     lora = self._load(x)
(EngineCore_DP0 pid=9) ERROR 10-02 11:01:05 [core.py:700] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate \
200.00 MiB. GPU 0 has a total capacity of 79.25 GiB of which 100.00 MiB is free.
"""
REPORT = (
    "(APIServer pid=1) INFO 10-02 11:01:10 [loggers.py:181] Engine 000: Avg prompt throughput: 90.0 tokens/s, Avg "
    "generation throughput: 40.0 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 10.0%\n"
)


def of_log(text: str) -> list[Incident]:
    with storage.connect() as connection:
        storage.load_rows(connection, read(text))
        return triage(connection)


def changes(found: Incident) -> list[str]:
    return [remedy.setting or "" for remedy in found.remedies if remedy.when == "change"]


# Survivors


@pytest.mark.parametrize("frame", [LOGITS_FRAME, ADAPTER_FRAME, ("/pkg/else.py", "hello"), LOAD_FRAME])
def test_survivors_are_not_told_to_restart(frame: tuple[str, str]) -> None:
    table = Table(*SERVING).arguments("engine", name="vllm", version="0.11").stack(STEP_FRAME, frame)
    found = table.oom(**tables.figures(), fatal=None).report(0.3, 4).root()
    assert found.survived is True
    now = " ".join(remedy.action for remedy in found.remedies if remedy.when == "now").lower()
    assert "restart" not in now and "start " not in now


def test_the_dead_are_told_to_restart() -> None:
    found = Table(*SERVING).stack(STEP_FRAME, LOGITS_FRAME).oom(**tables.figures()).root()
    assert found.remedies[0].action.startswith("Restart")


# Prompt load


def spike(*prompts: float) -> bool:
    table = Table(*SERVING)
    for prompt in prompts:
        table.report(0.3, 4, prompt=prompt, generation=40.0)
    result = prefill_spike.assess(table.stack(STEP_FRAME).oom(**tables.figures()).case())
    return any("tokens/s" in item.says for item in result.evidence)


def test_detects_a_rise_of_prompts() -> None:
    assert spike(190, 410, 630, 850)


@pytest.mark.parametrize("prompts", [(850,), (410, 850), (800, 820, 850), (190, 410, 850, 0)])
def test_ignores_one_report_or_an_ordinary_load(prompts: tuple[float, ...]) -> None:
    assert not spike(*prompts)


# Recovery and adapters


def test_detects_an_adapter_load_that_was_survived() -> None:
    (found,) = of_log(LORA_LOG + REPORT)
    assert (found.oom_class, tables.causes(found)[0], found.survived) == ("recovery", "adapter_load", True)
    assert changes(found)[:2] == ["--max-loras 4", "--max-lora-rank lower"]


def test_ignores_survival_without_a_report_after_it() -> None:
    assert [found.survived for found in of_log(LORA_LOG)] == [None]


def test_ignores_reports_before_the_lines_of_the_failure() -> None:
    first, second = LORA_LOG.split("(EngineCore_DP0 pid=9) ERROR", 1)
    (found,) = of_log(first + REPORT + "(EngineCore_DP0 pid=9) ERROR" + second)
    assert found.survived is None


def idle(table: Table) -> bool:
    return any("had not served since" in item.says for item in recovery.assess(table.case()).evidence)


def test_detects_a_failure_right_after_a_reload() -> None:
    assert idle(Table(*SERVING, "reloading").stack(STEP_FRAME).oom(**tables.figures()))


def test_ignores_a_reload_after_which_it_served() -> None:
    assert not idle(Table(*SERVING, "reloading").report(0.3, 4).stack(STEP_FRAME).oom(**tables.figures()))
    assert not idle(Table(*SERVING, "reloading").stack(ADAPTER_FRAME).oom(**tables.figures()))


# The host


@pytest.mark.parametrize(
    ("phases", "words"), [(LOADING, "needs to load"), (SERVING, "needs while it serves"), (WARMING, "process needs.")]
)
def test_the_hosts_memory_is_not_the_devices(phases: tuple[str, ...], words: str) -> None:
    table = Table(*phases).arguments("engine", name="vllm", version="0.11")
    found = table.oom(resource="host", api="kernel", error_type="oom_kill", own_process_bytes=50 * GIB).root()
    assert tables.causes(found) == ["host_limit"]
    assert words in found.remedies[-1].action


@pytest.mark.parametrize(
    ("teller", "setting"),
    [
        ("kernel", "swapon FILE"),
        ("kernel_cgroup", "resources.limits.memory"),
        ("supervisor", "resources.limits.memory"),
        ("systemd", "systemctl show UNIT -p MemoryMax -p MemoryPeak"),
        ("slurm", "sbatch --mem"),
    ],
)
def test_the_limit_to_raise_is_that_of_who_ended_it(teller: str, setting: str) -> None:
    table = Table(*SERVING).oom(resource="host", api=teller, error_type="oom_kill")
    assert changes(table.root()) == [setting]


def test_an_allocator_that_fails_on_the_host_while_loading() -> None:
    table = Table(*LOADING).stack(LOAD_FRAME)
    found = table.oom(resource="host", api="cpu_allocator", error_type="RuntimeError", requested_bytes=GIB).root()
    assert tables.causes(found) == ["host_allocation"]


# Gates


def gate(message: str, **fields: Any) -> Incident:
    table = Table(*WARMING).arguments("engine", name="vllm", version="0.11")
    base: dict[str, Any] = {"gate": "kv_fits_request", "resource": "kv_blocks", "message": message, "needed_tokens": 32768}
    return table.add("refusal", **(base | fields)).root()


def test_detects_the_engines_own_estimate() -> None:
    found = gate(
        "max seq len 32768. Based on the available memory, the estimated maximum model length is 5552.",
        needed_bytes=4 * GIB,
        available_bytes=GIB,
        resolution_bytes=5 * 2**20,
    )
    assert changes(found)[0] == "--max-model-len 5552"
    assert "the engine estimates that 5552 tokens fit" in found.remedies[0].arithmetic


def test_ignores_an_estimate_that_is_not_there() -> None:
    assert changes(gate("too long"))[0] == "--max-model-len lower"
    assert changes(gate("the estimated maximum model length is 0"))[0] == "--max-model-len lower"


def test_figures_below_the_print() -> None:
    found = gate("too long", needed_bytes=0, available_bytes=0, resolution_bytes=51 * 2**20)
    assert "below what was printed" in next(remedy for remedy in found.remedies if remedy.when == "change").arithmetic
    assert "0 B" not in found.remedies[-1].arithmetic + found.summary


# Ranks far apart


def ranks(apart: timedelta, *, second: int = 1, known: bool = True) -> int:
    table = Table(*SERVING).stack(STEP_FRAME).oom(rank=0, **tables.figures()).oom(rank=second, **tables.figures())
    failures = [row for row in table.rows if row["kind"] == "oom"]
    for row, when in zip(failures, (START, START + apart), strict=True):
        if known:
            row["ts"] = round(when.timestamp() * 1e6)
    return len(incidents(table.connection()))


def test_detects_ranks_that_failed_far_apart() -> None:
    assert ranks(TEN_MINUTES) == 2


def test_ignores_ranks_that_failed_together_or_without_times() -> None:
    assert ranks(timedelta(minutes=9)) == 1
    assert ranks(TEN_MINUTES, known=False) == 1
    assert ranks(TEN_MINUTES, second=0) == 1, "the same rank again"


# Silence, blocks, figures


@pytest.mark.parametrize(("code", "asked"), [("watchdog", True), ("nccl_timeout", True), ("illegal_access", False)])
def test_only_silence_asks_for_the_silent_ranks_log(code: str, asked: bool) -> None:
    found = Table(*SERVING).add("fault", code=code, fatal=True, detail="x").root()
    assert any("fell silent" in item.what for item in found.missing) is asked


def test_a_retraction_is_no_failed_allocation() -> None:
    found = Table(*SERVING).add("oom", **RETRACTION).report(0.97, 9).root()
    says = [item.says for item in found.evidence]
    assert "running requests were sent back for want of KV blocks" in says
    assert "requests were sent back to the queue once for want of KV blocks" in says
    assert not any("an allocation of KV blocks failed" in item for item in says)


def test_a_failed_allocation_of_blocks_is_one() -> None:
    found = Table(*SERVING).add("oom", **(RETRACTION | {"error_type": "decode_out_of_memory", "fatal": True})).root()
    assert any(item.says == "an allocation of KV blocks failed" for item in found.evidence)


@pytest.mark.parametrize("wrong", ["free_bytes", "own_process_bytes"])
def test_figures_that_contradict_each_other(wrong: str) -> None:
    found = Table(*LOADING).oom(**(tables.figures() | {wrong: 90 * GIB})).root()
    assert found.memory_at_oom is not None
    assert "the printed figures contradict each other" in found.memory_at_oom.note


def test_figures_that_agree() -> None:
    found = Table(*LOADING).oom(**tables.figures()).root()
    assert found.memory_at_oom is not None and found.memory_at_oom.note == ""
