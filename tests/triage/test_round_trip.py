"""The verdict is the recording's: from the log, from the Parquet made of it, today and tomorrow."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest

from oomctl.pipeline import open_inputs, triage_paths
from oomctl.schemas.storage import write_parquet
from tests.cli.run import oomctl
from tests.scenarios import catalogue, render_log
from tests.shared import SHARED

RENDERED = [(scenario.name, engine) for scenario in catalogue() for engine in scenario.engines]
OOM_LOGS = sorted((SHARED / "data" / "oom_logs" / "logs").glob("*.log"))


def verdict(path: Path) -> dict[str, Any]:
    """The verdict on a file, as `oomctl triage --json` gives it."""
    document: dict[str, Any] = json.loads(msgspec.json.encode(triage_paths([str(path)])))
    return document


def imported(log: Path, folder: Path) -> Path:
    loaded = open_inputs([str(log)])
    path = folder / "a.parquet"
    write_parquet(loaded.connection, path, "test")
    loaded.connection.close()
    return path


def rendered(folder: Path, scenario: str, engine: str, name: str = "a.log") -> Path:
    path = folder / name
    path.write_text(render_log(scenario, seed=3, ranks=2, engine=engine))
    return path


@cache
def schema() -> Any:
    ran = oomctl("schema", "verdict", "--json")
    assert ran.code == 0
    document = json.loads(ran.out)
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


@pytest.mark.parametrize(("scenario", "engine"), RENDERED)
def test_parquet_gives_the_same_verdict_as_the_log(tmp_path: Path, scenario: str, engine: str) -> None:
    log = rendered(tmp_path, scenario, engine)
    document = verdict(log)
    assert verdict(imported(log, tmp_path))["incidents"] == document["incidents"]
    assert [error.message for error in schema().iter_errors(document)] == []


@pytest.mark.parametrize("log", OOM_LOGS, ids=lambda path: path.stem)
def test_parquet_gives_the_same_verdict_as_the_shared_log(tmp_path: Path, log: Path) -> None:
    document = verdict(log)
    assert verdict(imported(log, tmp_path))["incidents"] == document["incidents"]
    assert [error.message for error in schema().iter_errors(document)] == []


def ids(document: Any) -> Iterator[str]:
    return (incident["id"] for incident in document["incidents"])


def test_ids_are_deterministic_and_do_not_follow_the_files_name(tmp_path: Path) -> None:
    first = list(ids(verdict(rendered(tmp_path, "decode_exhausted", "sglang"))))
    other = tmp_path / "elsewhere"
    other.mkdir()
    assert list(ids(verdict(rendered(other, "decode_exhausted", "sglang", "b.log")))) == first
    assert first and all(len(name) == 12 and int(name, 16) >= 0 for name in first)


def test_ids_of_different_failures_differ(tmp_path: Path) -> None:
    found = [next(ids(verdict(rendered(tmp_path, name, "vllm")))) for name in ("warm_up_capture", "load_staging_copy")]
    assert len(set(found)) == 2


def test_ids_within_one_log_differ(tmp_path: Path) -> None:
    text = render_log("warm_up_capture", seed=3) + render_log("load_staging_copy", seed=4)
    (tmp_path / "a.log").write_text(text)
    found = list(ids(verdict(tmp_path / "a.log")))
    assert len(found) == len(set(found)) == 2


def test_the_schema_refuses_what_is_no_verdict(tmp_path: Path) -> None:
    document = verdict(rendered(tmp_path, "warm_up_capture", "vllm"))
    document["incidents"][0]["class"] = "something_else"
    assert list(schema().iter_errors(document))


def test_the_command_gives_the_same_json_from_both(tmp_path: Path) -> None:
    rendered(tmp_path, "prefill_long_prompt", "vllm")
    assert oomctl("import", "a.log", "-o", "a.parquet", cwd=tmp_path).code == 0
    log, parquet = (json.loads(oomctl("triage", name, "--json", cwd=tmp_path).out) for name in ("a.log", "a.parquet"))
    assert log["incidents"] == parquet["incidents"]
    assert log["inputs"][0]["rows"] == parquet["inputs"][0]["rows"]
