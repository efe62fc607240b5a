"""The files of memory options: read strictly, true to themselves, and each option reachable in the version that has it."""

import pytest

from oomctl.analyzers.triage.remedies.engine_files import decode, load, names
from oomctl.analyzers.triage.remedies.options import PLACES, Engine
from oomctl.analyzers.triage.remedies.versions import parse, within
from oomctl.schemas.kinds_memory import COMPONENTS

GOOD = """
engine = "x"
title = "X"
checked = ["1.0", "1.2"]
[[options]]
name = "pool"
kind = "share"
spellings = [{ cli = "--pool", until = "1.0" }, { cli = "--kv-pool", since = "1.2" }]
source = "x.py"
[[options.moves]]
component = "kv_pool"
raised = "more"
less = "Give less."
"""


def engine(name: str) -> Engine:
    found = load(name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", names())
def test_files_hold_what_they_must(name: str) -> None:
    found = engine(name)
    assert found.options
    for option in found.options:
        assert option.source and option.side_effect
        assert {move.component for move in option.moves} <= set(PLACES)
        for version in found.checked:
            spelling = option.spelling(parse(version))
            default = option.default(parse(version))
            assert default is None or spelling is not None, f"{option.name}: a default where {version} has no such option"


def test_every_engine_that_a_log_reader_knows_by_options_has_a_file() -> None:
    assert {"vllm", "sglang", "tgi", "trtllm", "lmdeploy", "llamacpp", "ollama", "transformers"} <= set(names())


def test_places_are_those_of_the_event_table() -> None:
    assert set(PLACES) - {"host"} == set(COMPONENTS)


def test_an_unknown_engine_has_none() -> None:
    assert load("nobody") is None


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('source = "x.py"', 'source = "x.py"\ncolour = "red"', "unknown field `colour`"),
        ('kind = "share"', 'kind = "sheer"', "Invalid enum value 'sheer'"),
        ('component = "kv_pool"', 'component = "kv"', "no component of the event table: 'kv'"),
        ('raised = "more"', 'raised = "more"\npart = "lid"', "no part of kv_pool: 'lid'"),
        ('raised = "more"', 'raised = "more"\ngives = "less"', "either `raised` or `gives`"),
        ('raised = "more"', 'raised = "upwards"', "Invalid enum value 'upwards'"),
        ('raised = "more"', 'gives = "less"', "only a switch needs no `set`"),
        ('until = "1.0"', 'until = "soon"', "no version: 'soon'"),
        ('until = "1.0"', 'since = "1.2", until = "1.0"', "since 1.2 is after until 1.0"),
        ('cli = "--pool", ', "", "needs spellings"),
        ('["1.0", "1.2"]', '["1.2", "1.0"]', "oldest first"),
        ('less = "Give less."', 'less = "Give less"', "not a sentence"),
        ('kind = "share"', 'kind = "share"\noverridden_by = ["lid"]', "overridden_by names no option: 'lid'"),
        ('engine = "x"', 'engine = "y"', "is of engine 'y'"),
        ('engine = "x"', "engine = x", "x.toml: "),
    ],
)
def test_a_file_that_is_wrong_is_refused(before: str, after: str, said: str) -> None:
    assert before in GOOD
    with pytest.raises(ValueError, match=r"^x\.toml: ") as caught:
        decode(GOOD.replace(before, after).encode(), "x")
    assert said in str(caught.value)


def test_spelling_follows_the_version() -> None:
    (option,) = decode(GOOD.encode(), "x").options
    spelled = {version: option.spelling(parse(version)) for version in ("0.9", "1.0.0", "1.1", "1.2rc1", "3", None)}
    assert {version: spelling and spelling.name for version, spelling in spelled.items()} == {
        "0.9": "--pool", "1.0.0": "--pool", "1.1": None, "1.2rc1": "--kv-pool", "3": "--kv-pool", None: "--kv-pool",
    }  # fmt: skip
    printed = option.spelling(None, "pool")
    assert printed is not None and printed.name == "--pool", "what the log printed tells where no version does"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0.14.0", (0, 14)), ("0.14.0rc1", (0, 14)), ("v0.6.4.post1", (0, 6, 4)), ("0.29.1rc1.dev339+gabc", (0, 29, 1)),
        ("b8241", (8241,)), ("0.11.2+cu129", (0, 11, 2)), ("unknown", None), ("", None), (None, None),
    ],
)  # fmt: skip
def test_versions(text: str | None, numbers: tuple[int, ...] | None) -> None:
    assert parse(text) == numbers


def test_ranges_hold_their_ends() -> None:
    assert within((0, 10, 2), "0.10.2", "0.12.0") and within((0, 12), "0.10.2", "0.12.0")
    assert not within((0, 12, 1), None, "0.12.0") and not within((0, 10, 1), "0.10.2", None)
    assert within(None, "0.10.2", None) and not within(None, None, "0.12.0"), "an unknown version counts as the newest"
