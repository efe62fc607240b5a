"""How the real engine is installed, on package indexes that hold next to nothing."""

import zipfile
from pathlib import Path

import pytest

from tests.engine import install


def wheel(folder: Path, name: str) -> None:
    """A package of nothing, version 1.0."""
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the only place where pip looks; the lock file asks for two packages."""
    lock = tmp_path / "lock.txt"
    lock.write_text("first==1.0\nsecond==1.0\n")
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setattr(install, "LOCK", lock)
    settings = {
        "XDG_CACHE_HOME": str(tmp_path / "cache"), "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder),
    }  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return folder


@pytest.mark.slow
def test_nothing_installed_and_no_index_is_told_from_a_lock_that_cannot_be_met(
    index: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert install.main() == install.UNREACHABLE
    assert "no package index answers" in capfd.readouterr().err
    wheel(index, "first")
    assert install.main() == 1
    output = capfd.readouterr()
    assert "cannot install the engine" in output.err
    assert output.out == ""
    assert not (install.folder() / ".installed").exists()


def test_what_is_installed_is_used_without_asking_anybody(index: Path, capfd: pytest.CaptureFixture[str]) -> None:
    at = install.folder()
    (at / "bin").mkdir(parents=True)
    for name in (".installed", "bin/python"):
        (at / name).touch()
    assert install.main() == 0
    assert capfd.readouterr().out == f"{at}\n"


def test_another_lock_is_another_engine(index: Path) -> None:
    before = install.folder()
    install.LOCK.write_text("first==2.0\n")
    assert install.folder() != before
