"""Golden files of every format, and text from logs that must stay text.

`OOMCTL_GOLDEN=write pytest tests/cli/test_render.py` writes them anew; read the diff.
"""

import csv
import io
import json
import os
import re
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest

from oomctl.cli.render import data
from oomctl.cli.render.markdown import triage_md
from oomctl.cli.render.memory import memory_lines
from oomctl.cli.render.page import triage_page
from oomctl.cli.render.sections import cascade_line
from oomctl.cli.render.text import cells, cut, document, escape, escape_md
from oomctl.cli.render.words import human
from oomctl.schemas.verdict import Cascade, MemoryNode, Triage, verdict_schema
from tests.cli import samples
from tests.cli.samples import MIB

GOLDEN = Path(__file__).parent / "golden"
RENDERED = {
    "one.txt": lambda: triage_page(samples.one(), 100),
    "one_narrow.txt": lambda: triage_page(samples.one(), 60, blocks=False),
    "one_colour.txt": lambda: triage_page(samples.one(), 100, colour=True),
    "many.txt": lambda: triage_page(samples.many(), 100),
    "none.txt": lambda: triage_page(samples.none(), 100),
    "one.md": lambda: triage_md(samples.one()),
    "none.md": lambda: triage_md(samples.none()),
    "one.json": lambda: document(samples.one()),
    "many.jsonl": lambda: data.triage_jsonl(samples.many()),
    "many.csv": lambda: data.triage_csv(samples.many()),
}


@pytest.mark.parametrize("name", RENDERED)
def test_golden(name: str) -> None:
    text = RENDERED[name]()
    path = GOLDEN / name
    if os.environ.get("OOMCTL_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [40, 60, 100, 140])
@pytest.mark.parametrize("make", [samples.one, samples.many, samples.none])
def test_page_fits_its_width(make: object, width: int) -> None:
    assert callable(make)
    for line in triage_page(make(), width).splitlines():
        assert cells(line) <= width, line


@pytest.mark.parametrize("name", ["one.txt", "one.md", "many.txt"])
def test_log_text_never_steers_the_reader(name: str) -> None:
    text = RENDERED[name]()
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_markdown_has_only_our_own_structure() -> None:
    """Outside fences there is no HTML and no heading of a log's; no quoted line ends a fence."""
    fence = None
    for line in triage_md(samples.one()).splitlines():
        marker = re.match(r"\s*(`{3,})", line)
        if fence is None and marker:
            fence = marker[1]
        elif fence is not None and line.strip() == fence:
            fence = None
        elif fence is None:
            assert "<b>" not in line
            assert not re.search(r"(?<!\\)\[bold", line)
            assert not line.startswith("# heading")
    assert fence is None


def test_json_is_the_verdict_and_keeps_log_text_whole() -> None:
    text = document(samples.one())
    jsonschema.validate(json.loads(text), verdict_schema())
    assert msgspec.json.decode(text, type=Triage) == samples.one()
    assert "\x1b" not in text
    lines = data.triage_jsonl(samples.many()).splitlines()
    assert [json.loads(line)["id"] for line in lines] == [incident.id for incident in samples.many().incidents]


def test_csv_reads_back() -> None:
    rows = list(csv.DictReader(io.StringIO(data.triage_csv(samples.many()))))
    assert rows[0] | {"class": "warm_up", "survived": "false", "short_bytes": str(15 * samples.MIB)} == rows[0]
    assert rows[1]["verdict"] == ""


def test_followers() -> None:
    one = Cascade(failures=1, lines=(5,))
    assert cascade_line(one) == "1 later failure followed from it (line 5)"
    two = Cascade(failures=2, lines=(5, 6), ranks=("TP0", "TP1"))
    assert cascade_line(two) == "2 later failures followed from it (lines 5, 6); seen on TP0, TP1"


@pytest.mark.parametrize(
    ("below", "why"), [(-MIB, "1.00 MiB more (rounding)"), (-300 * MIB, "300.00 MiB more (figures differ)")]
)
def test_no_entry_is_shown_below_nothing(below: int, why: str) -> None:
    children = (MemoryNode(name="weights", bytes=900 * MIB - below), MemoryNode(name="others", bytes=below, note="derived"))
    lines = memory_lines(MemoryNode(name="device", bytes=900 * MIB, children=children), 120)
    assert len(lines) == 2 and not any("-" in line for line in lines)
    assert f"entries: {why}" in lines[0]


def test_only_the_unexplained_child_is_unexplained() -> None:
    note = "what the other entries do not explain"
    children = tuple(MemoryNode(name=name, bytes=1, note=note) for name in ("other_tensors", "unexplained"))
    lines = memory_lines(MemoryNode(name="device", bytes=2, children=children), 100)
    assert lines[1].endswith("tensors of no known component")
    assert lines[2].endswith(note)


def test_lone_incident_of_a_crash_loop_is_shown_in_full() -> None:
    three = Triage(inputs=[samples.READ], incidents=samples.many().incidents[:3])
    assert triage_page(three).count("NOT KNOWN") == 3
    assert triage_page(samples.many()).count("NOT KNOWN") == 1


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "?"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (15 * samples.MIB, "15.00 MiB"),
        (-15 * samples.MIB, "-15.00 MiB"),
        (1024 * samples.MIB - 1, "1.00 GiB"),
        (1536 * samples.GIB, "1.50 TiB"),
    ],
)
def test_human(count: int | None, text: str) -> None:
    assert human(count) == text


def test_escape() -> None:
    assert escape("a\x1b[31m\tb\x9b\u202e\r\n") == r"a\x1b[31m b\x9b\u202e\x0d\x0a"
    assert escape_md("a_b _c_ *d* `e` <f> [g](h) ~1") == r"a_b \_c\_ \*d\* \`e\` \<f\> \[g\](h) \~1"


@pytest.mark.parametrize("width", range(1, 12))
def test_cut_keeps_both_ends(width: int) -> None:
    assert cells(cut("0123456789", width)) == min(width, 10)
    assert cells(cut("日本語日本語", width)) <= width
