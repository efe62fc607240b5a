"""The allocator's snapshot at an OOM, in a folder that others may write to."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from oomctl.collectors.agent import observer


def dumped(path: str) -> None:
    """As torch does it: whatever lies there is written over, with the mode that it has or the process's own."""
    Path(path).write_bytes(b"pickle")


def write(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(observer, "_snapshots", 0)
    monkeypatch.setattr("os.getpid", lambda: 4711)
    torch: Any = SimpleNamespace(cuda=SimpleNamespace(memory=SimpleNamespace(_dump_snapshot=dumped)))
    settings: Any = SimpleNamespace(folder=folder)
    observer._write_snapshot(torch, settings)
    return folder / "snapshot-4711-1.pickle"


def test_its_owner_alone_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, monkeypatch)
    assert path.read_bytes() == b"pickle"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_link_that_another_put_there_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "snapshot-4711-1.pickle").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write(tmp_path, monkeypatch)
    assert victim.read_text() == "precious"
