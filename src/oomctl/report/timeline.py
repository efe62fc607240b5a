"""Charts over time, one below the other on one axis: what is zoomed in one is zoomed in all."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

import altair as alt

from oomctl.cli.render.text import escape
from oomctl.report.answers import Answer, Record
from oomctl.report.charts import GIB, WIDTH, Spec, Tables
from oomctl.report.thin import thin

Layers: TypeAlias = alt.LayerChart | alt.FacetChart
HEIGHT = 150
MAX_REQUESTS = 60
"""Drawn: those that were there at the end, then those that held the most blocks."""
NAMES = 120
"""Pixels for the names on the left, the same in each chart, so that one instant is one place."""
X = alt.X("t:T", title=None, scale=alt.Scale(type="utc"))


def timeline(answers: Mapping[str, Answer], failed: Sequence[str]) -> Spec | None:
    """What of phases, memory, allocator, KV pool, batch and requests was told with times: a Vega-Lite specification.

    Args:
        answers: Those of the section "time".
        failed: Times of the incidents, RFC 3339, which are marked in each chart.
    """
    marks = [{"t": _stamp(datetime.fromisoformat(text)), "what": "failure"} for text in failed]
    tables = Tables()
    marked = tables.add(marks)
    drawn = [
        _lines("GiB by component, as told last", _memory(answers["memory_over_time"], marks), "GiB", tables, marked),
        _lines(
            "GiB of the framework and the device", _allocator(answers["allocated_reserved_free"]), "GiB", tables, marked
        ),
        _lines("share of the KV pool in use", _pool(answers["kv_blocks"]), "share", tables, marked),
        _lines("requests", _batch(answers["batch_over_time"]), "requests", tables, marked),
        _gantt(answers["request_spans"], tables, marked),
    ]
    found = [chart for chart in drawn if chart is not None]
    if not found:
        return None
    phases = _phases(answers["phases"], tables, marked)
    charts = [phases, *found] if phases is not None else found
    return _zoomed(tables.spec(alt.vconcat(*charts, spacing=8).resolve_scale(x="shared", color="independent")))


def _zoomed(spec: Spec) -> Spec:
    """One selection for all charts: a chart that is zoomed or moved takes the others with it.

    Altair would make one of each chart's own and name the charts by hashes; a page is the same whenever it is written.
    """
    names = [f"time{number}" for number, _ in enumerate(spec["vconcat"])]
    for name, chart in zip(names, spec["vconcat"], strict=True):
        chart["layer"][0]["name"] = name
    select = {"type": "interval", "encodings": ["x"]}
    return spec | {"params": [{"name": "zoom", "select": select, "bind": "scales", "views": names}]}


def _stamp(moment: datetime) -> int:
    """Milliseconds since 1970, as Vega takes times; what DuckDB gives has no zone and is UTC."""
    return round(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)


def _points(answer: Answer, figures: Callable[[Record], Sequence[tuple[str, float | None]]], value: str) -> list[Record]:
    """One record for each figure of each row with a time, each series thinned.

    A series is a figure of a worker's rank. Its colour is that of the figure, of whichever rank, for there are not as many
    colours as ranks; where there is one figure alone, each series has its own.
    """
    timed = [record for record in answer.records if record["ts"] is not None]
    several = len({record["worker"] for record in timed}) > 1
    points = [
        {
            "t": _stamp(record["ts"]),
            "series": " ".join(filter(None, (_who(record, several), name))),
            "of": name,
            value: figure,
        }
        for record in timed
        for name, figure in figures(record)
        if figure is not None
    ]
    if len({point["of"] for point in points}) == 1:
        points = [point | {"of": point["series"]} for point in points]
    return thin(sorted(points, key=lambda point: point["t"]), "series", value)


def _who(record: Record, several: bool) -> str:
    """Worker, where there are several, and rank behind a figure's name, so that two ranks are two lines."""
    rank = record.get("rank_name") or (f"rank {record['rank']}" if record.get("rank") is not None else "")
    return " ".join(part for part in (record["worker"] if several else None, rank) if part)


def _memory(answer: Answer, failed: Sequence[Record]) -> list[Record]:
    """Components are told once, or seldom: what was told last is drawn as far as the last failure."""

    def figures(record: Record) -> list[tuple[str, float | None]]:
        return [(" ".join(part for part in (record["component"], record["owner"]) if part), record["bytes"] / GIB)]

    points = _points(answer, figures, "GiB")
    latest = {point["series"]: point for point in points}
    end = max((mark["t"] for mark in failed), default=0)
    return points + [point | {"t": end} for point in latest.values() if point["t"] < end]


def _allocator(answer: Answer) -> list[Record]:
    names = {"allocated": "allocated_bytes", "reserved": "reserved_bytes", "device free": "device_free_bytes"}

    def figures(record: Record) -> list[tuple[str, float | None]]:
        told = ((name, record[column]) for name, column in names.items())
        return [(name, size / GIB) for name, size in told if size is not None]

    return _points(answer, figures, "GiB")


def _pool(answer: Answer) -> list[Record]:
    return _points(answer, lambda record: [(record["tier"] or "pool", record["usage_ratio"])], "share")


def _batch(answer: Answer) -> list[Record]:
    def figures(record: Record) -> list[tuple[str, float | None]]:
        return [(name, record[f"{name}_requests"]) for name in ("running", "waiting")]

    return _points(answer, figures, "requests")


def _marked(main: alt.Chart, marks: alt.NamedData) -> Layers:
    rules = alt.Chart(marks).mark_rule(color="#e45756", strokeDash=[4, 3]).encode(x=X, tooltip=["what:N", "t:T"])
    return alt.layer(main, rules)


def _lines(title: str, points: Sequence[Record], value: str, tables: Tables, marks: alt.NamedData) -> Layers | None:
    if not points:
        return None
    main = (
        alt.Chart(tables.add(points), width=WIDTH, height=HEIGHT, title=alt.Title(title, anchor="start", fontSize=12))
        .mark_line(interpolate="step-after", point={"size": 12})
        .encode(
            x=X,
            y=alt.Y(f"{value}:Q", title=None, axis=alt.Axis(minExtent=NAMES, maxExtent=NAMES)),
            color=alt.Color("of:N", title=None),
            detail="series:N",
            tooltip=["series:N", alt.Tooltip(f"{value}:Q", format=",.4~f"), alt.Tooltip("t:T", format="%H:%M:%S.%L")],
        )
    )
    return _marked(main, marks)


def _phases(answer: Answer, tables: Tables, marks: alt.NamedData) -> Layers | None:
    """Which phase of its life each worker was in."""
    several = len({record["worker"] for record in answer.records}) > 1
    told = [record for record in answer.records if record["started"] is not None and record["duration_s"] is not None]
    bars = [
        {
            "t": _stamp(record["started"]), "t2": _stamp(record["started"]) + round(record["duration_s"] * 1000),
            "life": f"{record['worker'] if several else ''} start {record['incarnation']}".lstrip(),
            "phase": record["phase"], "detail": record["detail"] or "", "seconds": record["duration_s"],
        }
        for record in told
    ]  # fmt: skip
    if not bars:
        return None
    main = (
        alt.Chart(tables.add(bars), width=WIDTH, height=alt.Step(18), title=alt.Title("phase", anchor="start", fontSize=12))
        .mark_bar()
        .encode(
            x=X,
            x2="t2:T",
            y=alt.Y("life:N", title=None, axis=alt.Axis(labelLimit=NAMES, minExtent=NAMES, maxExtent=NAMES)),
            color=alt.Color("phase:N", title=None, sort=list(dict.fromkeys(bar["phase"] for bar in bars))),
            tooltip=["life:N", "phase:N", "seconds:Q", "detail:N"],
        )
    )
    return _marked(main, marks)


def _gantt(answer: Answer, tables: Tables, marks: alt.NamedData) -> Layers | None:
    """Who was there, stretch by stretch, with the blocks held."""
    most: dict[Any, tuple[bool, int]] = {}
    for record in answer.records:
        seen = (record["to_ts"] == record["at_ts"], record["kv_blocks"] or 0)
        most[record["request_id"]] = max(most.get(record["request_id"], seen), seen)
    shown = sorted(most, key=lambda request: most[request], reverse=True)[:MAX_REQUESTS]
    bars = [
        {
            "t": _stamp(record["from_ts"]), "t2": _stamp(record["to_ts"]), "request": record["request_id"],
            "state": record["state"], "blocks": record["kv_blocks"], "prompt tokens": record["prompt_tokens"],
            "output tokens": record["output_tokens"], "cohort": record["cohort"] or "",
        }
        for record in answer.records
        if record["request_id"] in shown
    ]  # fmt: skip
    if not bars:
        return None
    title = "requests, those there at the end first, then by KV blocks"
    title += f": {len(shown)} of {len(most)}" if len(shown) < len(most) else ""
    states = ["waiting", "running", "preempted", "tool_wait", "held"]
    main = (
        alt.Chart(tables.add(bars), width=WIDTH, height=alt.Step(13), title=alt.Title(title, anchor="start", fontSize=12))
        .mark_bar()
        .encode(
            x=X,
            x2="t2:T",
            y=alt.Y(
                "request:N",
                sort=[escape(str(request)) for request in shown],
                title=None,
                axis=alt.Axis(labelLimit=NAMES, minExtent=NAMES, maxExtent=NAMES),
            ),
            color=alt.Color("state:N", title=None, sort=states, scale=alt.Scale(domain=states)),
            tooltip=["request:N", "state:N", "blocks:Q", "prompt tokens:Q", "output tokens:Q", "cohort:N"],
        )
    )
    return _marked(main, marks)
