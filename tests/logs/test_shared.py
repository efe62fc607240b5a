"""The logs of real workers (OOMCTL_SHARED): figures as printed, per rank, and no failure where there was none."""

import re
from pathlib import Path

import pytest

from oomctl.schemas.rows import Row
from tests.logs.reading import NO_SHARED, of_kind, read, shared_logs

STARTS = shared_logs("vllm_logs/*")
SUCCESSFUL = [path for path in STARTS if "FAILED" not in path.name]
TP2 = [path for path in SUCCESSFUL if "tp2" in path.name]


def name(path: Path | None) -> str:
    return path.stem[:60] if path is not None else ""


def components(rows: list[Row]) -> dict[tuple[int | None, str, str | None], tuple[int, int]]:
    """(rank, component, owner) to (bytes, resolution), the first of each: a summary repeats some with fewer digits."""
    found: dict[tuple[int | None, str, str | None], tuple[int, int]] = {}
    for row in rows:
        if row["kind"] == "memory":
            fields = row["memory"]
            key = (row.get("rank"), fields["component"], fields.get("owner"))
            found.setdefault(key, (fields["bytes"], fields["resolution_bytes"]))
    return found


def printed(text: str, label: str) -> dict[int, tuple[int, int]]:
    """What an independent reading of the log says: (bytes, resolution) by rank."""
    found = {}
    for line in text.split("\n"):
        match = re.match(rf"\(Worker_TP(\d) pid=\d+\) .*{label}(\d+\.?\d*) ?GiB", line)
        if match is not None:
            digits = len(match[2].partition(".")[2])
            found[int(match[1])] = (round(float(match[2]) * 2**30), 2**30 // 2 // 10**digits)
    return found


@pytest.mark.parametrize("path", SUCCESSFUL or NO_SHARED, ids=name)
def test_a_successful_start_has_no_failure(path: Path) -> None:
    rows = read(path.read_bytes())
    assert of_kind(rows, "oom", "refusal") == []
    assert [fields for fields in of_kind(rows, "fault") if fields["code"] != "exception"] == []
    assert [fields for fields in of_kind(rows, "lifecycle") if fields["phase"] == "killed"] == []


@pytest.mark.parametrize("path", TP2 or NO_SHARED, ids=name)
@pytest.mark.parametrize(
    ("component", "owner", "label"),
    [
        ("weights", "steady", r"weights memory: "),
        ("weights", "load_peak", r"Peak GPU memory after loading weights: "),
        ("activation", "peak", r"torch peak memory increase: "),
        ("non_torch", "forward_increase", r"non-torch forward increase memory: "),
        ("graph_pool", "estimate", r"Estimated CUDA graph memory: "),
        ("graph_pool", "captured", r"Graph capturing finished in \d+ secs, took "),
        ("kv_pool", "available", r"Available KV cache memory: "),
    ],
)
def test_components_of_each_rank_as_printed(path: Path, component: str, owner: str, label: str) -> None:
    text = path.read_text("utf-8", "replace")
    found = {rank: value for (rank, *key), value in components(read(text)).items() if key == [component, owner]}
    assert found == printed(text, label)
    if component != "graph_pool":
        assert found


@pytest.mark.parametrize("path", SUCCESSFUL or NO_SHARED, ids=name)
def test_kv_pool_as_printed(path: Path) -> None:
    text = path.read_text("utf-8", "replace")
    pools = of_kind(read(text), "kv_pool")
    tokens = {int(number.replace(",", "")) for number in re.findall(r"GPU KV cache size: ([\d,]+) tokens", text)}
    blocks = {int(number) for number in re.findall(r"num_gpu_blocks is: (\d+)", text)}
    assert {pool["total_tokens"] for pool in pools if "total_tokens" in pool} == tokens
    assert {pool["total_blocks"] for pool in pools if "total_blocks" in pool} == blocks
    assert tokens


@pytest.mark.parametrize("path", STARTS or NO_SHARED, ids=name)
def test_one_start_of_a_known_engine(path: Path) -> None:
    rows = read(path.read_bytes())
    assert {row["incarnation"] for row in rows} == {"1"}
    versions = {
        fields["value"]
        for fields in of_kind(rows, "manifest")
        if (fields["section"], fields["key"]) == ("engine", "version")
    }
    assert len(versions) <= 1


@pytest.mark.parametrize("path", shared_logs("vllm_logs/*gpt-oss*FAILED*") or NO_SHARED, ids=name)
def test_the_failure_in_the_sampler_warm_up(path: Path) -> None:
    rows = read(path.read_bytes())
    first = next(row for row in rows if row["kind"] == "oom")
    assert first["oom"]["requested_bytes"] == 786 * 2**20
    functions = [frame["function"] for frame in of_kind(rows, "stack") if frame["stack_id"] == first["oom"]["stack_id"]]
    assert "_dummy_sampler_run" in functions


@pytest.mark.parametrize(
    "path", [path for path in shared_logs("vllm_logs/*FAILED*") if "gpt-oss" not in path.name] or NO_SHARED, ids=name
)
def test_failures_that_are_not_about_memory(path: Path) -> None:
    rows = read(path.read_bytes())
    assert of_kind(rows, "oom") == []
    assert of_kind(rows, "fault")


@pytest.mark.parametrize("path", shared_logs("engine/sglang/server_retract.log") or NO_SHARED, ids=name)
def test_retractions_of_a_real_sglang(path: Path) -> None:
    rows = read(path.read_bytes())
    retractions = [fields for fields in of_kind(rows, "oom") if fields["error_type"] == "retraction"]
    assert len(retractions) == path.read_text().count("KV cache pool is full. Retract requests.")
    assert all(fields["fatal"] is False and fields["requests"] for fields in retractions)
