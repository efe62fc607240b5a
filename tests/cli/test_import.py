"""`oomctl import`: one Parquet file, never over another one without being told to."""

from pathlib import Path

import duckdb
import pytest

from tests.cli.recordings import recording
from tests.cli.run import oomctl

COUNT = ("-c", "SELECT count(*) AS n, count(DISTINCT stream) AS streams FROM events", "--format", "csv")


def test_merges_inputs_and_says_so_on_stderr(tmp_path: Path) -> None:
    recording(tmp_path / "a.parquet", "a.log")
    recording(tmp_path / "b.parquet", "b.log", count=4)
    ran = oomctl("import", "a.parquet", "b.parquet", "gone", "-o", "c.parquet", cwd=tmp_path)
    assert (ran.code, ran.out) == (0, "")
    warning, hint, note = ran.err.splitlines()
    assert warning == "oomctl: warning: no such file (gone)"
    assert hint.startswith("hint: ")
    assert note.startswith("oomctl: wrote 7 rows, ") and note.endswith("KiB (c.parquet)")
    assert (tmp_path / "c.parquet").stat().st_mode & 0o777 == 0o600
    assert oomctl("query", "c.parquet", *COUNT, cwd=tmp_path).out == "n,streams\n7,2\n"


def test_reads_a_recording_through_a_pipe(tmp_path: Path) -> None:
    source = recording(tmp_path / "a.parquet")
    ran = oomctl("import", "-", "-o", "b.parquet", stdin=source.read_bytes(), cwd=tmp_path)
    assert ran.code == 0, ran.err
    assert oomctl("query", "-", *COUNT, stdin=source.read_bytes()).out == "n,streams\n3,1\n"


def test_will_not_overwrite_without_force(tmp_path: Path) -> None:
    recording(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_text("mine")
    ran = oomctl("import", "a.parquet", "-o", "b.parquet", cwd=tmp_path)
    ran.assert_fails(2, "file already exists, will not overwrite without --force (b.parquet)")
    assert (tmp_path / "b.parquet").read_text() == "mine"
    assert oomctl("import", "a.parquet", "-o", "b.parquet", "--force", cwd=tmp_path).code == 0
    assert oomctl("query", "b.parquet", *COUNT, cwd=tmp_path).out == "n,streams\n3,1\n"


def test_output_may_not_be_an_input(tmp_path: Path) -> None:
    recording(tmp_path / "a.parquet")
    (tmp_path / "link.parquet").symlink_to("a.parquet")
    for paths in (["a.parquet"], ["link.parquet"], ["."], ["*.parquet"]):
        ran = oomctl("import", *paths, "-o", "a.parquet", "--force", cwd=tmp_path)
        ran.assert_fails(2, "output is one of the inputs (a.parquet)")


def test_unwritable_places(tmp_path: Path) -> None:
    recording(tmp_path / "a.parquet")
    oomctl("import", "a.parquet", "-o", ".", cwd=tmp_path).assert_fails(2, "is a folder (.)")
    oomctl("import", "a.parquet", "-o", "no/such/b.parquet", cwd=tmp_path).assert_fails(4, "cannot write")


def test_nothing_is_written_if_nothing_was_read(tmp_path: Path) -> None:
    oomctl("import", "gone", "-o", "b.parquet", cwd=tmp_path).assert_fails(3, "no such file (gone)")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("select", "version", "said"),
    [
        ("SELECT 'a.log' AS stream, 1 AS seq", "0", "not an event table of oomctl: no column 'kind' (x.parquet)"),
        ("SELECT 'log' AS kind, 1 AS seq", "0", "not an event table of oomctl: no column 'stream' (x.parquet)"),
        ("SELECT 'log' AS kind, 'a' AS stream", "0", "not an event table of oomctl: no column 'seq' (x.parquet)"),
        ("SELECT 'log' AS kind, 'a' AS stream, 1 AS seq LIMIT 0", "0", "a recording without a row (x.parquet)"),
        ("SELECT 'log' AS kind, 'a' AS stream, 1 AS seq", "soon", "'soon' is not a schema version of oomctl (x.parquet)"),
        ("SELECT 'log' AS kind, 'a' AS stream, 1 AS seq", "²", "is not a schema version of oomctl (x.parquet)"),
        ("SELECT 'log' AS kind, 'a' AS stream, 1 AS seq", "99", "schema version 99 is newer than this oomctl reads"),
    ],
)
def test_recordings_that_are_none(tmp_path: Path, select: str, version: str, said: str) -> None:
    target = tmp_path / "x.parquet"
    # A connection of its own: another test may have left a result open on the process's default one.
    duckdb.connect().execute(
        f"COPY ({select}) TO '{target}' (FORMAT parquet, KV_METADATA {{'oomctl.schema_version': '{version}'}})"
    )
    oomctl("triage", "x.parquet", cwd=tmp_path).assert_fails(3, said)
    oomctl("triage", "-", stdin=target.read_bytes()).assert_fails(3, said.replace("x.parquet", "stdin"))
