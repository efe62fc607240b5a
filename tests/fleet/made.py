"""A fleet's worker-hours: scenarios of the generator, written by the recorder's own writer, then exported hour by hour."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from oomctl import __version__
from oomctl.collectors.recorder.folder import Folder
from oomctl.collectors.recorder.live import Frame, Header, LiveWriter
from oomctl.fleet.partitioned import Written, write_partitioned
from oomctl.fleet.store import Store
from oomctl.pipeline import open_inputs
from oomctl.schemas.events import KINDS
from oomctl.schemas.rows import Row
from tests.scenarios.table import build_arrow

SMALL_ROWS = 150
FULL_ROWS = 2_800
"""Of a worker that serves for an hour, as its log tells it."""
FRAME_ROWS = 500
WRITER = f"oomctl {__version__}"
MODEL = "made/model"
"""Of all workers: a scenario names one of its own, and versions are compared on one model."""
BEGIN = datetime(2026, 3, 11, 22, tzinfo=UTC)
"""Of a fleet's recordings: some of its hours are of the next day."""


@dataclass(frozen=True)
class Hour:
    """What a worker did in an hour: it started, and did what the scenario says.

    Attributes:
        scenario: Of the catalogue.
        version: Of its engine.
        engine: vllm or sglang.
        rows: How many the scenario has; more of them are a longer story.
        seed: Of the scenario.
        first_s: Into the hour: when the worker starts.
    """

    scenario: str = "healthy"
    version: str = "0.11.0"
    engine: str = "vllm"
    rows: int = SMALL_ROWS
    seed: int = 1
    first_s: int = 60


def record(folder: Path, node: str, worker: str, hours: Mapping[datetime, Hour]) -> Path:
    """A recording of a worker, a segment an hour, each hour another life."""
    place = Folder(folder)
    place.prepare()
    for number, (begin, hour) in enumerate(sorted(hours.items()), 1):
        first_us = round(begin.timestamp() * 1e6) + hour.first_s * 1_000_000
        header = Header(writer=WRITER, worker=worker, node=node, number=number, ts=first_us, at={})
        segment = LiveWriter(place.segment(number), header)
        rows = _placed(hour, node, worker, first_us)
        for start in range(0, len(rows), FRAME_ROWS):
            segment.append(Frame(rows=rows[start : start + FRAME_ROWS]))
        segment.close()
    return folder


def export(recording: Path, store: Store) -> Written:
    """What `oomctl export RECORDING --partition` does."""
    loaded = open_inputs([str(recording)])
    with loaded.connection as connection:
        return write_partitioned(connection, store, WRITER)


def small_fleet(folder: Path, workers: int, hours: int, planted: Mapping[tuple[int, int], Hour]) -> Path:
    """The store of a fleet: two workers a node, healthy but for what is planted at (worker, hour)."""
    store = Store(str(folder / "rec"))
    for worker in range(workers):
        own = {BEGIN + timedelta(hours=n): planted.get((worker, n), Hour()) for n in range(hours)}
        export(record(folder / "recordings" / f"{worker}", f"node-{worker // 2}", f"w{worker}", own), store)
    return folder / "rec"


def three_workers(folder: Path, first: str) -> Path:
    """The store of three workers: one that does not start (`first` names it), one that preempts, one that is well."""
    for worker, scenario in ((first, "warm_up_capture"), ("w1", "decode_preemption_storm"), ("w2", "healthy")):
        export(record(folder / worker, "n", worker, {BEGIN: Hour(scenario)}), Store(str(folder / "rec")))
    return folder / "rec"


def _placed(hour: Hour, node: str, worker: str, first_us: int) -> list[Row]:
    """A scenario's rows as of a worker and an hour. A line that tells no time has that at which it was read."""
    shift_us, template = _template(hour.scenario, hour.engine, hour.rows, hour.seed)
    life = f"{node}:{worker}:{first_us}"
    placed: list[Row] = []
    ts = first_us
    for row in template:
        ts = row["ts"] - shift_us + first_us if "ts" in row else ts
        common = {"ts": ts, "ts_quality": "exact", "node": node, "worker": worker, "stream": f"{life}/log"}
        placed.append(row | common | {"incarnation": f"{life}:{row['incarnation']}"})
        manifest = row.get("manifest", {})
        if (manifest.get("section"), manifest.get("key")) == ("engine", "version"):
            placed[-1]["manifest"] = manifest | {"value": hour.version}
        elif manifest.get("key") in ("model", "model_path"):
            placed[-1]["manifest"] = manifest | {"value": MODEL}
    return placed


@cache
def _template(scenario: str, engine: str, rows: int, seed: int) -> tuple[int, list[Row]]:
    """(its first time, its rows), in order."""
    table = build_arrow(scenario, seed=seed, rows=rows, engine=engine)
    table = table.set_column(table.schema.get_field_index("ts"), "ts", table["ts"].cast(pa.int64()))
    found: list[Row] = []
    for kind in table["kind"].unique().to_pylist():
        own = table.select([*(name for name in table.column_names if name not in KINDS), kind])
        for row in own.filter(pc.equal(table["kind"], kind)).to_pylist():
            row[kind] = {key: value for key, value in row[kind].items() if value is not None}
            found.append({key: value for key, value in row.items() if value is not None})
    found.sort(key=lambda row: row["seq"])
    return min((row["ts"] for row in found if "ts" in row), default=0), found
