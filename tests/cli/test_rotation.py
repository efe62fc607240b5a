"""Rotated logs are one stream, oldest file first, and every line is cited where it stands."""

import gzip
import json
import random
import tarfile
import zipfile
from pathlib import Path

import pytest

from oomctl.rotation import sets
from tests.cli.recordings import recording
from tests.cli.run import oomctl
from tests.cli.test_triage import FAILURE, LOG


@pytest.mark.parametrize(
    ("given", "together"),
    [
        (["x.log", "x.log.1", "x.log.2.gz", "x.log.10.gz"], [["x.log.10.gz", "x.log.2.gz", "x.log.1", "x.log"]]),
        (["x.log-20260102.gz", "x.log", "x.log-20260101.gz"], [["x.log-20260101.gz", "x.log-20260102.gz", "x.log"]]),
        (["x.log", "x.log.2026-01-02", "x.log.2026-01-01"], [["x.log.2026-01-01", "x.log.2026-01-02", "x.log"]]),
        (["0.log", "0.log.20260101-120000.gz", "0.log.20260101-110000"], [
            ["0.log.20260101-110000", "0.log.20260101-120000.gz", "0.log"]
        ]),
        (["x-20260102.log", "x.log"], [["x-20260102.log", "x.log"]]),
        (["a/x.log.1", "b/x.log", "a/x.log"], [["a/x.log.1", "a/x.log"], ["b/x.log"]]),
        (["x.log.1", "x.log.2"], [["x.log.1"], ["x.log.2"]]),
        (["worker.1", "worker.2", "worker"], [["worker.1"], ["worker.2"], ["worker"]]),
        (["x.log", "y.log", "-"], [["x.log"], ["y.log"], ["-"]]),
    ],
)  # fmt: skip
def test_which_files_are_one_log(given: list[str], together: list[list[str]]) -> None:
    assert sets(given) == together


def rotated(folder: Path) -> None:
    """A start in the oldest file, its failure over the border of the next two."""
    head, tail = FAILURE.splitlines(keepends=True)[:3], FAILURE.splitlines(keepends=True)[3:]
    (folder / "w.log.2.gz").write_bytes(gzip.compress(LOG.rstrip("\n").encode()))
    (folder / "w.log.1").write_text("".join(head))
    (folder / "w.log").write_text("".join(tail) + "INFO done\n")


@pytest.mark.parametrize("arguments", [["."], ["w.log", "w.log.1", "w.log.2.gz"], ["w.log.1", "w.log*"]])
def test_a_rotated_log_is_told_as_a_whole_one(tmp_path: Path, arguments: list[str]) -> None:
    rotated(tmp_path)
    whole = tmp_path / ".whole"
    whole.mkdir()
    (whole / "w.log").write_text(LOG + FAILURE + "INFO done\n")
    ran = oomctl("triage", *arguments, "--json", cwd=tmp_path)
    assert (ran.code, ran.err) == (0, "")
    told = json.loads(ran.out)
    (entry,) = told["inputs"]
    assert (entry["path"], entry["parts"]) == ("w.log", ["w.log.2.gz", "w.log.1", "w.log"])
    expected = json.loads(oomctl("triage", "w.log", "--json", cwd=whole).out)
    assert entry["lines"] == expected["inputs"][0]["lines"]
    texts = {name: (tmp_path / name).read_bytes() for name in entry["parts"]}
    texts["w.log.2.gz"] = gzip.decompress(texts["w.log.2.gz"])
    cited = [cite for statement in told["incidents"][0]["evidence"] for cite in statement["cites"]]
    assert {cite["file"] for cite in cited} >= {"w.log"}
    for cite in cited:
        assert texts[cite["file"]].decode().split("\n")[cite["line"] - 1] == cite["text"]
    kept = ("class", "verdict", "confidence", "causes")
    before, after = ({name: found["incidents"][0][name] for name in kept} for found in (expected, told))
    assert [cause["cause"] for cause in before.pop("causes")] == [cause["cause"] for cause in after.pop("causes")]
    assert before == after
    page = oomctl("triage", *arguments, cwd=tmp_path).out
    assert "w.log.2.gz, w.log.1, w.log" in " ".join(page.split())


def test_a_part_that_is_damaged_costs_only_itself(tmp_path: Path) -> None:
    rotated(tmp_path)
    (tmp_path / "w.log.2.gz").write_bytes((tmp_path / "w.log.2.gz").read_bytes()[:-6])
    ran = oomctl("triage", ".", "--json", cwd=tmp_path)
    assert ran.err.startswith("oomctl: warning: w.log.2.gz: damaged or cut off: ") and ran.err.count("\n") == 1
    assert [found["verdict"] for found in json.loads(ran.out)["incidents"]] == ["oom"]


def test_recordings_are_not_joined(tmp_path: Path) -> None:
    recording(tmp_path / "x.log", "a")
    recording(tmp_path / "x.log.1", "b")
    ran = oomctl("triage", ".", "--json", cwd=tmp_path)
    assert [entry["format"] for entry in json.loads(ran.out)["inputs"]] == ["parquet", "parquet"]


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_a_rotated_log_in_an_archive_is_told_as_in_a_folder(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "pod"
    folder.mkdir()
    rotated(folder)
    packed = tmp_path / f"p.{kind}"
    names = ["w.log", "w.log.1", "w.log.2.gz"]
    if kind == "zip":
        with zipfile.ZipFile(packed, "w") as archive:
            for name in names:
                archive.write(folder / name, f"pod/{name}")
    else:
        with tarfile.open(packed, "w:gz") as tar:
            for name in names:
                tar.add(folder / name, f"pod/{name}")
    ran = oomctl("triage", packed.name, "--json", cwd=tmp_path)
    assert (ran.code, ran.err) == (0, "")
    (entry,) = json.loads(ran.out)["inputs"]
    assert (entry["path"], entry["parts"]) == (
        f"{packed.name}:pod/w.log", [f"{packed.name}:pod/{name}" for name in reversed(names)]
    )  # fmt: skip
    expected = json.loads(oomctl("triage", ".", "--json", cwd=folder).out)["incidents"]
    told = json.loads(ran.out)["incidents"]
    assert [(item["verdict"], item["class"], item["incarnation"]) for item in told] == [
        (item["verdict"], item["class"], item["incarnation"]) for item in expected
    ]
    through = oomctl("triage", "-", "--json", cwd=tmp_path, stdin=packed.read_bytes())
    assert len(json.loads(through.out)["inputs"]) == 3


def test_an_archive_that_is_cut_off_gives_the_parts_that_it_holds(tmp_path: Path) -> None:
    rotated(tmp_path)
    (tmp_path / "w.log.1").write_bytes(random.Random(1).randbytes(50_000).hex().encode())
    with tarfile.open(tmp_path / "p.tar", "w") as tar:
        for name in ("w.log.2.gz", "w.log", "w.log.1"):
            tar.add(tmp_path / name, name)
    whole = (tmp_path / "p.tar").read_bytes()
    (tmp_path / "p.tar").write_bytes(whole[:40_000])
    ran = oomctl("triage", "p.tar", "--json", cwd=tmp_path)
    assert ran.code == 0 and "cut off" in ran.err
    assert json.loads(ran.out)["inputs"][0]["parts"][0] == "p.tar:w.log.2.gz"
