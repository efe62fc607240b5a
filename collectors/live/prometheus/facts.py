"""Samples of a page as facts: one per kind, rank and worker, and what no mapping knows."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from oomctl.collectors.live.prometheus.derived import RULES
from oomctl.collectors.live.prometheus.mapping import SCALES, Engine, Info, Series
from oomctl.collectors.live.prometheus.page import Sample
from oomctl.schemas.events import KINDS

INTEGERS = {(kind.name, one.name) for kind in KINDS.values() for one in kind.fields if one.type == "int"}
LARGEST = 10**18
"""No count of bytes, tokens or requests is larger."""
FULL_RATIO = 1.001
"""A share may exceed 1 by what its arithmetic rounds."""
HIDDEN_IN_INFO = frozenset(("engine", "model_name"))


@dataclass(frozen=True)
class Whose:
    """Whose figure it is.

    Attributes:
        rank_name: The rank, in vLLM's spelling (DP0_TP3); None if the page has only one.
        part: Tells workers behind one page apart; "" if there is one.
    """

    rank_name: str | None = None
    part: str = ""


@dataclass
class Fact:
    """One row of the event table, without its common columns."""

    whose: Whose
    kind: str
    fields: dict[str, Any]
    quality: str = "measured"


@dataclass
class Facts:
    """What a page says.

    Attributes:
        facts: Rows to be.
        rest: Samples that no mapping knows.
        refused: Figures that their field cannot have: a negative count, a share of 150.
    """

    facts: list[Fact] = field(default_factory=list)
    rest: list[Sample] = field(default_factory=list)
    refused: int = 0


def read(engine: Engine, samples: list[Sample]) -> Facts:
    """Sort a page's samples.

    A series with a label that the mapping does not know is left in `rest`: its figure is of a part, and no part is
    taken for the whole.
    """
    shown = _shown_dimensions(engine, samples)
    rows: dict[tuple[Any, ...], Fact] = {}
    manifest: list[Fact] = []
    rest, refused = [], 0
    by_name: dict[str, list[Series]] = {}
    for series in engine.series:
        by_name.setdefault(series.name, []).append(series)
    infos = {info.name: info for info in engine.infos}
    for sample in samples:
        bare = engine.bare(sample.name)
        info = infos.get(bare) if bare is not None else None
        if info is not None:
            whose = _whose(engine, sample, shown)
            manifest += _manifest(info, sample, whose, engine)
            for label, name in info.fields.items():
                size = _possible(info.row, name, _number(sample.labels.get(label)))
                if size is not None:
                    _row(rows, whose, info.row, {}).fields[name] = size
            continue
        found = next((one for one in by_name.get(bare or "", ()) if _holds(one, sample, engine)), None)
        if found is None:
            rest.append(sample)
            continue
        if found.positive and sample.value <= 0:
            continue
        fixed = found.fixed | {name: sample.labels[label] for label, name in found.labels.items() if label in sample.labels}
        value = _possible(found.row, found.field, sample.value * SCALES[found.unit])
        if value is None:
            refused += 1
        else:
            fields = _row(rows, _whose(engine, sample, shown), found.row, fixed).fields
            fields[found.field] = fields.get(found.field, 0) + value if found.adds else value
    facts = list(rows.values())
    derived = [
        Fact(fact.whose, fact.kind, more, "derived")
        for rule in engine.derived
        for fact in facts
        if fact.kind == "kv_pool" and (more := RULES[rule](fact.fields))
    ]
    return Facts(manifest + facts + derived, rest, refused)


def _row(rows: dict[tuple[Any, ...], Fact], whose: Whose, kind: str, fixed: dict[str, str]) -> Fact:
    key = (whose, kind, *sorted(fixed.items()))
    return rows.setdefault(key, Fact(whose, kind, dict(fixed)))


def _holds(series: Series, sample: Sample, engine: Engine) -> bool:
    labels = sample.labels
    if any(labels.get(label, "") != value for label, value in series.only.items()):
        return False
    known = (*engine.ranks, *engine.parts, *engine.ignored, *series.labels, *series.only)
    return all(label in known for label in labels)


def _shown_dimensions(engine: Engine, samples: Iterable[Sample]) -> tuple[str, ...]:
    """Rank labels with more than index 0 anywhere on the page: some series of a single rank carry them, others do not."""
    return tuple(label for label in engine.ranks if any(sample.labels.get(label, "0") != "0" for sample in samples))


def _whose(engine: Engine, sample: Sample, shown: tuple[str, ...]) -> Whose:
    labels = sample.labels
    ranks = "_".join(f"{engine.ranks[label]}{labels[label]}" for label in shown if label in labels)
    return Whose(ranks or None, "/".join(labels[label] for label in engine.parts if label in labels))


def _manifest(info: Info, sample: Sample, whose: Whose, engine: Engine) -> list[Fact]:
    return [
        Fact(whose, "manifest", {"section": info.section, "key": label, "value": value})
        for label, value in sorted(sample.labels.items())
        if label not in HIDDEN_IN_INFO and label not in engine.parts
    ]


def _number(text: str | None) -> float | None:
    """A label's value as a number; None if it is none."""
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None


def _possible(kind: str, name: str, value: float | None) -> int | float | None:
    """A figure as its field holds it; None where it cannot be one."""
    largest = FULL_RATIO if name.endswith("_ratio") else LARGEST
    if value is None or not 0 <= value <= largest:
        return None
    return round(value) if (kind, name) in INTEGERS else value
