"""What an allocator did not write is refused, or said."""

import json
import pickle
from pathlib import Path

import pytest

from oomctl.collectors.artifacts.torch_snapshot.layout import read_document
from oomctl.schemas.errors import OomctlError
from tests.allocator.heaps import MIB, block, document, free, oom, segment
from tests.cli.run import oomctl


def test_what_overlaps_or_has_gaps_says_so() -> None:
    one, other = segment(1 << 40, block(MIB), free(MIB)), segment((1 << 40) + MIB, block(MIB))
    gap = segment(2 << 40, block(MIB), block(MIB))
    gap["blocks"][1]["address"] += 512
    assert any("overlap" in told for told in read_document(document(one, other), "x", 1 << 20).problems)
    assert any("behind the other" in told for told in read_document(document(gap), "x", 1 << 20).problems)
    assert read_document(document(one, segment(2 << 40, block(MIB))), "x", 1 << 20).problems == []


def test_what_is_named_again_by_reference_is_refused() -> None:
    """A megabyte of references would be a heap of terabytes."""
    one = segment(1 << 40, block(MIB))
    with pytest.raises(OomctlError, match="repeats a segment"):
        read_document(document(one, one), "x", 1 << 20)
    twice = segment(1 << 40, block(MIB))
    twice["blocks"] *= 2
    with pytest.raises(OomctlError, match="repeats a block"):
        read_document(document(twice), "x", 1 << 20)


def test_a_json_document_of_foreign_keys_is_known_by_its_segments(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    heap = segment(1 << 40, block(80 * MIB), free(24 * MIB))
    told = {"by": "us", **document(heap, trace=[oom(64 * MIB, 8 * MIB)])}
    for written in (told, [{"note": "x", **heap}]):
        path.write_text(json.dumps(written))
        kept = tmp_path / "kept.parquet"
        assert oomctl("import", str(path), "-o", str(kept), "--force").code == 0
        assert "pool 0.0" in oomctl("snapshot", str(kept)).out


def test_long_tables_tell_that_they_go_on(tmp_path: Path) -> None:
    path = tmp_path / "a.pickle"
    heap = [
        segment((n + 1) << 40, block(MIB, frames=[{"filename": "a.py", "line": n, "name": f"f{n}"}]), stream=n)
        for n in range(14)
    ]
    path.write_bytes(pickle.dumps(document(*heap)))
    page = oomctl("snapshot", str(path)).out
    assert "2 more pools" in page and "2 more holders" in page


def test_a_stream_of_the_highest_bit_is_one_stream_everywhere() -> None:
    entry = {"action": "alloc", "addr": 1 << 40, "size": MIB, "stream": -2, "frames": []}
    found = read_document(document(segment(1 << 40, block(MIB), stream=-2), trace=[entry]), "x", 1 << 20)
    assert found.segments[0].stream == found.histories[0].streams[0] == 2**63 - 2
