"""What is a sign that memory ran out, what is not, and that a cascade has one."""

from dataclasses import replace
from typing import Any

import pytest

from oomctl.collectors.agent.header import Header
from oomctl.collectors.recorder.drained import Death
from oomctl.collectors.recorder.watch import CASCADE_US, Watch
from oomctl.schemas.rows import Row, make_row

T = 1_790_000_000_000_000 // CASCADE_US * CASCADE_US
HEADER = Header(
    version=2, capacity=16, pid=7, thread_id=7, rank=0, device_id=0, start_ticks=5, monotonic_ns=1, realtime_ns=1,
    boot_id="b", incarnation="b:7:5", worker="w", rank_name="", role="core", engine="",
    active=True, closed=False, dropped=0, errors=0,
)  # fmt: skip


def watch() -> Watch:
    return Watch("w", "b:7:5")


def row(kind: str, ts: int = T, source: str = "agent", **fields: Any) -> Row:
    common = {"ts": ts, "ts_quality": "exact", "stream": "s", "seq": 1, "source": source, "incarnation": "b:7:5"}
    return make_row(kind, fields, common)


@pytest.mark.parametrize(
    ("told", "severity"),
    [
        (row("oom", resource="device", fatal=True), "hard"),
        (row("oom", resource="device"), "hard"),
        (row("oom", source="log", resource="device"), "hard"),
        (row("refusal", source="log", gate="start_memory"), "hard"),
        (row("fault", code="exception", fatal=True), "hard"),
        (row("fault", code="engine_dead", fatal=True), "hard"),
    ],
)
def test_signs_in_rows(told: Row, severity: str) -> None:
    (sign,) = watch().rows([told], T)
    assert (sign.severity, sign.ts) == (severity, T)


@pytest.mark.parametrize(
    "told",
    [
        row("step", step_id=1),
        row("fault", source="log", code="engine_dead", fatal=True),
        row("fault", code="exception"),
        row("lifecycle", phase="stopped"),
        row("oom", resource="kv_blocks", fatal=False),
        row("allocator", num_alloc_retries=3),
        row("kv_pool", preempted_requests=9),
    ],
)
def test_no_signs(told: Row) -> None:
    assert watch().rows([told], T) == []


@pytest.mark.parametrize(
    ("kind", "counter", "values", "found"),
    [
        ("allocator", "num_alloc_retries", (0, 0, 1), ["soft"]),
        ("allocator", "num_ooms", (0, 1), ["hard"]),
        ("allocator", "num_ooms", (5, 5, 5), []),
        ("kv_pool", "preempted_requests", (0, 1), []),
        ("kv_pool", "preempted_requests", (0, 1, 1, 2), ["soft"]),
        ("kv_pool", "preempted_requests", (9, 0, 0), []),
    ],
)
def test_growing_counters(kind: str, counter: str, values: tuple[int, ...], found: list[str]) -> None:
    told = [row(kind, T + number, source="agent", **{counter: value}) for number, value in enumerate(values)]
    assert [sign.severity for sign in watch().rows(told, T)] == found


def test_events_that_the_engine_survived_are_a_sign_together() -> None:
    signs = watch().rows([row("oom", T + number, resource="kv_blocks", fatal=False) for number in range(9)], T)
    assert [(sign.severity, sign.ts) for sign in signs] == [("soft", T + 1)]


def test_two_preemptions_far_apart_are_daily_business() -> None:
    told = [row("kv_pool", T + 70_000_000 * number, preempted_requests=number) for number in range(5)]
    assert watch().rows(told, T) == []


def test_one_cascade_has_one_sign() -> None:
    seen = watch()
    ooms = [row("oom", T + number * 60_000_000, fatal=True) for number in range(30)]
    assert len(seen.rows(ooms, T)) == 1
    assert len(seen.rows([row("oom", T + 30 * 60_000_000 + CASCADE_US, fatal=True)], T)) == 1


def test_a_hard_sign_is_not_swallowed_by_soft_ones() -> None:
    seen = watch()
    told = [row("oom", T + number, fatal=number == 2) for number in range(4)]
    signs = seen.rows(told, T)
    assert [sign.severity for sign in signs] == ["soft", "hard"]
    assert len({sign.incident_id for sign in signs}) == 2


def test_the_id_is_the_same_on_every_node() -> None:
    (one,) = watch().rows([row("oom", T + 1_000_000)], T)
    (two,) = watch().rows([row("oom", T + 9_000_000)], T)
    assert one.incident_id == two.incident_id
    assert one.incident_id != replace(one, incarnation="b:8:6").incident_id


def test_what_an_earlier_recorder_told_is_not_told_again() -> None:
    seen = watch()
    seen.rows([row("oom")], T)
    assert Watch("w", "b:7:5", seen.last).rows([row("oom", T + 5)], T) == []


def test_a_death_is_a_sign() -> None:
    signs, violent = watch().deaths([Death(HEADER, T)], T + 9)
    assert [sign.ts for sign in signs] == [T]
    assert len(violent) == 1


@pytest.mark.parametrize(
    "deaths",
    [
        [Death(replace(HEADER, closed=True), T)],
        [Death(replace(HEADER, role="worker"), T), Death(replace(HEADER, closed=True), T)],
    ],
)
def test_an_orderly_end_is_none(deaths: list[Death]) -> None:
    assert watch().deaths(deaths, T) == ([], [])


@pytest.mark.parametrize("phase", ["draining", "stopped"])
def test_a_worker_that_said_it_stops_is_not_killed(phase: str) -> None:
    seen = watch()
    seen.rows([row("lifecycle", phase=phase)], T)
    assert seen.deaths([Death(HEADER, T)], T) == ([], [])
    assert seen.gone(T) == []


def test_a_server_that_shuts_down_in_order_does_not_excuse_its_core() -> None:
    deaths = [Death(replace(HEADER, role="api_server", closed=True), T), Death(HEADER, T)]
    signs, violent = watch().deaths(deaths, T)
    assert (len(signs), len(violent)) == (1, 1)
