# ruff: noqa: E501  (lines as the engine prints them)
"""LMDeploy's reports beside those of the labelled family."""

import pytest

from tests.triage.engines.reports import Report, check

CONFIG = "2025-05-14 11:16:28,207 - lmdeploy - INFO - input backend=turbomind, backend_config=TurbomindEngineConfig(dtype='auto', tp=1, session_len=16384, max_batch_size=128, cache_max_entry_count=0.8)\n"
UP = CONFIG + "[TM][INFO] [BlockManager] max_block_count = 2618\nINFO:     Application startup complete.\n"

REPORTS = (
    Report("weights, one line", "RuntimeError: [TM][ERROR] CUDA runtime error: out of memory /lmdeploy/src/turbomind/utils/memory_utils.cu:32\n",
        "oom", "load_time"),
    Report("many requests at once", UP + "[TM][INFO] [Forward] [0, 9), dc=8, pf=1, sum_q=8192, sum_k=8192, max_q=8184, max_k=8184\n[TM][ERROR] CUDA runtime error: out of memory /lmdeploy/src/turbomind/core/allocator.cc:49\n",
        "oom", "prefill_spike"),
    Report("nothing left for the cache", CONFIG.replace("turbomind", "pytorch") + "RuntimeError: No enough gpu memory for runtime.\n",
        "capacity_gate", None, "device", False),
    Report("the blocks run out, PyTorch engine", UP + "MemoryError: No enough free memory blocks.\n", "oom", "decode_growth", "kv_blocks"),
    Report("healthy", UP + "[TM][INFO] [Forward] [0, 9), dc=9, pf=0, sum_q=9, sum_k=8192, max_q=1, max_k=8184\n", "none"),
)  # fmt: skip


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_report(report: Report) -> None:
    check(report)
