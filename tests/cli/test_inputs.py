"""Which files the arguments mean, and what becomes of those that cannot be read."""

import os
from pathlib import Path

import pytest

from oomctl.inputs import expand, label
from oomctl.pipeline import open_inputs
from oomctl.schemas.errors import OomctlError
from tests.cli.recordings import recording


def expanded(*paths: object) -> tuple[list[str], list[str]]:
    problems: list[OomctlError] = []
    files = expand([str(path) for path in paths], problems.append)
    return files, [problem.what for problem in problems]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("b.log", "a.log", ".hidden", "pod/c.log", "pod/deep/d.log"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")
    return tmp_path


def test_folder_is_its_files_and_those_of_its_subfolders(tree: Path) -> None:
    files, problems = expanded(tree)
    assert [os.path.relpath(file, tree) for file in files] == ["a.log", "b.log", "pod/c.log"]
    assert problems == []


def test_glob_is_expanded_where_the_shell_did_not(tree: Path) -> None:
    assert expanded(tree / "*.log")[0] == [str(tree / "a.log"), str(tree / "b.log")]
    assert expanded(tree / "*.txt") == ([], [f"no file matches ({tree}/*.txt)"])
    (tree / "x[1].log").write_text("x\n")
    assert expanded(tree / "x[1].log")[0] == [str(tree / "x[1].log")]


def test_a_file_is_read_once_however_it_is_named(tree: Path) -> None:
    (tree / "link.log").symlink_to(tree / "a.log")
    files, _ = expanded(tree / "a.log", tree / "a.log", tree / "pod" / ".." / "a.log", tree / "link.log", "-", "-")
    assert files == [str(tree / "a.log"), "-"]


def test_empty_folder(tmp_path: Path) -> None:
    assert expanded(tmp_path) == ([], [f"no files in folder ({tmp_path})"])
    assert expanded("") == ([], ["an empty path"])


def test_label_is_unicode() -> None:
    assert label("-") == "stdin"
    assert label(os.fsdecode(b"a\xff.log")) == r"a\xff.log"


def test_unreadable_one_among_several_is_told_and_skipped(tmp_path: Path) -> None:
    good = recording(tmp_path / "good.parquet")
    told: list[OomctlError] = []
    loaded = open_inputs([str(tmp_path / "gone"), str(good)], told.append)
    assert [entry.rows for entry in loaded.inputs] == [3]
    assert [error.what for error in told] == [f"no such file ({tmp_path}/gone)"]
    assert loaded.skipped == told


def test_none_readable(tmp_path: Path) -> None:
    told: list[OomctlError] = []
    with pytest.raises(OomctlError, match=r"no such file \(/gone\)"):
        open_inputs(["/gone"], told.append)
    assert told == []
    with pytest.raises(OomctlError, match="none of the 2 inputs"):
        open_inputs(["/gone", "/gone_too"], told.append)
    assert len(told) == 2


def test_two_inputs_with_one_stream_do_not_mix(tmp_path: Path) -> None:
    first = recording(tmp_path / "1.parquet", "worker.log")
    second = recording(tmp_path / "2.parquet", "worker.log", count=5)
    third = recording(tmp_path / "3.parquet", "other.log")
    loaded = open_inputs([str(first), str(second), str(third)])
    assert [entry.rows for entry in loaded.inputs] == [3, 3]
    assert [error.what for error in loaded.skipped] == [f"stream worker.log was already read from another input ({second})"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission_denied(tmp_path: Path) -> None:
    path = tmp_path / "secret.log"
    path.write_text("x\n")
    path.chmod(0)
    with pytest.raises(OomctlError, match="permission denied"):
        open_inputs([str(path)])
