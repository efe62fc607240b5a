"""Which series of an engine's page is which field of the event table, read from `engines/ENGINE.toml`.

The files are read strictly: an unknown key, kind or field is an error, so a misspelt mapping cannot pass in silence.
"""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

from oomctl.schemas.events import FIELD_NAMES, KINDS

Unit = Literal["one", "GiB", "MiB", "percent"]
SCALES: dict[Unit, float] = {"one": 1, "GiB": 1 << 30, "MiB": 1 << 20, "percent": 0.01}
Rule = Literal["blocks_of_usage", "blocks_of_tokens", "tokens_of_blocks"]


class Series(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One series and the field that it fills.

    Attributes:
        name: Without the engine's prefix and without a counter's `_total`.
        row: Kind of the row.
        field: The field.
        unit: Of the page; the table holds bytes and ratios.
        fixed: Further fields of the row, which also tell it from others of its kind.
        labels: Label to the field that takes its value; also tells rows apart.
        only: Label to the one value for which this entry holds; "" where it must be absent: to Prometheus that is one.
        adds: Several series of one rank add up in this field.
        positive: 0 cannot be: it is what the engine says when it could not measure.
    """

    name: str
    row: str
    field: str
    unit: Unit = "one"
    fixed: dict[str, str] = {}
    labels: dict[str, str] = {}
    only: dict[str, str] = {}
    adds: bool = False
    positive: bool = False


class Info(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A series whose labels are the facts, and whose value is 1.

    Attributes:
        name: As of Series.
        section: Of the manifest rows that its labels become.
        row: Kind that takes some of them as figures.
        fields: Label to field of that kind.
    """

    name: str
    section: str
    row: str = "kv_pool"
    fields: dict[str, str] = {}


class Engine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An engine's page.

    Attributes:
        engine: Its name.
        prefixes: Of its series' names; the first is its own, others are given by what wraps it (Ray).
        checked: Versions or documents in which the names were looked up.
        ranks: Label to the letters of its dimension in a rank's name (DP, PP, TP).
        parts: Labels that tell workers behind one page apart.
        ignored: Labels that say nothing about what a figure means.
        health: Path that tells whether the engine behind the page lives, or "".
        derived: Arithmetic on what the page has.
    """

    engine: str
    prefixes: tuple[str, ...]
    checked: tuple[str, ...]
    ranks: dict[str, str] = {}
    parts: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    health: str = ""
    derived: tuple[Rule, ...] = ()
    series: tuple[Series, ...] = ()
    infos: tuple[Info, ...] = ()

    def bare(self, name: str) -> str | None:
        """A sample's name as the mapping spells it; None if it is not this engine's."""
        for prefix in self.prefixes:
            if name.startswith(prefix):
                return name[len(prefix) :].removesuffix("_total")
        return None


def decode(text: bytes, engine: str) -> Engine:
    """Read one mapping.

    Raises:
        ValueError: If it names what the event table does not have.
    """
    try:
        found = msgspec.toml.decode(text, type=Engine)
    except msgspec.DecodeError as error:
        raise ValueError(f"{engine}.toml: {error}") from error
    for series in found.series:
        _check(engine, series.name, series.row, [series.field, *series.fixed, *series.labels.values()])
    for info in found.infos:
        _check(engine, info.name, info.row, info.fields.values())
    return found


@cache
def engines() -> tuple[Engine, ...]:
    """All mappings, by name."""
    folder = files(__package__) / "engines"
    found = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".toml")), key=lambda entry: entry.name)
    return tuple(decode(entry.read_bytes(), entry.name.removesuffix(".toml")) for entry in found)


def _check(engine: str, name: str, row: str, fields: Iterable[str]) -> None:
    if row not in KINDS:
        raise ValueError(f"{engine}.toml: {name}: no kind {row}")
    if unknown := set(fields) - FIELD_NAMES[row]:
        raise ValueError(f"{engine}.toml: {name}: {row} has no {', '.join(sorted(unknown))}")
