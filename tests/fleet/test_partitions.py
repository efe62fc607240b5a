"""A recording cut into hours: every row lies in one of them, and each can be judged as if the whole were there."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from oomctl.fleet.partitioned import write_partitioned
from oomctl.fleet.store import Entry, Store, matcher, split_pattern
from oomctl.fleet.units import units
from oomctl.pipeline import open_inputs
from oomctl.schemas.partitions import Place, place_of
from tests.cli.run import oomctl
from tests.fleet.made import Hour, export, record

BEGIN = datetime(2026, 3, 11, 22, tzinfo=UTC)
HOURS = {
    BEGIN: Hour(rows=3_500),  # beyond the end of its hour
    BEGIN + timedelta(hours=1): Hour("decode_preemption_storm"),
    BEGIN + timedelta(hours=3): Hour("warm_up_capture"),
}


def ask(root: Path, sql: str) -> list[tuple[Any, ...]]:
    """SQL over the hours of a store, as any reader of such a layout sees them."""
    hours = f"read_parquet('{root}/**/hour-*.parquet', hive_partitioning = true, filename = true)"
    return duckdb.execute(sql.format(hours=hours)).fetchall()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(recording, store)."""
    folder = tmp_path_factory.mktemp("fleet")
    recording = record(folder / "recording", "gpu-7", "vllm/0", HOURS)
    ran = oomctl("export", str(recording), "--partition", "-o", str(folder / "rec"))
    assert ran.code == 0, ran.err
    assert "wrote 3 hours of 1 worker, 0 more were there already" in ran.err
    return recording, folder / "rec"


def test_each_row_lies_in_one_hour(recorded: tuple[Path, Path]) -> None:
    recording, root = recorded
    with open_inputs([str(recording)]).connection as whole:
        wanted = whole.execute("SELECT stream, seq, ts, kind FROM events ORDER BY ALL").fetchall()
    assert ask(root, "SELECT stream, seq, ts, kind FROM {hours} ORDER BY ALL") == wanted
    places = ask(
        root, "SELECT DISTINCT date::VARCHAR, node, worker, split_part(filename, 'hour-', 2) FROM {hours} ORDER BY ALL"
    )
    assert places == [
        ("2026-03-11", "gpu-7", "vllm/0", "22.parquet"),
        ("2026-03-11", "gpu-7", "vllm/0", "23.parquet"),
        ("2026-03-12", "gpu-7", "vllm/0", "01.parquet"),
    ]
    wrong = "date <> CAST(ts AS DATE) OR hour(ts) <> CAST(filename[-10:-9] AS INTEGER)"
    assert ask(root, f"SELECT count(*) FROM {{hours}} WHERE {wrong}") == [(0,)]


def test_an_hour_is_a_recording_like_any_other(recorded: tuple[Path, Path]) -> None:
    """The names of its folders are no columns of it."""
    _, root = recorded
    hours = sorted(map(str, root.rglob("hour-*")))
    ran = oomctl("triage", hours[-1], "--format", "csv")
    assert ran.code == 0 and "warm_up" in ran.out, ran.err


def test_again_changes_nothing(recorded: tuple[Path, Path]) -> None:
    recording, root = recorded
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*.parquet")}
    done = export(recording, Store(str(root)))
    assert (done.hours, done.unchanged) == (3, 3)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*.parquet")} == before


def test_a_recording_that_lost_rows_takes_nothing_away(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "rec"))
    recording = record(tmp_path / "recording", "n", "w", {BEGIN: Hour()})
    export(recording, store)
    before = ask(tmp_path / "rec", "SELECT count(*) FROM {hours}")
    with open_inputs([str(recording)]).connection as connection:
        assert connection.execute("DELETE FROM stored.throughput").fetchall()[0][0] > 0
        done = write_partitioned(connection, store, "tests")
    assert (done.hours, done.unchanged) == (1, 1)
    assert ask(tmp_path / "rec", "SELECT count(*) FROM {hours}") == before


def test_another_worker_of_that_name_has_a_file_of_its_own(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "rec"))
    export(record(tmp_path / "one", "n", "w", {BEGIN: Hour()}), store)
    export(record(tmp_path / "two", "n", "w", {BEGIN: Hour("warm_up_capture")}), store)
    names = sorted(entry.path.rpartition("/")[2] for entry in store.entries())
    assert names == ["hour-22-2.parquet", "hour-22.parquet"]
    assert export(tmp_path / "two", store).unchanged == 1


def test_a_context_repeats_how_the_worker_started_and_what_followed(recorded: tuple[Path, Path]) -> None:
    _, root = recorded
    first, second = sorted(root.rglob("_context-*"))
    assert [first.name, second.name] == ["_context-22.parquet", "_context-23.parquet"]
    around = "SELECT kind, min(ts) >= '{}' AS late, max(ts) < '{}' AS early FROM read_parquet('{}') GROUP BY kind"
    after = duckdb.execute(around.format("2026-03-11 23:00:00", "2026-03-11 23:05:00", first)).fetchall()
    assert after and all(late and early for _, late, early in after)
    before = {
        kind
        for kind, _, early in duckdb.execute(around.format("1970-01-01", "2026-03-11 23:00:00", second)).fetchall()
        if early
    }
    assert {"manifest", "memory", "lifecycle"} <= before


def test_a_place_and_its_path() -> None:
    place = Place("gpu-7", "a/b=c %", BEGIN)
    assert place.path == "date=2026-03-11/node=gpu-7/worker=a%2Fb%3Dc %25/hour-22.parquet"
    assert place_of(f"rec/{place.path}") == place
    assert place_of(Place(None, "..", None, 3).path) == Place(None, "..", None, 3)
    assert ".." not in Place("..", "w", None).path.split("/")
    assert place_of("date=2026-13-41/node=n/worker=w/hour-22.parquet") is None


@pytest.mark.parametrize(
    ("path", "root", "pattern"),
    [
        ("s3://bucket/rec/**", "s3://bucket/rec", "**"),
        ("s3://bucket/rec", "s3://bucket/rec", "**"),
        ("/data/rec/date=2026-*/**/*.parquet", "/data/rec", "date=2026-*/**/*.parquet"),
        ("rec", "rec", "**"),
        ("*", ".", "*"),
    ],
)
def test_root_and_pattern(path: str, root: str, pattern: str) -> None:
    assert split_pattern(path) == (root, pattern)


def test_days_that_are_not_asked_for_are_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for day in ("10", "11", "12"):
        (tmp_path / f"date=2026-03-{day}" / "node=n" / "worker=w").mkdir(parents=True)
        (tmp_path / f"date=2026-03-{day}" / "node=n" / "worker=w" / "hour-01.parquet").touch()
    listed: list[int] = []
    entries = Store.entries

    def counted(store: Store, wanted: "re.Pattern[str] | None" = None) -> list[Entry]:
        listed.append(len(found := entries(store, wanted)))
        return found

    monkeypatch.setattr(Store, "entries", counted)
    for pattern, expected in (("date=2026-03-1[12]/**", 2), ("date=2026-03-10/**", 1), ("*/node=n/**", 3), ("**/w*/*", 3)):
        assert len(units(f"{tmp_path}/{pattern}")) == listed[-1] == expected, pattern


def test_patterns() -> None:
    assert matcher("**").fullmatch("a/b/c.parquet")
    assert matcher("date=2026-0[1-3]*/**/hour-??.parquet").fullmatch("date=2026-03-11/node=n/worker=w/hour-02.parquet")
    assert not matcher("*.parquet").fullmatch("a/b.parquet")
    assert matcher("**/*.log").fullmatch("a.log")
    assert not matcher("[!a]/x").fullmatch("a/x")
