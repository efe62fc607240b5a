"""The page of `oomctl snapshot --html`: complete without a network or a script, small, and it loses no peak."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import bigsnapshot
from oomctl.analyzers.allocator.downsample import envelope
from oomctl.cli.render.heap_svg import _pieces
from oomctl.collectors.artifacts.torch_snapshot.layout import read_document
from tests.allocator.heaps import MIB, block, document, free, segment
from tests.allocator.test_model import fragmented
from tests.browser import Document, needs_browser, opened, pictured
from tests.cli.run import oomctl


@given(st.lists(st.integers(0, 2**50), min_size=1, max_size=500), st.integers(1, 60))
def test_no_peak_and_no_dip_is_lost(values: list[int], spans: int) -> None:
    found = envelope(values, spans)
    assert len(found) <= spans
    assert [n for span in found for n in range(span.first, span.last + 1)] == list(range(len(values)))
    for span in found:
        inside = values[span.first : span.last + 1]
        assert (span.least, span.largest) == (min(inside), max(inside))


def _written(folder: Path, what: dict[str, Any], *options: str) -> str:
    (folder / "a.pickle").write_bytes(pickle.dumps(what))
    ran = oomctl("snapshot", str(folder / "a.pickle"), "--html", str(folder / "a.html"), *options)
    assert ran.code == 0, ran.err
    assert (folder / "a.html").stat().st_mode & 0o777 == 0o600
    return (folder / "a.html").read_text(encoding="utf-8")


def test_map_and_timeline(tmp_path: Path) -> None:
    page = Document(_written(tmp_path, fragmented().document(), "--at", "oom"))
    assert (page.count("rect", "used"), page.count("rect", "hole")) == (4, 4)
    assert (page.count("path", "oom"), page.count("path", "peak"), page.count("svg", "map")) == (1, 1, 1)


def test_nothing_is_loaded_and_nothing_runs(tmp_path: Path) -> None:
    evil = '"><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J'
    frames = [{"filename": evil, "line": 1, "name": evil}]
    page = Document(_written(tmp_path, document(segment(1 << 40, block(20 * MIB, frames=frames), free(20 * MIB)))))
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "img", "link", "iframe", "object"})
    assert not any(name in ("src", "href") or name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert "\x1b" not in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_a_long_history_is_a_small_page(tmp_path: Path) -> None:
    """Its size depends on what can be seen, not on how many events there were."""
    sizes = []
    for events in (5_000, 40_000):
        bigsnapshot.write(tmp_path / "big.pickle", events)
        assert oomctl("snapshot", str(tmp_path / "big.pickle"), "--html", str(tmp_path / "big.html"), "--force").code == 0
        sizes.append((tmp_path / "big.html").stat().st_size)
    assert sizes[1] < 400_000 and sizes[1] < 1.5 * sizes[0]


def test_many_blocks_are_drawn_by_the_pixel(tmp_path: Path) -> None:
    """However many segments and pools share the page."""
    heap = [
        segment((n + 1) << 40, *([block(512), free(1536)] * 200), segment_type="small", stream=n // 30) for n in range(90)
    ]
    assert len(_written(tmp_path, document(*heap))) < 3_000_000


def test_pieces_cover_their_segment() -> None:
    made = read_document(document(segment(4096, *([block(512), free(1536)] * 50), block(9 * MIB), free(512))), "x", 1 << 20)
    (only,) = made.segments
    for grain in (1, 700, 5000, 1e9):
        at = 0
        for _, offset, size, _ in _pieces(only, grain):
            assert offset == at
            at += size
        assert at == only.total_bytes


def test_what_is_there_is_not_written_over(tmp_path: Path) -> None:
    _written(tmp_path, document(segment(1 << 40, free(20 * MIB))))
    heap, page = tmp_path / "a.pickle", tmp_path / "a.html"
    before = heap.read_bytes()
    oomctl("snapshot", str(heap), "--html", str(page)).assert_fails(2, "--force")
    oomctl("snapshot", str(heap), "--html", str(heap), "--force").assert_fails(2, "one of the inputs")
    oomctl("snapshot", str(tmp_path), "--html", str(heap), "--force").assert_fails(2, "one of the inputs")
    assert heap.read_bytes() == before
    page.write_text("old")
    assert oomctl("snapshot", str(heap), "--html", str(page), "--force").code == 0
    assert page.read_text() != "old"


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.pickle").write_bytes(pickle.dumps(document(segment(1 << 40, free(20 * MIB)))))
    oomctl("snapshot", str(tmp_path / "a.pickle"), "--html", str(tmp_path / "no" / "a.html")).assert_fails(
        4, "cannot write"
    )


@pytest.mark.slow
@needs_browser
def test_a_browser_draws_it(tmp_path: Path) -> None:
    """Its console stays empty, and what it holds of the page is the page."""
    _written(tmp_path, fragmented().document(), "--at", "oom")
    dumped, said = opened(tmp_path / "a.html", profile=tmp_path / "profile")
    assert "CONSOLE" not in said
    drawn = Document(dumped)
    assert (drawn.count("rect", "used"), drawn.count("rect", "hole"), drawn.count("svg", "timeline")) == (4, 4, 1)
    pictured(tmp_path / "a.html", tmp_path / "a.png", "--window-size=1300,1200", profile=tmp_path / "profile")
    assert (tmp_path / "a.png").stat().st_size > 20_000
