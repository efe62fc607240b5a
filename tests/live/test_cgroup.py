"""Memory cgroups as found on hosts of either version, in containers, and where none is to be seen."""

from pathlib import Path

import pytest

from oomctl.collectors.live.host.cgroup import Cgroups, binding
from tests.live.fakes import GIB, FakeHost


@pytest.mark.parametrize("version", [1, 2])
def test_the_figures_of_either_version(tmp_path: Path, version: int) -> None:
    host = FakeHost(tmp_path, version)
    host.cgroup("/")
    host.cgroup("/pod/box", current=3 * GIB, limit=4 * GIB, kills=2)
    host.process(7, "/pod/box")
    level = Cgroups(tmp_path).of(7)[0]
    assert (level.name, level.current_bytes, level.limit_bytes, level.oom_kills) == ("/pod/box", 3 * GIB, 4 * GIB, 2)
    assert level.peak_bytes == 3 * GIB + 1
    assert level.pressure_ratio == (0.125 if version == 2 else None)


@pytest.mark.parametrize("version", [1, 2])
def test_the_least_limit_above_it_binds(tmp_path: Path, version: int) -> None:
    host = FakeHost(tmp_path, version)
    for path, limit in (("/", None), ("/pod", 2 * GIB), ("/pod/box", 4 * GIB)):
        host.cgroup(path, limit=limit)
    host.process(7, "/pod/box")
    levels = Cgroups(tmp_path).of(7)
    assert [level.name for level in levels] == ["/pod/box", "/pod", "/"]
    bound = binding(levels)
    assert bound is not None and bound.name == "/pod"


def test_without_a_limit_its_own_counts(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.cgroup("/")
    host.cgroup("/box")
    host.process(7, "/box")
    bound = binding(Cgroups(tmp_path).of(7))
    assert bound is not None and (bound.name, bound.limit_bytes) == ("/box", None)


def test_inside_a_container_the_mount_is_its_own_cgroup(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, version=1, top="/docker/abc")
    host.cgroup("/", current=5)
    host.process(7, "/docker/abc")
    assert [level.current_bytes for level in Cgroups(tmp_path).of(7)] == [5]


@pytest.mark.parametrize(("version", "path"), [(2, "/../other"), (2, "/not/there"), (1, "/gone"), (0, "/")])
def test_what_cannot_be_seen_is_none(tmp_path: Path, version: int, path: str) -> None:
    host = FakeHost(tmp_path, version)
    host.process(7, path)
    assert Cgroups(tmp_path).of(7) == []
    assert Cgroups(tmp_path).of(8) == []


def test_strange_files_are_none(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    folder = host.cgroup("/")
    host.process(7, "/")
    for name in ("memory.current", "memory.max", "memory.events", "memory.pressure"):
        (folder / name).write_bytes(b"\xff\xfe some avg10=much\nsome avg10=x\n oom_kill\n")
    (level,) = Cgroups(tmp_path).of(7)
    assert (level.current_bytes, level.limit_bytes, level.oom_kills, level.pressure_ratio) == (None, None, None, None)
