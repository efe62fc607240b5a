"""`oomctl query`: one statement over the event table, in five formats, and nothing but that table."""

import csv
import io
import json
import os
import pty
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow.parquet
import pytest

from oomctl import queries
from oomctl.cli.prompt import complete, words
from oomctl.cli.render.rows import plain, rows_csv, rows_jsonl, rows_md, rows_table
from oomctl.cli.render.text import escape
from tests.cli.recordings import recording
from tests.cli.run import Ran, oomctl
from tests.cli.samples import HOSTILE

GOLDEN = Path(__file__).parent / "golden"
TYPES = """
SELECT * FROM (VALUES
    (1, 12345678901234567890123, 1.5, 0.1::DECIMAL(9, 3), TIMESTAMP '2026-01-02 03:04:05.000006',
        DATE '2026-01-02', INTERVAL 90 SECOND, true, 'a|b, "c"', '\\x01\\xff'::BLOB, [1, NULL], {'k': 'v'}, 'end'),
    (-9223372036854775808, NULL, 'nan', 12345.678, NULL, NULL, NULL, false, '', NULL, [], {'k': NULL}, 'wide 漢'),
    (NULL, 0, 1e300, NULL, TIMESTAMP '1970-01-01', DATE '9999-12-31', INTERVAL 0 SECOND, NULL, NULL, '', NULL, NULL, '\t')
) AS t (n, huge, ratio, money, moment, day, span, flag, words, bytes, list, struct, last)
"""
SQL = "SELECT seq, ts, text, {'a': seq, 'b': NULL} AS pair, seq = 1 AS hostile FROM log ORDER BY seq"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recording(tmp_path_factory.mktemp("query") / "a.parquet")


def ask(file: Path, sql: str, *more: str) -> Ran:
    return oomctl("query", str(file), "-c", sql, *more)


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "csv", "md"])
@pytest.mark.parametrize(("stem", "sql"), [("query", SQL), ("query_types", TYPES)])
def test_golden(file: Path, form: str, stem: str, sql: str) -> None:
    ran = ask(file, sql, "--format", form)
    assert (ran.code, ran.err) == (0, "")
    path = GOLDEN / f"{stem}.{form if form != 'table' else 'txt'}"
    if os.environ.get("OOMCTL_GOLDEN") == "write":
        path.write_bytes(ran.out.encode())
    assert ran.out == path.read_bytes().decode()


def test_table_and_csv_agree_cell_for_cell(file: Path) -> None:
    header, dashes, *lines = ask(file, TYPES).out.splitlines()
    starts = [0, *(n + 2 for n in range(len(dashes)) if dashes[n : n + 2] == "  ")]
    spans = list(zip(starts, [*starts[1:], None], strict=True))
    # A wide character takes two columns of the terminal: none of these rows has one before another cell.
    table = [[line[start:end].strip() for start, end in spans] for line in (header, *lines)]
    rows = list(csv.reader(io.StringIO(ask(file, TYPES, "--format", "csv").out, newline="")))
    assert len(rows) == len(table) == 4
    assert table == [[escape(value).strip() for value in row] for row in rows]


def test_parquet_keeps_types_and_values(file: Path, tmp_path: Path) -> None:
    ran = oomctl("query", str(file), "-c", TYPES, "-o", str(tmp_path / "a.parquet"))
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert (tmp_path / "a.parquet").stat().st_mode & 0o777 == 0o600
    table = pyarrow.parquet.read_table(tmp_path / "a.parquet")
    assert str(table.schema.field("moment").type) == "timestamp[us]" and str(table.schema.field("n").type) == "int64"
    found = duckdb.execute("SELECT * FROM read_parquet(?)", [str(tmp_path / "a.parquet")]).fetchall()
    rows = [[plain(value) for value in row] for row in found]
    assert "".join(rows_jsonl(table.column_names, rows)) == ask(file, TYPES, "--format", "jsonl").out
    assert str(table.schema.field("span").type) == "double"
    piped = subprocess.run(
        [sys.executable, "-m", "oomctl", "query", str(file), "-c", TYPES, "--format", "parquet"],
        capture_output=True, check=True,
    )  # fmt: skip
    assert piped.stdout == (tmp_path / "a.parquet").read_bytes()
    none = oomctl("query", str(file), "-c", "SELECT 1 AS a WHERE false", "-o", str(tmp_path / "b.parquet"))
    assert (none.code, pyarrow.parquet.read_table(tmp_path / "b.parquet").column_names) == (0, ["a"])


@pytest.mark.parametrize("ending", ["txt", "csv"])
def test_a_file_holds_what_a_pipe_gets(file: Path, tmp_path: Path, ending: str) -> None:
    output = tmp_path / f"a.{ending}"
    output.write_text("old")
    if ending == "txt":
        refused = oomctl("query", str(file), "-c", TYPES, "-o", str(output))
        refused.assert_fails(2, "will not overwrite without --force")
    assert oomctl("query", str(file), "-c", TYPES, "-o", str(output), "--force").code == 0
    kept = GOLDEN / f"query_types.{ending}"
    assert output.read_bytes() == kept.read_bytes()


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
    assert len(ask(file, many).out.splitlines()) == 1502, "a pipe gets all rows"
    some = ask(file, many, "--limit", "2", "--format", "csv")
    assert some.out == "n\n0\n1\n"
    assert "only the first 2 rows" in some.err and "--limit 0" in some.err
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
        ("SELECT * FROM read_csv('/etc/passwd')", ("refused: function read_csv",)),
        ("COPY log TO '/tmp/oomctl-test-leak.csv'", ("refused: COPY; only SELECT",)),
        ("WITH a AS (DELETE FROM stored.log RETURNING seq) FROM a", ("refused: DELETE", "one SELECT")),
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


def test_a_table_is_folded_to_a_terminal() -> None:
    lines = "".join(rows_table(("n", "text"), [(1, "x" * 50), (22, None)], width=40)).splitlines()
    assert all(len(line) <= 40 for line in lines)
    assert lines[2:] == [" 1  " + "x" * 36, "    " + "x" * 14, "22"]


def test_rows_too_wide_for_a_terminal_are_records() -> None:
    columns = ("worker", *(f"column_{n}" for n in range(6)))
    rows = [("w" * 12, *(f"{row}{n}" * 10 for n in range(5)), None if row else "long words " * 20) for row in range(2)]
    lines = "".join(rows_table(columns, rows, width=60)).splitlines()
    assert all(len(line) <= 60 for line in lines)
    assert lines[:3] == ["every row", "worker    " + "w" * 12, ""], "what they have in common stands once"
    assert "row 1" in lines and "row 2" in lines
    assert " ".join(line.removeprefix("column_5").strip() for line in lines).count("long words") == 20, "nothing is cut"
    assert not any(line.startswith("column_5") for line in lines[lines.index("row 2") :]), "NULL is left out"
    assert "".join(rows_table(columns, rows, width=None)).count("\n") == 4, "a pipe has no width"


def test_a_year_that_no_line_tells_is_not_shown() -> None:
    moment = plain(datetime(2000, 3, 11, 2, 41, 7))
    assert "".join(rows_table(("at",), [(moment,)], width=None)).splitlines()[2] == "03-11 02:41:07"
    assert "| 03-11 02:41:07 |" in "".join(rows_md(("at",), [(moment,)]))
    assert "2000-03-11T02:41:07Z" in "".join(rows_csv(("at",), [(moment,)])), "programs compare whole times"
    assert "2026-" in "".join(rows_md(("at",), [(plain(datetime(2026, 3, 11)),)]))


def on_terminal(*arguments: str, columns: int = 80, stdin: bytes | None = None, **variables: str) -> tuple[int, str, bytes]:
    """(exit status, what a terminal shows of stdout, stderr); with stdin, that is a terminal too, and is typed there."""
    terminal, end = pty.openpty()
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
    running = subprocess.Popen(
        [sys.executable, "-m", "oomctl", *arguments],
        stdin=subprocess.DEVNULL if stdin is None else end,
        stdout=end,
        stderr=subprocess.PIPE,
        env=kept | {"TERM": "xterm", "COLUMNS": str(columns)} | variables,
    )
    os.close(end)
    if stdin is not None:
        os.write(terminal, stdin)
    shown = b""
    while True:
        try:
            shown += os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
    assert running.stderr is not None
    said = running.stderr.read()
    running.stderr.close()
    os.close(terminal)
    return running.wait(), shown.decode().replace("\r\n", "\n"), said


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colour_and_width_are_the_terminals(file: Path, variables: dict[str, str], coloured: bool) -> None:
    code, text, said = on_terminal("query", str(file), "-c", SQL, columns=60, stdin=None, **variables)
    assert (code, said) == (0, b"")
    assert ("\x1b[1m" in text) is coloured
    assert r"\x1b" in text and "\x1b[31m" not in text
    assert all(len(line) <= 60 + len("\x1b[1m\x1b[0m") for line in text.splitlines())


def test_piping_changes_no_content(file: Path) -> None:
    """On a terminal, folded or a block a row; each value is there whole."""
    wide = f"SELECT {', '.join(f'repeat(chr({97 + n}), 30) AS c{n}' for n in range(20))}"
    code, text, said = on_terminal("query", str(file), "-c", wide, NO_COLOR="1")
    assert (code, said) == (0, b"")
    assert all(len(line) <= 80 for line in text.splitlines())
    piped = ask(file, wide).out.splitlines()[2].split()
    assert [line.split()[1] for line in text.splitlines()[1:]] == piped


def test_prompt(file: Path, tmp_path: Path) -> None:
    typed = b"SELECT count(*) AS answers\nFROM kv_po\t WHERE true;\nnonsense;\nphases\nquit\n"
    code, text, said = on_terminal("query", str(file), "-i", stdin=typed, XDG_STATE_HOME=str(tmp_path), NO_COLOR="1")
    assert code == 0, said
    assert "answers\n-------\n      0\n" in text
    assert b"syntax error" in said and b"not recorded" not in said
    assert "quit" in (tmp_path / "oomctl" / "query_history").read_text()
    assert (tmp_path / "oomctl" / "query_history").stat().st_mode & 0o777 == 0o600


def test_prompt_from_a_pipe(file: Path) -> None:
    ran = oomctl("query", str(file), "-i", "--format", "csv", stdin=b"SELECT 1 AS a;\nSELECT 2 AS b;")
    assert (ran.code, ran.out, ran.err) == (0, "a\n1\nb\n2\n", "")


def test_completion() -> None:
    known = words()
    assert complete(known, "kv_po", 0) == "kv_pool" and complete(known, "usage_ra", 0) == "usage_ratio"
    assert complete(known, "phas", 0) == "phase" and complete(known, "zzz", 0) is None


def test_sql_from_a_file(file: Path, tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("-- how many\nSELECT count(*) AS n FROM log;\n")
    assert oomctl("query", str(file), "-f", str(tmp_path / "a.sql"), "--format", "csv").out == "n\n3\n"
    assert oomctl("query", str(file), "-f", "-", "--format", "csv", stdin=b"SELECT 1 AS n").out == "n\n1\n"
    oomctl("query", str(file), "-f", "gone.sql").assert_fails(3, "no such file")
    oomctl("query", str(file), "phases", "-f", "-").assert_fails(2, "several questions")


def test_list_and_show_need_no_file() -> None:
    listed = json.loads(oomctl("query", "--list", "--json").out)
    assert [row["name"] for row in listed] == list(queries.names("postmortem"))
    assert oomctl("query", "--show", "phases").out == queries.load("postmortem", "phases").sql
    shown = json.loads(oomctl("query", "--show", "phases", "--json").out)
    assert shown["columns"][0] == {"name": "stream", "meaning": "source of the rows"}
    oomctl("query", "--show", "phase").assert_fails(2, "did you mean phases?")
    oomctl("query").assert_fails(2, "no file to ask")
