"""The wheel holds the four rooms that lie outside src/, and imports where nothing else is installed."""

import importlib.metadata
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests import installed, working_tree

ROOMS = ("collectors", "analyzers", "schemas", "queries")
SHIPPED = (".py", ".md", ".sql", ".toml")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = working_tree.copy_to(tmp_path_factory.mktemp("tree"))
    target = tmp_path_factory.mktemp("wheel")
    setuptools_version = importlib.metadata.version("setuptools")
    if int(setuptools_version.split(".")[0]) >= 77:
        build = ["build", "--wheel", "--no-isolation", "--outdir", str(target), str(tree)]
    else:
        build = ["pip", "wheel", "--no-deps", "-qq", "--wheel-dir", str(target), str(tree)]
    done = subprocess.run([sys.executable, "-m", *build], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def wheel_names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.mark.parametrize("room", ROOMS)
def test_wheel_holds_each_file_of_a_room(room: str, wheel_names: set[str]) -> None:
    expected = {
        f"oomctl/{path.as_posix()}" for path in working_tree.paths() if path.parts[0] == room and path.suffix in SHIPPED
    }
    assert expected, "an empty room proves nothing"
    assert expected - wheel_names == set()


def test_wheel_holds_the_command_the_type_marker_and_the_licence(wheel_names: set[str]) -> None:
    assert {"oomctl/__init__.py", "oomctl/__main__.py", "oomctl/py.typed"} <= wheel_names
    assert "oomctl/config/oomctl.schema.json" in wheel_names
    assert "oomctl/schemas/events.py" in wheel_names
    assert any(name.endswith("licenses/LICENSE") for name in wheel_names)


def test_wheel_holds_nothing_of_the_house_around_it(wheel_names: set[str]) -> None:
    roots = {name.split("/", 1)[0] for name in wheel_names}
    assert {root for root in roots if not root.endswith(".dist-info")} == {"oomctl"}


def test_wheel_is_small_and_asks_for_extras_only_under_their_name(wheel: Path) -> None:
    assert wheel.stat().st_size < installed.MAX_WHEEL_BYTES
    assert {"amdsmi", "shiv", "mkdocs", "vl-convert-python"} <= installed.only_in_extras(wheel)
    assert installed.only_in_extras(wheel).isdisjoint({"duckdb", "polars", "typer"})


def test_wheel_names_both_commands(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        text = archive.read(name).decode("utf-8")
    assert "oomctl = oomctl.cli.app:main" in text
    assert "oomctl-gpu = oomctl.cli.app:main" in text


def test_wheel_imports_without_its_dependencies(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install = ["pip", "install", "--no-deps", "--no-index", "-qq", "--target", str(site), str(wheel)]
    subprocess.run([sys.executable, "-m", *install], check=True, capture_output=True)
    # -S leaves out site-packages: what imports now needs the standard library alone.
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import oomctl, oomctl.schemas.events; print(oomctl.__file__)"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(site)


@pytest.mark.parametrize("room", ROOMS)
def test_build_refuses_a_tree_that_lost_its_symlinks(room: str, tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_bytes((working_tree.ROOT / "setup.py").read_bytes())
    package = tmp_path / "src" / "oomctl"
    package.mkdir(parents=True)
    for other in ROOMS:
        (package / other).mkdir()
    (package / room).rmdir()
    (package / room).write_text(f"../../{room}", encoding="utf-8")  # what core.symlinks=false leaves
    done = subprocess.run(
        [sys.executable, "setup.py", "--version"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"src/oomctl/{room} is not a directory" in done.stderr
    assert "hint: git config core.symlinks true" in done.stderr
    assert "Traceback" not in done.stderr


def test_rooms_are_symlinks_in_the_repository() -> None:
    for room in ROOMS:
        link = working_tree.ROOT / "src" / "oomctl" / room
        assert link.is_symlink()
        assert link.readlink() == Path("..") / ".." / room
