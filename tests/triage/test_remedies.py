"""Remedies: concrete settings of that engine, with arithmetic that holds."""

import re
from typing import Any

import pytest

from oomctl.schemas.verdict import Incident, Remedy
from tests.scenarios import catalogue
from tests.triage import tables
from tests.triage.tables import CAPTURE_FRAME, GIB, MIB, SERVING, STEP_FRAME, WARMING, Table

FLAGS = {
    "vllm": {
        "--gpu-memory-utilization", "--max-num-seqs", "--max-num-batched-tokens", "--max-model-len", "--enforce-eager",
        "--tensor-parallel-size", "--cpu-offload-gb", "--kv-cache-dtype", "--max-loras", "--model", "--quantization",
    },
    "sglang": {
        "--mem-fraction-static", "--cuda-graph-max-bs", "--chunked-prefill-size", "--max-running-requests", "--tp",
        "--schedule-conservativeness",
    },
}  # fmt: skip
"""What `vllm serve` and `sglang.launch_server` take."""
CASES = [(scenario.name, engine) for scenario in catalogue() for engine in scenario.engines if scenario.label["incident"]]


def change(incident: Incident) -> list[Remedy]:
    return [remedy for remedy in incident.remedies if remedy.when == "change"]


def engine(table: Table, named: str = "vllm", **arguments: Any) -> Table:
    return table.arguments("engine", name=named, version="0.11.2").arguments(**arguments)


def capture(total: int, asked: int, free: int, **arguments: Any) -> Incident:
    table = engine(Table(*WARMING, "capturing"), **arguments).stack(CAPTURE_FRAME)
    return table.oom(**tables.figures(total, asked, free)).root()


def test_one_hundredth_of_the_device_against_fifteen_mebibytes() -> None:
    found = capture(round(22.36 * GIB), 786 * MIB, 771 * MIB, gpu_memory_utilization="0.98")
    remedy = change(found)[0]
    assert found.short_bytes == remedy.short_bytes == 15 * MIB
    assert remedy.setting == "--gpu-memory-utilization 0.97"
    assert remedy.frees_bytes is not None and round(remedy.frees_bytes / MIB) == 229
    assert remedy.arithmetic == "(0.98 - 0.97) x 22.36 GiB = 229 MiB against 15 MiB short"
    assert remedy.quality == "derived"


def test_as_many_hundredths_as_it_takes() -> None:
    remedy = change(capture(20 * GIB, GIB, 100 * MIB, gpu_memory_utilization="0.9"))[0]
    assert remedy.frees_bytes is not None and remedy.short_bytes is not None
    assert remedy.frees_bytes >= remedy.short_bytes
    assert remedy.setting == f"--gpu-memory-utilization {0.9 - 0.01 * round(remedy.frees_bytes / (0.2 * GIB)):.2f}"


def test_an_unknown_setting_is_lowered_by_a_step() -> None:
    remedy = change(capture(80 * GIB, 786 * MIB, 771 * MIB))[0]
    assert remedy.setting == "--gpu-memory-utilization lower by 0.01"


@pytest.mark.parametrize(("scenario", "engine_name"), CASES)
def test_settings_are_those_of_the_engine(scenario: str, engine_name: str) -> None:
    found = tables.first(scenario, engine=engine_name, ranks=2)
    assert found.engine == engine_name
    for remedy in change(found):
        assert set(re.findall(r"--[a-z][\w-]*", remedy.setting or "")) <= FLAGS[engine_name], remedy.setting
    hinted = any("expandable_segments" in (remedy.setting or "") for remedy in found.remedies)
    assert hinted is (found.oom_class == "fragmentation"), "PyTorch prints that hint every time; it is right for one class"


@pytest.mark.parametrize(("scenario", "engine_name"), CASES)
def test_every_incident_has_something_to_do_and_now_comes_first(scenario: str, engine_name: str) -> None:
    found = tables.first(scenario, engine=engine_name)
    assert found.remedies or found.survived, "what was survived may need nothing"
    order = [remedy.when for remedy in found.remedies]
    assert order == sorted(order, key=lambda when: when != "now")
    for remedy in found.remedies:
        assert remedy.action.endswith(".")
        if remedy.frees_bytes is not None and remedy.quality == "derived" and remedy.when == "change":
            assert remedy.frees_bytes > (remedy.short_bytes or 0)


@pytest.mark.parametrize(
    ("engine_name", "arguments", "setting"),
    [
        ("vllm", {"max_num_batched_tokens": 8192}, "--max-num-batched-tokens 4096"),
        ("sglang", {"chunked_prefill_size": 8192}, "--chunked-prefill-size 4096"),
    ],
)
def test_prompts_are_halved(engine_name: str, arguments: dict[str, int], setting: str) -> None:
    table = engine(Table(*SERVING), engine_name, **arguments).report(0.2, 3).stack(STEP_FRAME).oom(**tables.figures())
    found = table.add("step", mode="prefill", prefill_tokens=8192, dumped=True).root()
    assert change(found)[0].setting == setting
    assert change(found)[0].frees_bytes == GIB


def test_a_gate_is_told_what_fits() -> None:
    found = tables.first("gate_start_memory")
    remedy = next(remedy for remedy in change(found) if "--gpu-memory-utilization" in (remedy.setting or ""))
    share = float((remedy.setting or "").split()[-1])
    assert found.memory_at_oom is not None and found.memory_at_oom.bytes is not None
    free = next(node.bytes for node in found.memory_at_oom.children if node.name == "free")
    assert free is not None
    assert share * found.memory_at_oom.bytes <= free


def test_an_unknown_engine_gets_no_flags() -> None:
    found = Table(*WARMING, "capturing").stack(CAPTURE_FRAME).oom(**tables.figures()).root()
    assert found.engine is None
    assert not any("--" in (remedy.setting or "") for remedy in change(found))
