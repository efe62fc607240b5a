"""The ring's layout says the same as the event table."""

import math

import pytest

from oomctl.collectors.agent import kinds, layout
from oomctl.schemas.events import FIELD_NAMES, KINDS

TYPES = {"i": "int", "q": "int", "f": "float"}


@pytest.mark.parametrize("kind", kinds.KINDS.values(), ids=lambda kind: kind.name)
def test_each_value_is_a_field_of_the_event_table(kind: layout.RecordKind) -> None:
    names = [value.name for value in kind.values] + list(kind.texts)
    assert len(set(names)) == len(names)
    assert {name for name in names if (kind.name, name) not in kinds.RING_ONLY} <= FIELD_NAMES[kind.name]


@pytest.mark.parametrize("kind", kinds.KINDS.values(), ids=lambda kind: kind.name)
def test_each_value_has_the_type_of_its_field(kind: layout.RecordKind) -> None:
    fields = {field.name: field for field in KINDS[kind.name].fields}
    for value in kind.values:
        if (kind.name, value.name) in kinds.RING_ONLY:
            continue
        field = fields[value.name]
        if value.values == layout.FLAG:
            assert field.type == "bool"
        elif value.values:
            assert field.type == "text"
            assert not field.values or field.values == value.values, f"{value.name}: the enumerations differ"
        else:
            assert field.type == TYPES[value.format]
    assert all(fields[name].type == "text" for name in kind.texts)


def test_enumerations_fit_their_byte() -> None:
    for kind in kinds.KINDS.values():
        for value in kind.values:
            assert bool(value.values) == (value.format == "B")
            assert len(value.values) < layout.NULL_U8


def test_codes_are_unique_and_kept() -> None:
    # A code is in files of old workers: it never changes its meaning.
    assert {kind.name: code for code, kind in kinds.KINDS.items()} == {
        "step": 1, "kv_pool": 2, "request": 3, "lifecycle": 4, "graph": 5, "allocator": 6, "device": 7, "host": 8,
        "memory": 9, "adapter": 10, "transfer": 11, "oom": 12, "fault": 13, "stack": 14, "manifest": 15, "collector": 16,
    }  # fmt: skip


def test_header_leaves_its_counters_alone() -> None:
    assert layout.HEADER.size + layout.CHECKSUM.size <= layout.CONTROL_OFFSET < layout.STATE_OFFSET < layout.DROPPED_OFFSET
    assert layout.ERRORS_OFFSET + layout.COUNTER.size <= layout.HEADER_BYTES
    assert len(layout.HEADER_FIELDS) == len(layout.HEADER.unpack(bytes(layout.HEADER.size)))


def test_usual_request_ids_need_no_second_slot() -> None:
    request_id = "cmpl-" + "0" * 32 + "-0-" + "0" * 8
    assert len(layout.pack_texts(request_id)) <= kinds.REQUEST.room


@pytest.mark.parametrize("texts", [(), ("a",), (None, "b"), ("", None, "käse"), ("x" * 70_000,)], ids=str)
def test_texts_come_back(texts: tuple[str | None, ...]) -> None:
    found = layout.unpack_texts(layout.pack_texts(*texts) + bytes(9), 4)
    assert found == [text and text[:0xFFFE] for text in texts] + [None] * (4 - len(texts))


def test_a_cut_tail_gives_what_it_has() -> None:
    tail = layout.pack_texts("first", "second", "third")
    assert layout.unpack_texts(tail[:12], 3) == ["first", "sec", None]
    assert layout.unpack_texts(tail[:1], 3) == [None, None, None]


def test_nulls() -> None:
    assert kinds.STEP.nulls == (layout.NULL_I64, *(layout.NULL_I32,) * 7, layout.NULL_U8)
    assert math.isnan(kinds.REQUEST.nulls[2])
