"""The generator of labelled incidents keeps its word: deterministic, within the schema, with figures that add up."""

import re
from collections import Counter

import duckdb
import polars as pl
import pytest

from oomctl.schemas import ddl, storage
from oomctl.schemas.common import COMMON
from oomctl.schemas.events import KINDS
from oomctl.schemas.kinds_failure import RESOURCES
from oomctl.schemas.verdict import CODES
from tests import scenarios

CATALOGUE = scenarios.catalogue()
NAMES = [scenario.name for scenario in CATALOGUE]
BOTH = [(scenario.name, engine) for scenario in CATALOGUE for engine in scenario.engines]
UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
SIZE = r"([\d.]+) (bytes|KiB|MiB|GiB)"


def _load(frame: pl.DataFrame) -> duckdb.DuckDBPyConnection:
    connection = storage.connect()
    connection.register("frame", frame.to_arrow())
    storage.load_relation(connection, "frame")
    return connection


def _size(pattern: str, message: str) -> tuple[float, float]:
    """A printed figure in bytes, and its resolution; (0, 0) where the message has no such clause."""
    match = re.search(pattern.replace("SIZE", SIZE), message)
    if match is None:
        return 0.0, 0.0
    unit = UNITS[match[2]]
    return float(match[1]) * unit, unit * 0.005


def test_every_class_has_two_scenarios() -> None:
    classes = Counter(scenario.label["oom_class"] for scenario in CATALOGUE)
    assert all(classes[name] >= 2 for name in CODES)


def test_names_are_unique_and_look_alikes_exist_and_differ() -> None:
    by_name = {scenario.name: scenario for scenario in CATALOGUE}
    assert len(by_name) == len(CATALOGUE)
    for scenario in CATALOGUE:
        assert scenario.description
        if scenario.look_alike is not None:
            assert scenario.look_alike != scenario.name
            assert by_name[scenario.look_alike].label != scenario.label or "healthy" in scenario.name


def test_labels_use_the_declared_words() -> None:
    for scenario in CATALOGUE:
        label = scenario.label
        assert label["verdict"] in {"oom", "capacity_gate", "not_oom", None}
        assert label["oom_class"] in {*CODES, None}
        assert label["resource"] in {*RESOURCES, None}


@pytest.mark.parametrize(("name", "engine"), BOTH)
@pytest.mark.parametrize("ranks", [1, 8])
def test_frames_load_and_hold_declared_values(name: str, engine: str, ranks: int) -> None:
    frame = scenarios.build(name, seed=ranks, ranks=ranks, engine=engine)
    assert frame.columns == list(ddl.columns())
    connection = _load(frame)
    for field in COMMON:
        if field.values:
            values = connection.execute(f'SELECT DISTINCT "{field.name}" FROM events').fetchall()
            assert {value for (value,) in values} <= {*field.values, None}
    kinds = {row[0] for row in connection.execute("SELECT DISTINCT kind FROM events").fetchall()}
    assert kinds <= KINDS.keys()
    for kind in kinds:
        for field in KINDS[kind].fields:
            if field.values:
                values = connection.execute(f'SELECT DISTINCT "{kind}"."{field.name}" FROM events').fetchall()
                assert {value for (value,) in values} <= {*field.values, None}, (kind, field.name)
    numbers = connection.execute(
        "SELECT count(*), count(DISTINCT seq), min(seq), max(seq), min(line) FROM events"
    ).fetchone()
    assert numbers == (frame.height, frame.height, 0, frame.height - 1, 1)
    ranks_seen = connection.execute("SELECT count(DISTINCT rank) FROM events").fetchone()
    assert ranks_seen == (ranks,)


@pytest.mark.parametrize("name", NAMES)
def test_lines_ascend_with_seq(name: str) -> None:
    frame = scenarios.build(name, seed=5, ranks=2).sort("seq")
    assert frame["line"].is_sorted()
    assert frame["stream"].unique().to_list() == [f"scenario:{name}"]


@pytest.mark.parametrize("name", NAMES)
def test_same_arguments_same_result_and_seeds_differ(name: str) -> None:
    assert scenarios.build(name, seed=3, ranks=2).equals(scenarios.build(name, seed=3, ranks=2))
    assert scenarios.render_log(name, seed=3, ranks=2) == scenarios.render_log(name, seed=3, ranks=2)
    assert scenarios.render_log(name, seed=3) != scenarios.render_log(name, seed=4)


@pytest.mark.parametrize(("name", "engine"), BOTH)
@pytest.mark.parametrize("device_gib", [16, 80, 192])
def test_figures_of_the_message_add_up(name: str, engine: str, device_gib: int) -> None:
    for seed in range(5):
        text = scenarios.render_log(name, seed=seed, ranks=2, engine=engine, device_bytes=device_gib * 2**30)
        for message in (line for line in text.split("\n") if "Tried to allocate" in line):
            requested, _ = _size("Tried to allocate SIZE", message)
            total, total_off = _size("total capacity of SIZE", message)
            free, free_off = _size("of which SIZE is free", message)
            own, own_off = _size("this process has SIZE", message)
            allocated, allocated_off = _size("memory SIZE is allocated", message)
            cached, cached_off = _size("and SIZE is reserved", message)
            others = [float(number) * UNITS[unit] for _, number, unit in re.findall(rf"Process (\d+) has {SIZE}", message)]
            others_off = 0.005 * 2**30 * len(others)
            assert total == device_gib * 2**30
            assert abs(total - free - own - sum(others)) <= total_off + free_off + own_off + others_off
            held = own or others[-1]
            non_torch = held - allocated - cached
            assert -allocated_off - cached_off <= non_torch <= 0.02 * total
            assert free < requested <= 0.1 * total


def test_byte_figures_scale_with_the_device() -> None:
    small, large = (
        _load(scenarios.build("prefill_long_prompt", seed=2, device_bytes=size * 2**30)).execute(
            "SELECT requested_bytes, free_bytes, allocated_bytes FROM oom"
        )
        for size in (20, 80)
    )
    for less, more in zip(small.fetchall()[0], large.fetchall()[0], strict=True):
        assert more == pytest.approx(4 * less, rel=0.02)


@pytest.mark.parametrize(("name", "engine"), BOTH)
def test_every_rank_fails_and_its_row_agrees_with_its_line(name: str, engine: str) -> None:
    rows = (
        _load(scenarios.build(name, seed=1, ranks=4, engine=engine))
        .execute(
            "SELECT oom.rank, requested_bytes, stack_id, text FROM oom JOIN log USING (stream, line) "
            "WHERE requested_bytes > 0 ORDER BY oom.seq"
        )
        .fetchall()
    )
    if rows:
        assert [rank for rank, *_ in rows] == [0, 1, 2, 3]
    for _, requested, stack_id, text in rows:
        assert round(_size("Tried to allocate SIZE", text)[0]) == requested
        assert stack_id is not None


@pytest.mark.parametrize(("name", "engine"), BOTH)
def test_the_log_is_clean_text_and_its_length_follows_the_filler(name: str, engine: str) -> None:
    short = scenarios.render_log(name, engine=engine, filler_lines=0)
    long = scenarios.render_log(name, engine=engine, filler_lines=100)
    assert long.count("\n") == short.count("\n") + 100
    assert long.encode("utf-8").decode("utf-8") == long
    assert "\r" not in long
    assert "�" not in long


@pytest.mark.parametrize(("name", "engine"), BOTH)
def test_the_table_and_the_log_show_the_same_lines(name: str, engine: str) -> None:
    frame = scenarios.build(name, seed=7, ranks=2, rows=0, engine=engine)
    lines = scenarios.render_log(name, seed=7, ranks=2, engine=engine, filler_lines=0).split("\n")
    rows = _load(frame).execute("SELECT line, text FROM log ORDER BY seq").fetchall()
    assert rows
    for line, text in rows:
        assert lines[line - 1] == text


def test_rows_grow_as_asked() -> None:
    for rows in (201, 10_000):
        assert scenarios.build("decode_preemption_storm", rows=rows, ranks=8).height == rows


def test_arguments_out_of_range_are_refused() -> None:
    with pytest.raises(KeyError):
        scenarios.build("no_such_scenario")
    with pytest.raises(KeyError):
        scenarios.build("healthy", engine="no_such_engine")
    with pytest.raises(ValueError, match="ranks"):
        scenarios.build("healthy", ranks=9)
