"""Charts of one instant: the memory at the failure, ranks, cohorts, the allocator's pools."""

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from oomctl.cli.render.memory import INEXACT
from oomctl.cli.render.text import escape
from oomctl.cli.render.words import human
from oomctl.report.answers import Answer, Record
from oomctl.schemas.verdict import MemoryNode

Spec = dict[str, Any]
"""Of a chart, as Vega-Lite reads it."""
GIB = 1 << 30
WIDTH = 640
"""Until the page gives each chart the width that it has."""
MAX_BARS = 40
_TOLD = {"measured": "#4c78a8", "estimated": "#eeca3b", "unexplained": "#e45756", "total": "#9d9da1"}


class Tables:
    """The rows of a specification's charts, which Altair never sees: it would check and copy each of them many times.

    The types are said in the encodings, so that nothing is guessed; a text steers nothing.
    """

    def __init__(self) -> None:
        self._tables: dict[str, list[Record]] = {}

    def add(self, records: Sequence[Record]) -> alt.NamedData:
        """The name by which a chart refers to some rows."""
        name = f"table{len(self._tables)}"
        self._tables[name] = [
            {key: escape(value) if isinstance(value, str) else value for key, value in record.items()} for record in records
        ]
        return alt.NamedData(name)

    def spec(self, chart: "alt.Chart | alt.VConcatChart") -> Spec:
        """The chart as data, with its rows."""
        spec: Spec = chart.to_dict()
        return spec | {"datasets": self._tables}


def waterfall(root: MemoryNode) -> Spec | None:
    """The parts of the device, one below the other, each beginning where the one before ends; the total last.

    What is told of a part's parts stands in its place. Parts below zero (more told than there is) go back.
    """
    parts = [(name, node) for name, node in _leaves(root, ()) if node.bytes]
    if not parts:
        return None
    start = 0
    bars: list[Record] = []
    for name, node in parts:
        size = node.bytes or 0
        told = "unexplained" if node.name == "unexplained" else "estimated" if node.quality in INEXACT else "measured"
        bars.append(_bar(name, start, start + size, told, node.note))
        start += size
    if root.bytes:
        bars.append(_bar(root.name.replace("_", " "), 0, root.bytes, "total", root.note))
    order = [bar["part"] for bar in bars]
    tables = Tables()
    return tables.spec(
        alt.Chart(tables.add(bars), width=WIDTH, height=alt.Step(22))
        .mark_bar()
        .encode(
            x=alt.X("from:Q", title="GiB"),
            x2="to:Q",
            y=alt.Y("part:N", sort=order, title=None, axis=alt.Axis(labelLimit=260)),
            color=alt.Color(
                "quality:N",
                title=None,
                scale=alt.Scale(domain=list(_TOLD), range=list(_TOLD.values())),
            ),
            tooltip=["part:N", "size:N", "quality:N", "note:N"],
        )
    )


def _leaves(node: MemoryNode, path: tuple[str, ...]) -> Iterator[tuple[str, MemoryNode]]:
    known = [child for child in node.children if _is_told(child)]
    if not known:
        # Two owners may each have an "unexplained" part: the name says whose.
        yield " / ".join(path[-2:]).replace("_", " "), node
        return
    for child in known:
        yield from _leaves(child, (*path, child.name))


def _is_told(node: MemoryNode) -> bool:
    """Whether anything is known of it: of a part whose own size was not printed, parts may be."""
    return node.bytes is not None or any(map(_is_told, node.children))


def _bar(name: str, start: int, end: int, quality: str, note: str) -> Record:
    said = {"part": name, "from": start / GIB, "to": end / GIB, "size": human(end - start)}
    return said | {"quality": quality, "note": note}


def ranks(answer: Answer) -> Spec | None:
    """Each figure that several ranks tell, rank by rank; the rank that failed stands out."""
    bars = [
        {
            "rank": record["rank"], "figure": record["figure"],
            "GiB": record["bytes"] / GIB, "size": human(record["bytes"]),
            "failed": "failed here" if record["is_failed"] else "other rank", "over_mean": record["over_mean_ratio"],
        }
        for record in answer.records
        if record["bytes"]
    ]  # fmt: skip
    if not bars:
        return None
    header = alt.Header(labelAngle=0, labelAlign="left", labelAnchor="start", orient="top")
    kept = sorted({bar["figure"] for bar in bars}, key=lambda name: -max(b["GiB"] for b in bars if b["figure"] == name))[:8]
    tables = Tables()
    return tables.spec(
        alt.Chart(tables.add([bar for bar in bars if bar["figure"] in kept]), width=WIDTH, height=alt.Step(14))
        .mark_bar()
        .encode(
            x=alt.X("GiB:Q", title="GiB"),
            y=alt.Y("rank:O", title="rank"),
            row=alt.Row("figure:N", sort=kept, title=None, header=header),
            color=_pair("failed:N", "failed here", "other rank"),
            tooltip=["rank:O", "figure:N", "size:N", "over_mean:Q"],
        )
    )


def cohorts(answer: Answer) -> Spec | None:
    """What was reserved beside the quantiles of what was generated."""
    figures = ("reserved_p50_tokens", "output_p50_tokens", "output_p95_tokens", "output_p99_tokens")
    bars = [
        {"cohort": record["cohort"] or "no cohort", "figure": name.removesuffix("_tokens"), "tokens": record[name]}
        for record in answer.records[:MAX_BARS]
        for name in figures
        if record[name] is not None
    ]
    if not bars:
        return None
    order = [name.removesuffix("_tokens") for name in figures]
    tables = Tables()
    return tables.spec(
        alt.Chart(tables.add(bars), width=WIDTH, height={"step": 12})
        .mark_bar()
        .encode(
            x=alt.X("tokens:Q", title="tokens"),
            y=alt.Y("cohort:N", title=None, axis=alt.Axis(labelLimit=200)),
            yOffset=alt.YOffset("figure:N", sort=order),
            color=alt.Color("figure:N", sort=order, title=None),
            tooltip=["cohort:N", "figure:N", "tokens:Q"],
        )
    )


def heap(answer: Answer) -> Spec | None:
    """The pools of the allocator: in use, in holes beside what is in use, and wholly free."""
    bars: list[Record] = []
    for record in answer.records[:MAX_BARS]:
        pool = f"{record['size_class']}, pool {record['pool_id']}, stream {record['cuda_stream']}"
        parts = (
            ("in use", record["allocated_bytes"]),
            ("holes", record["holes_bytes"]),
            ("wholly free", record["whole_free_bytes"]),
        )
        bars += [
            {"pool": pool, "part": part, "n": n, "GiB": size / GIB, "size": human(size)}
            for n, (part, size) in enumerate(parts)
            if size
        ]
    if not bars:
        return None
    tables = Tables()
    return tables.spec(
        alt.Chart(tables.add(bars), width=WIDTH, height=alt.Step(22))
        .mark_bar()
        .encode(
            x=alt.X("sum(GiB):Q", title="GiB"),
            y=alt.Y("pool:N", title=None, axis=alt.Axis(labelLimit=260)),
            color=alt.Color(
                "part:N",
                title=None,
                scale=alt.Scale(domain=["in use", "holes", "wholly free"], range=["#4c78a8", "#e45756", "#bab0ac"]),
            ),
            order="n:Q",
            tooltip=["pool:N", "part:N", "size:N"],
        )
    )


def _pair(field: str, marked: str, other: str) -> Any:
    return alt.Color(field, title=None, scale=alt.Scale(domain=[marked, other], range=["#e45756", "#4c78a8"]))
