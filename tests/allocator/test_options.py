"""Options of `oomctl snapshot`: none is ignored in silence, none takes what PyTorch would refuse."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.allocator.heaps import MIB, block, document, free, segment
from tests.allocator.test_command import A, leaking
from tests.allocator.test_model import fragmented
from tests.cli.run import oomctl


@pytest.mark.parametrize(
    "stray",
    [
        ("diff", "--html", "a.html"),
        ("diff", "--at", "peak"),
        ("--free", "1GiB"),
        ("--room", "1GiB"),
        ("--force",),
    ],
)
def test_an_option_that_would_not_be_read_is_refused(tmp_path: Path, stray: tuple[str, ...]) -> None:
    path = tmp_path / "a.pickle"
    path.write_bytes(pickle.dumps(fragmented().document()))
    option = next(word for word in stray if word.startswith("--"))
    oomctl("snapshot", *stray[: stray.index(option)], str(path), *stray[stray.index(option) :]).assert_fails(2, option)


def test_fit_in_a_private_pool_on_another_stream(tmp_path: Path) -> None:
    path = tmp_path / "a.pickle"
    path.write_bytes(pickle.dumps(document(segment(A, block(MIB), free(50 * MIB), segment_pool_id=(0, 1), stream=7))))
    asked = ("snapshot", "fit", str(path), "--request", "30MiB", "--free", "0", "--json")
    for options, served in ((("--stream", "7", "--pool", "0.1"), "cache"), (("--stream", "7"), None), ((), None)):
        (found,) = json.loads(oomctl(*asked, *options).out)["snapshots"]
        assert found["fit"]["served"] == served
    oomctl(*asked, "--pool", "one").assert_fails(2, "--pool")


def test_what_holds_nothing_is_one_line(tmp_path: Path) -> None:
    empty, full = tmp_path / "empty.pickle", tmp_path / "full.pickle"
    each: list[Any] = [[], document()]
    for nothing in each:
        empty.write_bytes(pickle.dumps(nothing))
        oomctl("snapshot", str(empty)).assert_fails(3, "no segment")
    full.write_bytes(pickle.dumps(document(segment(A, block(MIB)))))
    both = oomctl("snapshot", str(empty), str(full))
    assert both.code == 0 and "no segment" in both.err and "full.pickle" in both.out


def test_growth_of_several_devices_is_a_line_each(tmp_path: Path) -> None:
    path = tmp_path / "a.pickle"
    both = leaking()
    trace = both["device_traces"][0]  # type: ignore[index]
    path.write_bytes(pickle.dumps({**both, "device_traces": [trace, [dict(entry) for entry in trace]]}))
    lines = oomctl("snapshot", "growth", str(path), "--json").out.splitlines()
    assert [json.loads(line)["schema"] for line in lines] == ["oomctl.snapshot_diff/0"] * 2


@pytest.mark.parametrize("size", ["0", "20MiB"])
def test_a_max_split_size_that_pytorch_refuses(tmp_path: Path, size: str) -> None:
    path = tmp_path / "a.pickle"
    path.write_bytes(pickle.dumps(fragmented().document()))
    oomctl("snapshot", "whatif", str(path), "--max-split-size", size).assert_fails(2, "20 MiB")
