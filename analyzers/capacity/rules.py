"""Which requests are alike: rules from a small TOML file, or the split that a trace suggests."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import polars as pl

from oomctl.schemas.errors import ExitCode, OomctlError
from oomctl.schemas.trace import COLUMNS, Trace

OTHER = "other"
MAX_RULES = 100
MAX_LABELS = 12
MAX_BYTES = 256 << 10
HINT = "columns and the form of rules: docs/capacity.md"


@dataclass(frozen=True, slots=True)
class Rule:
    """A cohort.

    Attributes:
        name: What it is called.
        holds: Over the columns of a trace.
    """

    name: str
    holds: pl.Expr


def read_rules(path: Path) -> list[Rule]:
    """Rules of a file.

    Raises:
        OomctlError: If it is unreadable or no such file.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise OomctlError(f"more than {MAX_BYTES >> 10} KiB, too much for rules ({path})", HINT)
        text = data.decode()
    except OSError as error:
        raise OomctlError(f"{(error.strerror or str(error)).lower()} ({path})") from None
    except UnicodeDecodeError:
        raise OomctlError(f"not UTF-8 ({path})", HINT) from None
    return parse_rules(text, str(path))


def parse_rules(text: str, place: str) -> list[Rule]:
    """Rules in TOML: a list of tables `cohorts`, each with a name and conditions, all of which must hold.

    Args:
        text: The TOML.
        place: What to call it in errors.

    Raises:
        OomctlError: If a rule cannot be understood.
    """
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a ValueError of Python's own
        raise OomctlError(f"no TOML: {str(error)[:200]} ({place})", HINT, ExitCode.USAGE) from None
    tables = document.pop("cohorts", None)
    if not isinstance(tables, list) or not tables or document or len(tables) > MAX_RULES:
        raise OomctlError(f"no list of up to {MAX_RULES} [[cohorts]], and nothing else ({place})", HINT, ExitCode.USAGE)
    rules = [_rule(table, place) for table in tables]
    names = [rule.name for rule in rules]
    if len({*names, OTHER}) <= len(names):
        raise OomctlError(f'two cohorts of one name, or one called "{OTHER}" ({place})', HINT, ExitCode.USAGE)
    return rules


def default_rules(trace: Trace) -> list[Rule]:
    """By the labels of the source, where it has a few; else subagents apart, where it has any; else by length."""
    labels = trace.requests["cohort"].drop_nulls().unique().sort().to_list()
    if 1 < len(labels) <= MAX_LABELS:
        return [Rule(label, pl.col("cohort") == label) for label in labels]
    if trace.requests["agent"].is_not_null().any():
        return [Rule("sessions", pl.col("agent").is_null()), Rule("subagents", pl.col("agent").is_not_null())]
    text = (files(__package__) / "cohorts.toml").read_text(encoding="utf-8")
    return parse_rules(text, "cohorts.toml")


def assign(trace: Trace, rules: list[Rule]) -> pl.Series:
    """The cohort of each request: the first whose rule holds."""
    held = (pl.when(rule.holds).then(pl.lit(rule.name)) for rule in rules)
    return trace.requests.with_columns(pl.coalesce(*held, pl.lit(OTHER)).alias("cohort"))["cohort"]


def _rule(table: Any, place: str) -> Rule:
    name = table.pop("name", None) if isinstance(table, dict) else None
    if not isinstance(name, str) or not name.strip() or not table:
        raise OomctlError(f"a cohort needs a name and a condition ({place})", HINT, ExitCode.USAGE)
    return Rule(name, pl.all_horizontal(*_conditions(table, f"cohort {name!r}, {place}")))


def _conditions(table: dict[str, Any], place: str) -> Iterator[pl.Expr]:
    for column, wanted in table.items():
        if column not in COLUMNS:
            raise OomctlError(f'no column "{column[:40]}" ({place})', f"columns: {', '.join(COLUMNS)}", ExitCode.USAGE)
        if isinstance(wanted, bool):
            yield pl.col(column).is_not_null() == wanted
        elif COLUMNS[column].is_numeric():
            yield from _bounds(column, wanted, place)
        else:
            yield _matches(column, wanted, place)


def _bounds(column: str, wanted: Any, place: str) -> Iterator[pl.Expr]:
    bounds = wanted if isinstance(wanted, dict) else {}
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in bounds.values())
    if numbers and any(isinstance(value, int) and abs(value) >= 2**63 for value in bounds.values()):
        raise OomctlError(f"{column}: a bound of more than 63 bits ({place})", HINT, ExitCode.USAGE)
    if not bounds or not numbers or not bounds.keys() <= {"min", "max"}:
        raise OomctlError(f"{column} takes a table of min and max ({place})", HINT, ExitCode.USAGE)
    if "min" in bounds:
        yield pl.col(column) >= bounds["min"]
    if "max" in bounds:
        yield pl.col(column) < bounds["max"]


def _matches(column: str, wanted: Any, place: str) -> pl.Expr:
    patterns = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(patterns, list) or not patterns or not all(isinstance(pattern, str) for pattern in patterns):
        raise OomctlError(f"{column} takes a pattern or a list of patterns ({place})", HINT, ExitCode.USAGE)
    either = "|".join(".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns)
    return pl.col(column).str.contains(f"^(?:{either})$")
