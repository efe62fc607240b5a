"""An hour that is called quiet is told as if all of it had been loaded; whatever is unusual is never called so."""

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oomctl.fleet.judge import judge
from oomctl.fleet.quiet import look
from oomctl.fleet.store import Store
from oomctl.fleet.units import units
from oomctl.schemas.arrow import events_schema
from oomctl.schemas.version import SCHEMA_VERSION, VERSION_KEY
from tests.fleet.made import BEGIN, Hour, export, record
from tests.scenarios.table import build_arrow

VERSION = str(SCHEMA_VERSION)


@cache
def rows() -> Any:
    return build_arrow("healthy", rows=60)


def written(path: Path, table: Any, version: str = VERSION) -> Path:
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.add_key_value_metadata({VERSION_KEY: version})
        writer.write_table(table)
    return path


def with_column(name: str, values: Any) -> Any:
    return rows().set_column(events_schema().get_field_index(name), name, values)


def with_member(kind: str) -> Any:
    """A kind with a field that is none of ours."""
    more = pa.struct([*events_schema().field(kind).type, pa.field("stranger", pa.int64())])
    return with_column(kind, pa.nulls(len(rows()), more))


def test_a_quiet_hour_is_told_as_if_it_were_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hours = {BEGIN: Hour(first_s=3_500), BEGIN + timedelta(hours=2): Hour("warm_up_capture")}
    export(record(tmp_path / "recording", "n", "w", hours), Store(str(tmp_path / "rec")))
    found = units(str(tmp_path / "rec"))
    quiet = [look(Path(unit.name), Path(unit.root, unit.context) if unit.context else None) is not None for unit in found]
    assert quiet == [True, False, False] and found[0].context, "the second one's context shows the third one's failure"
    told, doubtful = judge(found[0]), judge(found[1])
    assert [(row["outcome"], row["engine"], row["engine_version"]) for row in told] == [("clean", "vllm", "0.11.0")]
    assert [row["outcome"] for row in doubtful] == ["clean"]
    monkeypatch.setattr("oomctl.fleet.judge.look", lambda hour, context: None)
    assert [{"problem": None} | row for row in told] == judge(found[0])


def test_a_sign_in_its_context_is_one(tmp_path: Path) -> None:
    hour = written(tmp_path / "hour", rows())
    assert look(hour, None) and look(hour, hour)
    assert look(hour, written(tmp_path / "beside", build_arrow("warm_up_capture"))) is None


def test_an_older_file_with_fewer_fields_may_be_quiet(tmp_path: Path) -> None:
    kind = events_schema().field("request").type
    fewer = with_column("request", pa.nulls(len(rows()), pa.struct(list(kind)[:3]))).drop_columns("adapter")
    assert look(written(tmp_path / "hour", fewer), None) == look(written(tmp_path / "whole", rows()), None)


@pytest.mark.parametrize(
    "change",
    [
        lambda: rows().append_column("stranger", pa.nulls(len(rows()), pa.int64())),
        lambda: with_member("adapter"),
        lambda: with_column("adapter", pa.nulls(len(rows()), pa.int64())),
        lambda: with_column("seq", rows()["seq"].cast(pa.float64())),
        lambda: with_column("ts", pa.array([-1] * len(rows()), pa.timestamp("us"))),
        lambda: with_column("kind", pa.array(["stranger"] * len(rows()))),
        lambda: rows().drop_columns("fault"),
        lambda: rows().drop_columns("seq"),
        lambda: rows().slice(0, 0),
    ],
    ids=["column", "field", "no-struct", "type", "before-1970", "kind", "no-sign", "no-seq", "no-row"],
)
def test_what_is_unusual_is_not_quiet(change: Callable[[], Any], tmp_path: Path) -> None:
    assert look(written(tmp_path / "hour", change()), None) is None


def test_neither_is_another_version_nor_what_is_no_parquet(tmp_path: Path) -> None:
    for version in ("0", str(SCHEMA_VERSION + 1)):
        assert look(written(tmp_path / "hour", rows(), version), None) is None
    whole = written(tmp_path / "hour", rows()).read_bytes()
    for damaged in (b"", b"PAR1" * 4, whole[:-200], whole[: len(whole) // 2] + whole[-4000:]):
        (tmp_path / "hour").write_bytes(damaged)
        assert look(tmp_path / "hour", None) is None
    assert look(tmp_path / "nowhere", None) is None
