"""What is said where no frame tells the class: of layers, holes, the batch, and remedies that hold whatever it is."""

from typing import Any

import pytest

from oomctl.schemas.verdict import Incident
from tests.triage import tables
from tests.triage.logs import triaged
from tests.triage.tables import GIB, MIB, SERVING, Table

LAYER = ("/pkg/vllm/model_executor/models/qwen2.py", "forward")
KERNEL = ("/pkg/sglang/srt/layers/moe/fused_moe.py", "fused_experts_impl")
SAMPLER = ("/pkg/vllm/v1/sample/ops/topk_topp_sampler.py", "apply_top_k_top_p")


def serving(engine: str = "vllm", version: str = "0.11.0", **arguments: Any) -> Table:
    table = Table(*SERVING).arguments("engine", name=engine, version=version).arguments(**arguments)
    return table.add("memory", component="kv_pool", owner="available", bytes=20 * GIB).report(0.2, 4)


def changes(found: Incident) -> list[str | None]:
    return [remedy.setting for remedy in found.remedies if remedy.when == "change"]


# A layer that asks for more than one token of each request takes


@pytest.mark.parametrize(("most", "requested", "decided"), [(64, 6 * GIB, True), (512, GIB, False), (64, 100 * MIB, False)])
def test_a_layer_asks_for_more_than_decoding_could_take(most: int, requested: int, decided: bool) -> None:
    table = serving(max_num_seqs=most).stack(LAYER).oom(**tables.figures(requested=requested, free=100 * MIB))
    assert table.root().oom_class == ("prefill_spike" if decided else None)


def test_without_a_limit_what_was_seen_to_run_counts_twice() -> None:
    assert serving().stack(LAYER).oom(**tables.figures(requested=GIB, free=100 * MIB)).root().oom_class == "prefill_spike"
    few = tables.figures(requested=15 * MIB, free=10 * MIB)
    assert serving().stack(LAYER).oom(**few).root().oom_class is None


def test_a_layer_tells_no_phase() -> None:
    table = Table("spawned").stack(LAYER).oom(**tables.figures(requested=6 * GIB, free=100 * MIB))
    found = table.root()
    assert (found.oom_class, found.phase) == (None, "spawned")


def test_chunks_that_are_off_are_switched_on_first() -> None:
    table = serving(version="0.6.2", enable_chunked_prefill=False, max_num_seqs=64).stack(LAYER)
    found = table.oom(**tables.figures(requested=6 * GIB, free=100 * MIB)).root()
    assert changes(found)[0] == "--enable-chunked-prefill"


# Holes


def at_most(requests: int) -> Table:
    return serving("sglang", "0.5.4", max_running_requests=requests)


def holes(cached: int, requested: int = 512 * MIB, *, private: int | None = None, stage: Table | None = None) -> Table:
    figures = tables.figures(requested=requested, free=100 * MIB, cached=cached)
    return (stage or at_most(512)).stack(KERNEL).oom(**figures, private_pool_bytes=private)


def test_holes_far_above_the_request_are_fragmentation() -> None:
    found = holes(10 * GIB).root()
    assert (found.oom_class, found.resource) == ("fragmentation", "device")
    assert changes(found)[0] == "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    assert "--mem-fraction-static" in (changes(found)[1] or "")


def test_nor_are_they_a_large_batchs_fault() -> None:
    assert holes(10 * GIB, stage=at_most(8)).root().oom_class == "fragmentation"
    assert holes(GIB, stage=at_most(8)).root().oom_class == "prefill_spike"


@pytest.mark.parametrize("cached", [GIB, 600 * MIB])
def test_a_little_more_than_the_request_is_none(cached: int) -> None:
    assert holes(cached).root().oom_class is None


def test_small_requests_are_none() -> None:
    assert holes(GIB, 20 * MIB).root().oom_class is None


def test_graphs_that_an_old_message_does_not_tell_apart_are_no_holes() -> None:
    stage = at_most(512).add("memory", component="graph_pool", owner="captured", bytes=9 * GIB)
    assert holes(10 * GIB, stage=stage).root().oom_class is None
    stage = at_most(512).add("memory", component="graph_pool", owner="captured", bytes=9 * GIB)
    assert holes(10 * GIB, private=2 * GIB, stage=stage).root().oom_class == "fragmentation"


@pytest.mark.parametrize("phases", [("spawned", "loading"), ("spawned", "loading", "weights_loaded", "capturing")])
def test_before_it_serves_there_are_other_reasons(phases: tuple[str, ...]) -> None:
    assert holes(10 * GIB, stage=Table(*phases)).root().oom_class != "fragmentation"


SGLANG = """\
{before}[2026-05-02 08:00:00] server_args=ServerArgs(model_path='m', tp_size=1, mem_fraction_static=0.8)
[2026-05-02 08:02:00] The server is fired up and ready to roll!
[2026-05-02 08:30:01] Scheduler hit an exception: Traceback (most recent call last):
  File "/sgl/python/sglang/srt/layers/moe/fused_moe.py", line 14, in fused_experts_impl
    cache = torch.empty(
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 79.25 GiB of \
which 200.00 MiB is free. Including non-PyTorch memory, this process has 79.05 GiB memory in use. Of the allocated memory \
68.00 GiB is allocated by PyTorch, and 10.00 GiB is reserved by PyTorch but unallocated. If reserved but unallocated \
memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.
"""


@pytest.mark.parametrize(
    ("before", "oom_class"),
    [
        ("", "fragmentation"),
        ("+ export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n", None),
        ("environment: {'PYTORCH_CUDA_ALLOC_CONF': 'max_split_size_mb:64,expandable_segments:True'}\n", None),
    ],
)
def test_expandable_segments_give_their_pages_back(before: str, oom_class: str | None) -> None:
    found = triaged(SGLANG.format(before=before))[0]
    assert found.oom_class == oom_class
    assert ("expandable_segments" in str(changes(found))) is (oom_class is not None)


# Whatever the class


def test_what_holds_for_every_class_is_offered_and_says_so() -> None:
    table = serving(gpu_memory_utilization=0.92).stack(SAMPLER).oom(**tables.figures(requested=2 * GIB, free=GIB))
    found = table.root()
    assert found.oom_class is None
    (change,) = [remedy for remedy in found.remedies if remedy.when == "change"]
    assert change.action == "Whatever the class: leave more of the device outside the budget."
    assert change.setting == "--gpu-memory-utilization 0.90"
    assert (change.frees_bytes or 0) > GIB and "x 80.00 GiB" in change.arithmetic


def test_nothing_is_offered_before_there_is_a_pool() -> None:
    table = Table("spawned").arguments("engine", name="vllm", version="0.11.0").stack(SAMPLER).oom(**tables.figures())
    assert changes(table.root()) == []


@pytest.mark.parametrize("fraction", [0.05, 0.88])
def test_a_budget_that_has_nothing_to_give_up_is_not_offered(fraction: float) -> None:
    table = serving("sglang", "0.5.4", mem_fraction_static=fraction).add(
        "memory", component="weights", owner="steady", bytes=40 * GIB
    )
    table.stack(("/pkg/sglang/srt/model_executor/model_runner.py", "forward_extend"))
    found = table.oom(**tables.figures(requested=3 * GIB)).root()
    assert found.oom_class == "prefill_spike"
    assert any("--mem-fraction-static" in (setting or "") for setting in changes(found)) is (fraction > 0.5)
    assert all(setting is not None for setting in changes(found))


# What is not known


def test_a_traceback_that_is_there_is_not_missed() -> None:
    table = serving(max_num_seqs=4).stack(SAMPLER).oom(**tables.figures())
    found = table.add("step", mode="decode", decode_tokens=4, dumped=True).root()
    assert [item.what for item in found.missing] == ["how the memory had grown before"]
    assert any("it was asked for in apply_top_k_top_p" in item.says for item in found.evidence)
    found = serving().oom(**tables.figures(), stack_id=None).root()
    assert any("a traceback" in item.what for item in found.missing)


def test_frames_without_the_first_line_of_their_traceback() -> None:
    lines = (
        '  File "/opt/vllm/v1/worker/gpu_model_runner.py", line 40, in profile_run',
        "    self._dummy_run(self.max_num_tokens)",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.25 GiB "
        "of which 1.00 GiB is free.",
    )
    head = "(EngineCore pid=7) ERROR 05-02 08:30:00 [core.py:842] "
    for text in ("\n".join(lines), "\n".join(head + line for line in lines)):
        (found,) = triaged(text + "\n")
        assert (found.oom_class, found.evidence[0].cites[0].line) == ("warm_up", 3)


def test_frames_alone_tell_nothing() -> None:
    assert (
        triaged('Stack (most recent call last):\n  File "/opt/a.py", line 40, in profile_run\n    x()\nNote: all is well\n')
        == []
    )
