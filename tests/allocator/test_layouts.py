"""Whatever version of PyTorch wrote a snapshot, and in whatever form it is kept: the same heap, and the same verdict."""

import json
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oomctl.analyzers.allocator.fit import Request, fit, oom_request
from oomctl.analyzers.allocator.state import pools, total
from oomctl.collectors.artifacts.torch_snapshot import load_snapshot
from oomctl.collectors.artifacts.torch_snapshot.layout import read_document
from oomctl.schemas.errors import OomctlError
from oomctl.snapshots import HEAD_BYTES, looks_like_snapshot
from tests.allocator.causes import PAIRS
from tests.allocator.heaps import MIB, block, document, free, oom, segment
from tests.allocator.layouts import FORMS, LAYOUTS, laid_out
from tests.allocator.test_reader import Evil
from tests.cli.run import oomctl

NEEDS_POOLS = {"1.x", "1.11", "2.0"}
"""Versions whose snapshots tell no private pool and no expandable segment."""
HELD = ("fragmentation", "other_streams", "other_streams, pending", "exhaustion", "private_pools")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", HELD)
def test_the_verdict_holds_in_every_layout(name: str, layout: str) -> None:
    if name == "private_pools" and layout in NEEDS_POOLS:
        return
    failure = PAIRS[name][0]()
    whole = failure.run.snapshot()
    asked = oom_request(whole, 0)
    assert asked is not None
    read = read_document(laid_out(failure.run.document(), layout), layout, 1 << 30)
    (device,) = read.devices
    found, expected = pools(read, device), pools(whole, 0)
    for figure in ("reserved_bytes", "allocated_bytes", "pending_bytes", "inactive_bytes", "largest_free_block_bytes"):
        assert total(found, figure) == total(expected, figure)
    for pool in found:
        assert pool.reserved_bytes == pool.allocated_bytes + pool.pending_bytes + pool.inactive_bytes
    failed = oom_request(read, device) if read.histories else None
    assert (failed is None) == (layout in ("1.x", "1.11"))
    request = failed or Request(
        request_bytes=asked.request_bytes, stream=asked.stream, device_free_bytes=asked.device_free_bytes
    )
    assert fit(read, msgspec.structs.replace(request, **failure.beside)).cause == failure.cause


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", ["1.11", "2.0", "newest"])
def test_every_form_reads_the_same(tmp_path: Path, layout: str, form: str) -> None:
    told = laid_out(PAIRS["private_pools"][0]().run.document(), layout)
    path = tmp_path / "a"
    path.write_bytes(FORMS[form](told))
    assert load_snapshot(str(path), "x") == read_document(told, "x", 1 << 30)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_triage_knows_every_form_for_a_snapshot(layout: str) -> None:
    told = laid_out(PAIRS["private_pools"][0]().run.document(), layout)
    for form, write in FORMS.items():
        if "gz" not in form and "zst" not in form:
            assert looks_like_snapshot(write(told)[:HEAD_BYTES]), form


@pytest.mark.parametrize(
    "head", [b"", b"(EngineCore pid=7) INFO", b"[2026] x", b'{"level": "info"}', b'[{"device": "cuda:0"}]']
)
def test_a_log_is_no_snapshot(head: bytes) -> None:
    assert not looks_like_snapshot(head)


def test_a_folder_of_ranks_in_different_forms(tmp_path: Path) -> None:
    for rank, (form, layout) in enumerate(zip(FORMS, [*LAYOUTS, *LAYOUTS], strict=False)):
        told = laid_out(PAIRS["fragmentation"][0]().run.document(), layout)
        (tmp_path / f"rank_{rank}.snapshot").write_bytes(FORMS[form](told))
    ran = oomctl("snapshot", str(tmp_path), "--by", "rank", "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)["snapshots"]
    assert sorted(one["rank"] for one in found) == list(range(len(FORMS)))
    assert {one["reserved_bytes"] for one in found} == {4 * 44 * MIB}


@pytest.mark.parametrize("form", ["pickle 2", "pickle 4", "pickle.gz", "pickle.zst", "json", "json.gz", "json.zst"])
def test_cut_at_every_byte(tmp_path: Path, form: str) -> None:
    frame = {"filename": "a.py", "line": 1, "name": "f"}
    data = FORMS[form](document(segment(4096, block(512, frames=[frame]), free(512)), trace=[oom(512, 0)]))
    path = tmp_path / "a"
    for end in range(len(data)):
        path.write_bytes(data[:end])
        with pytest.raises(OomctlError) as caught:
            load_snapshot(str(path))
        assert "\n" not in caught.value.what


def _places(part: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Ways to every value in a document."""
    inner = part.items() if type(part) is dict else enumerate(part) if type(part) is list else ()
    return [way] * bool(way) + [place for key, value in inner for place in _places(value, (*way, key))]


def test_a_payload_in_place_of_any_value_is_refused(tmp_path: Path) -> None:
    mark, path = tmp_path / "ran", tmp_path / "a"
    told = laid_out(document(segment(4096, block(512), free(512)), trace=[oom(512, 0)]), "newest")
    places = _places(told)
    assert len(places) > 40
    for protocol in (0, 2, 4):
        for *way, last in places:
            bad = pickle.loads(pickle.dumps(told))
            at = bad
            for key in way:
                at = at[key]
            at[last] = Evil(mark)
            path.write_bytes(pickle.dumps(bad, protocol=protocol))
            with pytest.raises(OomctlError, match="refused"):
                load_snapshot(str(path))
    assert not mark.exists()
