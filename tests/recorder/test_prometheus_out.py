"""What attach --serve-metrics serves, read by Prometheus' own parser."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from oomctl.collectors.recorder import prometheus_out as module
from oomctl.collectors.recorder.health import LATE_S, Health
from oomctl.collectors.recorder.prometheus_out import PrometheusOutlet
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.rows import make_row


@pytest.fixture
def outlet() -> Iterator[PrometheusOutlet]:
    made = PrometheusOutlet(0, Health())
    yield made
    made.close()


def served(outlet: PrometheusOutlet) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{outlet.port}/metrics", timeout=20) as reply:
        text = reply.read().decode()
    return {
        (sample.name, frozenset((name, value) for name, value in sample.labels.items() if value)): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def labels(**pairs: str) -> frozenset[tuple[str, str]]:
    return frozenset(pairs.items())


def test_newest_figures_by_worker_and_rank(outlet: PrometheusOutlet) -> None:
    outlet.offer(
        [
            make_row("kv_pool", {"usage_ratio": 0.5, "preempted_requests": 3}, {"worker": "w", "rank_name": "DP0"}),
            make_row("kv_pool", {"usage_ratio": 0.99}, {"worker": "w", "rank_name": "DP1"}),
            make_row("kv_pool", {"usage_ratio": 0.75}, {"worker": "w", "rank_name": "DP0"}),
            make_row("device", {"free_bytes": 7}, {"worker": "w", "device_id": 0}),
            make_row("oom", {"resource": "device", "fatal": True}, {"worker": "w"}),
            make_row("oom", {"resource": "device", "fatal": True}, {"worker": "w"}),
            make_row("log", {"text": "x"}, {"worker": "w"}),
        ]
    )
    found = served(outlet)
    assert found["oomctl_kv_pool_usage_ratio", labels(worker="w", rank_name="DP0")] == 0.75
    assert found["oomctl_kv_pool_usage_ratio", labels(worker="w", rank_name="DP1")] == 0.99
    assert found["oomctl_requests_preempted_total", labels(worker="w", rank_name="DP0")] == 3
    assert found["oomctl_device_memory_free_bytes", labels(worker="w", device_id="0")] == 7
    assert found["oomctl_oom_events_total", labels(worker="w", resource="device", fatal="True")] == 2
    assert outlet.dropped() == 0


def test_series_are_bounded_and_counted(outlet: PrometheusOutlet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SERIES", 3)
    outlet.offer([make_row("kv_pool", {"usage_ratio": 0.5}, {"worker": f"w{n}"}) for n in range(10)])
    assert len(served(outlet)) == 3
    assert (outlet.dropped(), outlet.dropped()) == (7, 0)


def test_a_port_that_is_taken(outlet: PrometheusOutlet) -> None:
    with pytest.raises(OomctlError, match="cannot listen"):
        PrometheusOutlet(outlet.port, Health())


def test_it_listens_on_loopback(outlet: PrometheusOutlet) -> None:
    assert outlet._server.server_address[0] == "127.0.0.1"


def asked(outlet: PrometheusOutlet) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{outlet.port}/healthz", timeout=20) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_healthz_lives_as_long_as_the_loop_turns() -> None:
    now_s = 100.0
    health = Health(lambda: now_s)
    outlet = PrometheusOutlet(0, health)
    try:
        health.turned(lost=3, errors=1, held_rows=0, problem=None)
        now_s += LATE_S
        status, report = asked(outlet)
        assert (status, report["status"], report["lost_records"], report["errors"]) == (200, "ok", 3, 1)
        assert report["last_write_age_s"] == LATE_S
        health.turned(lost=3, errors=1, held_rows=7, problem="No space left on device")
        status, report = asked(outlet)
        assert (status, report["status"], report["held_rows"]) == (200, "degraded", 7)  # a new start would not help
        assert (report["last_round_age_s"], report["last_write_age_s"]) == (0, LATE_S)
        now_s += LATE_S + 1
        assert asked(outlet)[0] == 503
        assert asked(outlet)[1]["status"] == "hangs"
        health.ends()
        assert (asked(outlet)[0], asked(outlet)[1]["status"]) == (200, "ending")
    finally:
        outlet.close()


@pytest.mark.parametrize("how", ["page", "killed", "other"])
def test_figures_end_with_what_told_them(outlet: PrometheusOutlet, how: str) -> None:
    common = {"worker": "w", "incarnation": "1", "stream": "n/http://h/metrics"}
    outlet.offer([make_row("kv_pool", {"usage_ratio": 0.9, "preempted_requests": 3}, common)])
    end = {
        "page": make_row("collector", {"name": "metrics http://h/metrics", "state": "degraded"}, {"worker": "w"}),
        "killed": make_row("lifecycle", {"phase": "killed"}, {"worker": "w", "incarnation": "1"}),
        "other": make_row("lifecycle", {"phase": "killed"}, {"worker": "w", "incarnation": "0"}),
    }[how]
    outlet.offer([end])
    found = served(outlet)
    assert (("oomctl_kv_pool_usage_ratio", labels(worker="w")) in found) == (how == "other")
    assert found["oomctl_requests_preempted_total", labels(worker="w")] == 3, "what was counted stays true"
