"""`oomctl query`: one statement over the event table, in five formats, and nothing but that table."""

import csv
import io
import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest

from oomctl import queries
from oomctl.cli.render.rows import plain, rows_csv, rows_md, rows_table
from tests.cli.recordings import recording
from tests.cli.run import Ran, oomctl
from tests.cli.samples import HOSTILE

GOLDEN = Path(__file__).parent / "golden"
SQL = "SELECT seq, ts, text, {'a': seq, 'b': NULL} AS pair, seq = 1 AS hostile FROM log ORDER BY seq"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recording(tmp_path_factory.mktemp("query") / "a.parquet")


def ask(file: Path, sql: str, *more: str) -> Ran:
    return oomctl("query", str(file), "-c", sql, *more)


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "csv", "md"])
def test_golden(file: Path, form: str) -> None:
    ran = ask(file, SQL, "--format", form)
    assert (ran.code, ran.err) == (0, "")
    path = GOLDEN / f"query.{form if form != 'table' else 'txt'}"
    if os.environ.get("OOMCTL_GOLDEN") == "write":
        path.write_bytes(ran.out.encode())
    assert ran.out == path.read_bytes().decode()


def test_table_and_csv_agree_cell_for_cell(file: Path) -> None:
    sql = "SELECT seq, level, ts FROM log ORDER BY seq"
    table = [line.split() for line in ask(file, sql).out.splitlines()]
    rows = list(csv.reader(io.StringIO(ask(file, sql, "--format", "csv").out)))
    assert [table[0], *table[2:]] == [[value for value in row if value] for row in rows]


def test_json_and_csv_keep_log_text_whole(file: Path) -> None:
    sql = "SELECT text FROM log WHERE seq = 1"
    assert json.loads(ask(file, sql, "--json").out) == [{"text": HOSTILE}]
    assert next(csv.DictReader(io.StringIO(ask(file, sql, "--format", "csv").out, newline="")))["text"] == HOSTILE


def test_columns_of_one_name_stay_apart(file: Path) -> None:
    assert json.loads(ask(file, "SELECT 1 AS a, 2 AS a, 3 AS a", "--json").out) == [{"a": 1, "a_1": 2, "a_2": 3}]


def test_no_rows(file: Path) -> None:
    assert ask(file, "SELECT seq FROM log WHERE false", "--json").out == "[]\n"
    assert ask(file, "SELECT seq FROM log WHERE false", "--format", "csv").out == "seq\n"


def test_limit(file: Path) -> None:
    many = "SELECT range AS n FROM range(1500) ORDER BY n"
    table = ask(file, many)
    assert len(table.out.splitlines()) == 1002
    assert "only the first 1,000 rows" in table.err and "--limit 0" in table.err
    assert len(ask(file, many, "--limit", "0").out.splitlines()) == 1502
    everything = ask(file, many, "--format", "jsonl")
    assert (len(everything.out.splitlines()), everything.err) == (1500, "")
    assert ask(file, many, "--format", "csv", "--limit", "2").out == "n\n0\n1\n"
    exact = ask(file, "SELECT range AS n FROM range(2)", "--limit", "2")
    assert exact.err == ""


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM evnts", ("Table with name evnts does not exist", 'did you mean "events"?')),
        ("SELECT kin FROM events", ('column "kin" not found', 'did you mean "kind"')),
        ("SELEC 1", ("syntax error",)),
        ("SELECT 1; SELECT 2", ("2 SQL statements", "exactly one")),
        ("", ("no SQL statement",)),
        ("SELECT 'x'::INT", ("Could not convert",)),
        ("SELECT error('\x1b[31m')", (r"\x1b[31m",)),
        ("SELECT * FROM read_csv('/etc/passwd')", ("disabled by configuration",)),
        ("COPY log TO '/tmp/oomctl-test-leak.csv'", ("disabled by configuration",)),
        ("ATTACH '/tmp/oomctl-test-leak.db'", ("disabled by configuration",)),
        ("SET enable_external_access = true", ("locked",)),
        ("SELECT * FROM sql", ("Table with name sql does not exist",)),
        ("SELECT $p", ("parameters: p",)),
    ],
)
def test_bad_sql_exits_2(file: Path, sql: str, said: tuple[str, ...]) -> None:
    ask(file, sql).assert_fails(2, *said)
    assert not Path("/tmp/oomctl-test-leak.csv").exists()


def test_without_a_question_the_named_ones_are_listed(file: Path) -> None:
    ran = oomctl("query", str(file), "--json")
    assert [row["name"] for row in json.loads(ran.out)] == list(queries.names("postmortem"))


@pytest.mark.parametrize("name", ["gone.parquet", "gone*.log", ""])
def test_a_file_that_does_not_exist_is_an_error_whatever_is_asked(tmp_path: Path, name: str) -> None:
    for question in ([], ["phases"], ["-c", "SELECT 1"]):
        ran = oomctl("query", name, *question, cwd=tmp_path)
        ran.assert_fails(3, "an empty path" if not name else "no file matches" if "*" in name else "no such file")


def test_times_are_utc() -> None:
    assert plain(datetime(2026, 1, 2, 3, 4, 5, 600)) == "2026-01-02T03:04:05.000600Z"
    assert plain(datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2)))) == "2026-01-01T22:00:00Z"
    assert plain(datetime(2026, 1, 2, tzinfo=UTC)) == "2026-01-02T00:00:00Z"
    assert plain([date(2026, 1, 2), Decimal("1.0"), Decimal("1.5"), b"\x01", timedelta(minutes=1)]) == [
        "2026-01-02",
        1,
        1.5,
        "01",
        60.0,
    ]


def test_table_is_cut_to_a_terminal() -> None:
    lines = "".join(rows_table(("n", "text"), [(1, "x" * 200), (22, None)], width=40)).splitlines()
    assert all(len(line) <= 40 for line in lines)
    assert lines[2].startswith(" 1  xxx") and "…" in lines[2]
    assert lines[3] == "22"


def test_rows_too_wide_for_a_terminal_are_records() -> None:
    columns = ("worker", *(f"column_{n}" for n in range(6)))
    rows = [("w" * 12, *(f"{row}{n}" * 10 for n in range(5)), None if row else "long words " * 20) for row in range(2)]
    lines = "".join(rows_table(columns, rows, width=60)).splitlines()
    assert all(len(line) <= 60 for line in lines)
    assert lines[:3] == ["every row", "worker    " + "w" * 12, ""], "what they have in common stands once"
    assert "row 1" in lines and "row 2" in lines
    assert not any(line.startswith("column_5") for line in lines[lines.index("row 2") :]), "NULL is left out"
    assert "".join(rows_table(columns, rows, width=None)).count("\n") == 4, "a pipe has no width"


def test_a_year_that_no_line_tells_is_not_shown() -> None:
    moment = plain(datetime(2000, 3, 11, 2, 41, 7))
    assert "".join(rows_table(("at",), [(moment,)], width=None)).splitlines()[2] == "03-11 02:41:07"
    assert "| 03-11 02:41:07 |" in "".join(rows_md(("at",), [(moment,)]))
    assert "2000-03-11T02:41:07Z" in "".join(rows_csv(("at",), [(moment,)])), "programs compare whole times"
    assert "2026-" in "".join(rows_md(("at",), [(plain(datetime(2026, 3, 11)),)]))


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colour_and_width_are_the_terminals(file: Path, variables: dict[str, str], coloured: bool) -> None:
    terminal, end = os.openpty()
    plain_environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
    done = subprocess.run(
        [sys.executable, "-m", "oomctl", "query", str(file), "-c", SQL],
        stdout=end,
        stderr=subprocess.PIPE,
        env=plain_environment | {"TERM": "xterm", "COLUMNS": "60"} | variables,
        check=False,
    )
    os.close(end)
    text = os.read(terminal, 100_000).decode()
    os.close(terminal)
    assert (done.returncode, done.stderr) == (0, b"")
    assert ("\x1b[1m" in text) is coloured
    assert r"\x1b" in text and "\x1b[31m" not in text
    assert all(len(line) <= 60 + len("\x1b[1m\x1b[0m") for line in text.splitlines())
