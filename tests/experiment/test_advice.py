"""Which setting to change first, by what gave way and what was left of the rest."""

from typing import Any

import pytest

from oomctl.analyzers.capacity.experiment.advice import Worker, advise
from oomctl.schemas.cohorts import Spread
from oomctl.schemas.replay import Slo
from tests.experiment.test_artifact import tried

SLO = Slo(ttft_s=2.0, tpot_s=0.1)
ARGUMENTS = {"max_num_seqs": "16", "gpu_memory_utilization": "0.92", "kv_cache_memory_bytes": "None"}
VLLM = Worker("vllm", "0.32.0", ARGUMENTS, 512)
KEPT = tried(4.0, most_running=9, least_free_blocks=400)
QUICK, LATE = Spread(count=9, p90=0.03), Spread(count=9, p90=0.2)
FULL: dict[str, Any] = {"broke": "slo", "term": "ttft", "most_running": 16, "most_waiting": 30, "least_free_blocks": 300}


@pytest.mark.parametrize(
    ("beyond", "expected"),
    [
        ({"broke": "kv_blocks"}, ("--gpu-memory-utilization", "0.92", "raise", None)),
        ({"broke": "device"}, ("--gpu-memory-utilization", "0.92", "lower", None)),
        ({"broke": "host"}, (None, None, None, None)),
        ({"broke": "errors", "reason": "status 500"}, (None, None, None, None)),
        # Slots are full, blocks are free, tokens are fast.
        (FULL | {"tpot_s": QUICK}, ("--max-num-seqs", "16", "raise", None)),
        # More at once would make each token late.
        (FULL | {"tpot_s": LATE}, (None, None, None, None)),
        # Nobody waits for a slot.
        (FULL | {"tpot_s": QUICK, "most_running": 12}, (None, None, None, None)),
        (FULL | {"tpot_s": LATE, "term": "tpot"}, ("--max-num-seqs", "16", "lower", 9)),
    ],
)
def test_one_setting(beyond: dict[str, Any], expected: tuple[str | int | None, ...]) -> None:
    found = advise(VLLM, KEPT, tried(5.0, **beyond), SLO)
    assert (found.setting, found.present, found.change, found.to) == expected
    assert found.why


def test_the_option_that_is_in_force_is_named() -> None:
    given = Worker("vllm", "0.32.0", ARGUMENTS | {"kv_cache_memory_bytes": "16777216"}, 512)
    found = advise(given, KEPT, tried(5.0, broke="kv_blocks"), SLO)
    assert (found.setting, found.present) == ("--kv-cache-memory-bytes", "16777216")
    sglang = advise(Worker("sglang", "0.5.1", {}, None), KEPT, tried(5.0, broke="kv_blocks"), SLO)
    assert sglang.setting == "--mem-fraction-static"
    silent = advise(Worker("vllm", "0.32.0", {}, 512), KEPT, tried(5.0, **(FULL | {"tpot_s": QUICK})), SLO)
    assert (silent.setting, silent.present) == ("--max-num-seqs", None)
    assert silent.why.startswith("16 slots were taken and 30 requests waited")
    unknown = advise(Worker(None, None, {}, None), KEPT, tried(5.0, broke="kv_blocks"), SLO)
    assert (unknown.setting, unknown.present) == (None, None)
    assert "not known" in unknown.why
