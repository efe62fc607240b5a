"""The forms of an event table: Parquet, JSON lines and CSV give the same rows and the same verdict."""

import gzip
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from oomctl.pipeline import open_inputs
from oomctl.schemas import storage, text_forms
from oomctl.schemas.events import KINDS
from oomctl.schemas.rows import make_row
from tests.cli.recordings import recording
from tests.cli.run import oomctl
from tests.cli.test_packed import tar
from tests.cli.test_triage import FAILURE, LOG

FORMS = ("parquet", "jsonl", "csv")
SAMPLES: dict[str, Any] = {
    "int": -(2**63) + 1, "float": 0.1, "bool": False, "text": 'NULL, "x"\r\n\t=1\\\u202e\x00',
    "timestamp": datetime(2026, 1, 2, 3, 4, 5, 6),
}  # fmt: skip


def every_kind() -> list[dict[str, Any]]:
    """A row of each kind with all its fields, one whose texts are empty, and one with hardly any."""
    made = []
    for number, kind in enumerate(KINDS.values()):
        common = {"stream": "a.log", "source": "log", "worker": "w", "seq": number}
        full = {field.name: field.values[0] if field.values else SAMPLES[field.type] for field in kind.fields}
        empty = {field.name: "" for field in kind.fields if field.type == "text" and not field.values}
        made.append(make_row(kind.name, full, {**common, "ts": 1_700_000_000_000_001, "ts_quality": "exact", "line": 7}))
        made.append(make_row(kind.name, empty, {**common, "seq": 1000 + number, "node": ""}))
        made.append(make_row(kind.name, {kind.fields[0].name: full[kind.fields[0].name]}, {**common, "seq": 2000 + number}))
    return made


@pytest.mark.parametrize("form", FORMS)
def test_every_field_of_every_kind_comes_back(tmp_path: Path, form: str) -> None:
    connection = storage.connect()
    storage.load_rows(connection, every_kind())
    before = list(text_forms.rows(connection))
    path = tmp_path / f"a.{form}"
    if form == "parquet":
        storage.write_parquet(connection, path, "test")
    else:
        (text_forms.write_jsonl if form == "jsonl" else text_forms.write_csv)(connection, path)
    connection.close()
    loaded = open_inputs([str(path)])
    assert loaded.skipped == []
    assert [(entry.format, entry.rows, entry.bytes) for entry in loaded.inputs] == [
        (form, len(before), path.stat().st_size)
    ]
    assert list(text_forms.rows(loaded.connection)) == before
    loaded.connection.close()


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_time_that_python_does_not_know_is_none(tmp_path: Path, form: str) -> None:
    """Files of earlier versions may hold one; JSON lines refuse the row."""
    connection = storage.connect()
    storage.load_rows(connection, [make_row("oom", {}, {"stream": "a", "seq": 1, "ts": 1})])
    connection.execute("UPDATE stored.oom SET ts = TIMESTAMP '12000-01-01'")
    path = tmp_path / f"a.{form}"
    if form == "parquet":
        storage.write_parquet(connection, path, "test")
    else:
        text_forms.write_csv(connection, path)
    connection.close()
    loaded = open_inputs([str(path)])
    assert loaded.connection.execute("SELECT ts FROM oom").fetchall() == [(None,)]
    loaded.connection.close()


@pytest.mark.parametrize("command", ["import", "export"])
@pytest.mark.parametrize("form", FORMS)
def test_the_verdict_is_the_same(tmp_path: Path, command: str, form: str) -> None:
    """From the file, through a pipe, packed, in a tar, and from the SQL of a query."""
    (tmp_path / "w.log").write_text(LOG + FAILURE)
    assert oomctl(command, "w.log", "-o", f"a.{form}", cwd=tmp_path).code == 0
    data = (tmp_path / f"a.{form}").read_bytes()
    (tmp_path / "a.gz").write_bytes(gzip.compress(data))
    (tmp_path / "a.tar").write_bytes(tar({f"a.{form}": data}))
    log = json.loads(oomctl("triage", "w.log", "--json", cwd=tmp_path).out)
    for name in (f"a.{form}", "-", "a.gz", "a.tar"):
        ran = oomctl("triage", name, "--json", cwd=tmp_path, stdin=data if name == "-" else b"")
        assert (ran.code, ran.err) == (0, "")
        copy = json.loads(ran.out)
        assert copy["incidents"] == log["incidents"]
        assert [(entry["format"], entry["engines"]) for entry in copy["inputs"]] == [(form, ["vllm"])]
    counts = {
        name: oomctl("query", name, "-c", "SELECT kind, count(*) FROM events GROUP BY ALL ORDER BY ALL", cwd=tmp_path).out
        for name in ("w.log", f"a.{form}")
    }
    assert counts["w.log"] == counts[f"a.{form}"]


def test_a_log_of_such_rows_is_a_log(tmp_path: Path) -> None:
    """A shipper that wraps our own rows, or any log in JSON, is no export."""
    wrapped = "".join(
        json.dumps({"stream": "stderr", "kind": "log", "seq": number, "log": line}) + "\n"
        for number, line in enumerate((LOG + FAILURE).splitlines())
    )
    (tmp_path / "w.log").write_text(wrapped)
    ran = json.loads(oomctl("triage", "w.log", "--json", cwd=tmp_path).out)
    assert ran["inputs"][0]["format"] == "log"
    assert [incident["class"] for incident in ran["incidents"]] == ["warm_up"]


def exported(folder: Path, form: str) -> list[str]:
    recording(folder / "a.parquet")
    assert oomctl("export", "a.parquet", "-o", f"a.{form}", cwd=folder).code == 0
    return re.findall(r"[^\n]*\n", (folder / f"a.{form}").read_bytes().decode())


def test_lines_that_are_no_rows_are_counted(tmp_path: Path) -> None:
    lines = exported(tmp_path, "jsonl")
    wrong = [
        "{broken\n", "7\n", '{"schema": "oomctl.events/1"}\n', lines[0].replace('"seq":', '"seq":"x","y":'),
        "[" * 9999 + "\n", lines[0].replace('"kind":"log"', '"kind":"lag"'), lines[0].replace('"line":1', '"line":9e99'),
        lines[0][:40],
    ]  # fmt: skip
    (tmp_path / "b.jsonl").write_text("".join([*lines, "\n", *wrong]))
    ran = oomctl("query", "b.jsonl", "-c", "SELECT count(*) AS n FROM events", "--format", "csv", cwd=tmp_path)
    assert (ran.code, ran.out) == (0, "n\n3\n")
    assert ran.err == f"oomctl: warning: b.jsonl: {len(wrong)} lines are no rows, the first is line 5; read the others\n"


def test_two_exports_put_together(tmp_path: Path) -> None:
    lines = exported(tmp_path, "jsonl")
    (tmp_path / "b.jsonl").write_text("".join([*lines, *(line.replace('"a.log"', '"b.log"') for line in lines)]))
    ran = oomctl(
        "query", "b.jsonl", "-c", "SELECT count(DISTINCT stream) AS n FROM events", "--format", "csv", cwd=tmp_path
    )
    assert (ran.out, ran.err) == ("n\n2\n", "")


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_what_cannot_be_read(tmp_path: Path, form: str) -> None:
    lines = exported(tmp_path, form)

    def fails(text: str, *said: str) -> None:
        (tmp_path / f"b.{form}").write_text(text)
        oomctl("triage", f"b.{form}", cwd=tmp_path).assert_fails(3, *said)

    fails("".join(lines).replace("oomctl.events/1", "oomctl.events/9"), "schema version 9 is newer than this oomctl reads")
    (tmp_path / f"b.{form}").write_text("".join(lines))
    ran = oomctl("triage", f"a.{form}", f"b.{form}", cwd=tmp_path)
    assert f"stream a.log was already read from another input (b.{form})" in ran.err
    if form == "csv":
        fails("".join(lines).replace("log.text", "log.texts", 1), "unknown column 'log.texts'")
        fails("".join(lines).replace('"node"', '"log.text"', 1), "not an event table of oomctl")
        fails("".join(lines).replace(",0,1,", ",zero,1,"), "cannot read as CSV (b.csv)")
        fails("".join(lines).replace("oomctl.events/1", "x", 1), "a row without its schema (b.csv)")
        fails(lines[0], "a recording without a row (b.csv)")
    else:
        fails(lines[0][:-30] + "\n", "a recording without a row (b.jsonl)")


@pytest.mark.parametrize("command", ["import", "export"])
def test_the_name_tells_the_form(tmp_path: Path, command: str) -> None:
    recording(tmp_path / "a.parquet")
    said = "cannot tell the form of the output (b.txt)"
    oomctl(command, "a.parquet", "-o", "b.txt", cwd=tmp_path).assert_fails(2, said, ".parquet, .jsonl, .csv")
    assert not (tmp_path / "b.txt").exists()
