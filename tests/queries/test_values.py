"""Figures of the postmortem queries against the same ones worked out another way: loops, numpy, tables, simulation."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from oomctl import queries
from oomctl.schemas import storage
from oomctl.schemas.rows import Row, make_row
from tests.queries.fixtures import Fixture, database
from tests.queries.recording import MIB, at, recording

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def asked(connection: "DuckDBPyConnection", name: str, **given: str) -> list[dict[str, Any]]:
    query = queries.load("postmortem", name)
    cursor = connection.execute(query.sql, query.bound(given))
    columns = [column[0] for column in cursor.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]


def loaded(rows: Sequence[Row]) -> "DuckDBPyConnection":
    connection = storage.connect()
    storage.load_rows(connection, rows)
    queries.install(connection)
    return connection


def of(kind: str, stream: str) -> list[Row]:
    return sorted(
        (row for row in recording() if row["kind"] == kind and row["stream"] == stream), key=lambda row: row["seq"]
    )


def seconds(moment: datetime) -> float:
    return (moment - datetime(2026, 5, 4, 10)).total_seconds()


def series(worker: str, values: Sequence[float], step_s: float = 1.0) -> list[Row]:
    common = {"stream": worker, "worker": worker, "incarnation": "1", "source": "agent", "rank": 0, "device_id": 0}
    return [
        make_row("allocator", {"allocated_bytes": round(value)}, {**common, "seq": n + 1, "ts": at(n * step_s)})
        for n, value in enumerate(values)
    ]


def test_the_slope_and_its_interval_are_those_of_a_textbook() -> None:
    found = next(row for row in asked(database(Fixture("recording")), "leak_slope") if row["figure"] == "allocated")
    readings = [row for row in of("allocator", "rank0") if row["ts"] <= at(65)]
    x = np.array([row["ts"] / 1e6 for row in readings]) - at(0) / 1e6
    y = np.array([row["allocator"]["allocated_bytes"] for row in readings], float)
    slope, intercept = np.polyfit(x, y, 1)
    rest = y - slope * x - intercept
    assert np.sum(rest[1:] * rest[:-1]) < 0, "alternating: no reading is discounted"
    t_of_5 = 2.570582  # 97.5% of Student's t with 5 degrees of freedom, from tables
    half = t_of_5 * np.sqrt(np.sum(rest**2) / 5 / np.sum((x - x.mean()) ** 2))
    assert found["slope_bytes_per_s"] == pytest.approx(slope, abs=1)
    assert found["low_bytes_per_s"] == pytest.approx(slope - half, abs=0.01 * half)
    assert found["high_bytes_per_s"] == pytest.approx(slope + half, abs=0.01 * half)
    assert found["grows"] and found["points"] == 7 and found["independent_points"] == 7


@pytest.mark.parametrize(("r", "points", "least"), [(0.0, 12, 0.92), (0.5, 60, 0.85)])
def test_the_interval_holds_what_it_says(r: float, points: int, least: float) -> None:
    """Of series that do not grow, about 95 of 100 intervals hold 0, also where each reading follows the one before."""
    draw = np.random.default_rng(1)
    rows: list[Row] = []
    for number in range(200):
        level, values = 0.0, []
        for shock in draw.normal(0, MIB, points):
            level = r * level + shock
            values.append(40_000 * MIB + level)
        rows += series(f"w{number}", values)
    found = asked(loaded(rows), "leak_slope")
    told = [row for row in found if row["low_bytes_per_s"] is not None]
    assert len(found) == 200 and len(told) > 180
    held = sum(row["low_bytes_per_s"] <= 0 <= row["high_bytes_per_s"] for row in told) / len(told)
    assert least <= held <= 0.99
    assert np.mean([row["independent_points"] for row in told]) == pytest.approx(points * (1 - r) / (1 + r), rel=0.35)


def test_a_leak_is_found_and_too_few_readings_are_none() -> None:
    draw = np.random.default_rng(2)
    leak = [40_000 * MIB + 3 * MIB * n + draw.normal(0, 5 * MIB) for n in range(40)]
    rows = [*series("leaks", leak), *series("steady", leak[:1] * 40), *series("few", leak[:3])]
    found = {row["worker"]: row for row in asked(loaded(rows), "leak_slope")}
    assert found.keys() == {"leaks", "steady"}
    assert found["leaks"]["low_bytes_per_s"] < 3 * MIB < found["leaks"]["high_bytes_per_s"]
    assert found["leaks"]["grows"] and not found["steady"]["grows"]
    windowed = {row["worker"]: row for row in asked(loaded(rows), "leak_slope", window_s="9.5", at="2026-05-04 10:00:39")}
    assert windowed["leaks"]["points"] == 10


def test_time_to_exhaustion_is_what_is_left_over_what_is_used_up() -> None:
    rows = [row for row in asked(database(Fixture("recording")), "time_to_exhaustion") if row["what"] == "kv_pool"]
    # One block of 100 a second: 40 at 0, and a failure at 65.
    for row in rows:
        now = seconds(row["ts"])
        assert row["exhausted_in_s"] == pytest.approx(60 - now)
        assert row["failed_after_s"] == pytest.approx(65 - now)
    assert [seconds(row["ts"]) for row in rows] == [30, 40, 50, 60], "the fourth reading is the first that counts"


def test_a_scattered_pool_is_not_extended() -> None:
    common = {"stream": "s", "worker": "w", "incarnation": "1", "source": "agent"}
    usage = [0.5, 0.9, 0.4, 0.8, 0.5, 0.9, 0.4, 0.85]
    rows = [
        make_row("kv_pool", {"usage_ratio": used}, {**common, "seq": n + 1, "ts": at(n)}) for n, used in enumerate(usage)
    ]
    assert {row["exhausted_in_s"] for row in asked(loaded(rows), "time_to_exhaustion")} == {None}


def test_each_allocator_reading_has_the_drivers_last_before_it() -> None:
    def counts_from(row: Row) -> int:
        return int(row["ts"]) - (1_000_000 if row["source"] == "agent" else 0)

    driver = [
        row for row in recording()
        if row["kind"] == "device" and row["device_id"] is not None and row["device"]["free_bytes"] is not None
    ]  # fmt: skip
    rows = asked(database(Fixture("recording")), "allocated_reserved_free")
    assert len(rows) == 15
    for row in rows:
        now = at(seconds(row["ts"]))
        before = [each for each in driver if each["device_id"] == row["device_id"] and counts_from(each) <= now]
        last = max(before, key=counts_from, default=None)
        if last is None:
            assert row["device_free_bytes"] is None and row["device_age_s"] is None
        else:
            assert row["device_free_bytes"] == last["device"]["free_bytes"]
            assert row["device_age_s"] == pytest.approx((now - last["ts"]) / 1e6)
            assert row["outside_bytes"] == last["device"]["used_bytes"] - row["reserved_bytes"]


@pytest.mark.parametrize("second", [None, 20, 33.3, 70])
def test_each_stream_is_read_as_far_as_it_had_come(second: float | None) -> None:
    """`reached` against a loop: the last row of each stream at the instant, of the life that is asked about."""
    instant = None if second is None else (datetime(2026, 5, 4, 10) + timedelta(seconds=second)).isoformat(" ")
    found = (
        database(Fixture("recording"))
        .execute(
            "SELECT stream, incarnation, last_seq FROM reached($at) WHERE $at IS NOT NULL OR life = 'boot-100-1'",
            {"at": instant},
        )
        .fetchall()
    )
    last: dict[str, Row] = {}
    for row in recording():
        if row["kind"] in ("loss", "collector") or row["ts"] > at(65 if second is None else second):
            continue
        if row["stream"] not in last or row["seq"] > last[row["stream"]]["seq"]:
            last[row["stream"]] = row
    wanted = {
        (stream, row["incarnation"], row["seq"])
        for stream, row in last.items()
        if second is not None or row["incarnation"] == "boot-100-1"
    }
    assert set(found) == wanted and len(found) == len(wanted)


def test_a_clock_that_jumps_back_tells_nothing_early() -> None:
    common = {"stream": "s", "worker": "w", "incarnation": "1", "source": "agent"}
    rows = [
        make_row("lifecycle", {"phase": "serving"}, {**common, "seq": n, "ts": at(second)})
        for n, second in [(1, 0), (2, 50), (3, 10), (4, 60)]
    ]
    found = loaded(rows).execute("SELECT last_seq FROM reached('2026-05-04 10:00:30')").fetchall()
    assert found == [(1,)], "the third row was written after the second, whatever its clock said"


def test_who_was_there_at_another_instant() -> None:
    rows = asked(database(Fixture("recording")), "batch_at_failure", at="2026-05-04 10:00:41")
    # a (26 blocks), b (50), c (100), e (10) run; d waits; t1 to t6 are the gateway's, which says when they ended.
    core = [(row["request_id"], row["state"], row["kv_blocks"]) for row in rows if row["stream"] == "core"]
    assert core == [
        ("c", "running", 100), ("b", "running", 50), ("a", "running", 26), ("e", "running", 10), ("d", "waiting", None),
    ]  # fmt: skip
    assert {row["told"] for row in rows} == {"followed"} and {row["failure"] for row in rows} == {None}
    preempted = asked(database(Fixture("recording")), "batch_at_failure", at="2026-05-04 10:00:56")
    assert next(row["state"] for row in preempted if row["request_id"] == "b") == "preempted"


def test_the_memory_at_another_instant_is_of_then() -> None:
    rows = asked(database(Fixture("recording")), "memory_at", at="2026-05-04 10:00:13")
    parts = {(row["part"], row["owner"], row["rank"], row["device_id"]): row for row in rows}
    assert parts["framework_allocated", None, 0, 0]["bytes"] == 40_062 * MIB
    assert parts["process", "python3 90", None, 0]["bytes"] == 2048 * MIB, "the first life's process is still there"
    later = asked(database(Fixture("recording")), "memory_at", at="2026-05-04 10:00:25")
    assert not any(row["owner"] == "python3 90" for row in later), "a later list leaves it out"


def test_weights_count_in_quantiles() -> None:
    """t4 stands for three requests: written out three times, the quantiles are the same."""
    rows = {row["cohort"]: row for row in asked(database(Fixture("recording")), "reserved_and_output")}
    outputs = sorted([2000] * 3 + [48])
    assert rows["batch"]["requests"] == len(outputs)
    assert rows["batch"]["output_p50_tokens"] == outputs[int(np.ceil(0.5 * len(outputs))) - 1]
    assert rows["batch"]["output_tokens"] == sum(outputs)
