"""Triage reads less than there is: what it leaves out is nothing that it asks for, so that the verdict is the same."""

import re
from pathlib import Path

import msgspec
import pytest

from oomctl import queries
from oomctl.analyzers.triage.asked import CUT
from oomctl.pipeline import judged
from oomctl.schemas import storage
from tests.queries.fixtures import Fixture, database

READ = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)")
EVERYTHING = Fixture("recording")


@pytest.mark.parametrize("folder", ["evidence", "views"])
def test_no_query_of_triage_reads_a_kind_that_is_left_out(folder: queries.Folder) -> None:
    left_out = {kind for kind, condition in CUT.items() if condition == storage.NOTHING}
    for name in queries.names(folder):
        sql = re.sub(r"--.*", "", queries.load(folder, name).sql)
        assert left_out.isdisjoint(READ.findall(sql)), name


def test_a_recording_is_judged_alike_whole_and_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    storage.write_parquet(database(EVERYTHING), path, "a test")
    with judged([str(path)]) as (connection, whole):
        rows = connection.execute("SELECT count(*) FROM events").fetchall()
    with judged([str(path)], cut=CUT) as (connection, cut):
        fewer = connection.execute("SELECT count(*) FROM events").fetchall()
        kinds = {kind for (kind,) in connection.execute("SELECT DISTINCT kind FROM events").fetchall()}
    assert whole.incidents and fewer < rows
    assert kinds.isdisjoint(kind for kind, condition in CUT.items() if condition == storage.NOTHING)
    assert msgspec.to_builtins(cut) == msgspec.to_builtins(whole)
