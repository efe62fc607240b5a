"""Skipping lines that nobody wants changes nothing that is found."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomctl.collectors.artifacts.logs import interest, registry
from oomctl.collectors.artifacts.logs.interest import FAILURES, MAX_BACK, context
from oomctl.collectors.artifacts.logs.source import RawLines
from oomctl.schemas.rows import Row
from tests import scenarios
from tests.logs.reading import NO_SHARED, facts, of_kind, read, shared_logs
from tests.logs.samples import SAMPLES, lines
from tests.logs.test_quotes import HEAD, OOM

WORDS = sorted({*FAILURES, *registry.literals()})
NOISE = st.text(alphabet=st.characters(blacklist_characters="\n", codec="utf-8"), max_size=40)


def interesting(*found: str) -> list[int]:
    """By both ways of looking, which must agree."""
    chunk = "".join(f"{line}\n" for line in found).encode()
    hits = interest.by_automaton(chunk)
    assert interest.by_text(chunk) == hits
    return hits


@pytest.mark.parametrize("word", WORDS)
def test_each_word_alone_is_interesting(word: str) -> None:
    assert interesting(word) == [0]


@pytest.mark.parametrize("word", [word for word in WORDS if not word.startswith(("MESSAGE", "logtag"))])
def test_no_word_is_one_that_an_envelope_would_write_otherwise(word: str) -> None:
    """JSON writers escape quotes, backslashes, <, > and &, and all beyond ASCII: it must be found in a raw line.

    Keys of envelopes are looked for as each of them writes it.
    """
    assert word.isascii()
    assert not set(word) & set('"\\<>&\n\r\t')


@settings(deadline=None)
@given(st.sampled_from(WORDS), NOISE, NOISE)
def test_a_word_inside_a_line_is_interesting(word: str, before: str, after: str) -> None:
    assert interesting(before + word + after) == [0]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([*WORDS, "dull", ""]), NOISE), max_size=20))
def test_both_ways_of_looking_agree(parts: list[tuple[str, str]]) -> None:
    interesting(*(f"{noise}{word}" for word, noise in parts))


@given(st.binary(max_size=300))
def test_both_ways_of_looking_agree_on_any_bytes(data: bytes) -> None:
    assert interest.by_automaton(data) == interest.by_text(data)


@pytest.mark.parametrize(
    "line", ['INFO:     127.0.0.1:40118 - "POST /v1/chat/completions HTTP/1.1" 200 OK', "some text", ""]
)
def test_ordinary_lines_are_dull(line: str) -> None:
    assert interesting(line) == []


def test_walking_back_stops_at_a_headed_line() -> None:
    found = [b"INFO 03-14 15:12:08 [a.py:1] x", b"one", b"INFO 03-14 15:12:08 [a.py:1] prompt: 'y", b"two", b"hit"]
    assert context(found, 4, 0) == range(2, 4)
    assert context(found, 4, 3) == range(4, 4)
    assert context(found, 2, 0) == range(2, 2)


def test_walking_back_without_a_headed_line_finds_where_a_quotation_may_begin() -> None:
    found = [b"plain", b"user: 'why", b"x = 'y'", b"hit"]
    assert context(found, 3, 0) == range(1, 3)
    assert context([b"plain", b"plain", b"hit"], 2, 0) == range(2, 2)
    assert len(context([b"user: 'why", *[b"plain"] * 2000, b"hit"], 2001, 0)) <= MAX_BACK


@pytest.mark.parametrize("between", [0, 1, 50, 300])
@pytest.mark.parametrize("padding", [0, 2**20 - 200, 2**20 - 100, 2**20])
def test_the_opening_of_a_quotation_is_found_across_reads(between: int, padding: int) -> None:
    """GIVEN a quotation that opens before the end of one read and closes in the next THEN its text is no evidence."""
    filler = ("x" * 99 + "\n") * (padding // 100)
    log = f"{filler}{HEAD}prompt: 'see\n" + "plain words\n" * between + f"{OOM}\nthanks', params: None\n"
    assert of_kind(read(log), "oom") == []


def everything(chunk: bytes) -> list[int]:
    return list(range(chunk.count(b"\n") + (not chunk.endswith(b"\n"))))


def both_ways(log: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Row], list[Row]]:
    fast = read(log)
    with monkeypatch.context() as patch:
        patch.setattr("oomctl.collectors.artifacts.logs.source.of_interest", everything)
        patch.setattr("oomctl.collectors.artifacts.logs.familiar.Familiar.find", lambda *_: None)
        return fast, read(log)


def assert_alike(log: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    fast, slow = both_ways(log, monkeypatch)
    assert facts(fast) == facts(slow)
    assert [row["line"] for row in fast if row["kind"] == "log"] == [row["line"] for row in slow if row["kind"] == "log"]


@pytest.mark.parametrize("engine", SAMPLES)
def test_samples_read_alike_line_by_line(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_alike(SAMPLES[engine].encode(), monkeypatch)


@pytest.mark.parametrize("scenario", [scenario.name for scenario in scenarios.catalogue()])
def test_scenarios_read_alike_line_by_line(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for engine, ranks in (("vllm", 1), ("vllm", 4), ("sglang", 2)):
        assert_alike(scenarios.render_log(scenario, engine=engine, ranks=ranks, seed=ranks).encode(), monkeypatch)


LOGS = shared_logs("oom_logs/logs/*", "engine/*/*.log", "engine/*.log", "vllm_logs/*FAILED.log", "vllm_logs/*tp4*.log")


@pytest.mark.parametrize("path", LOGS or NO_SHARED, ids=lambda path: path and path.stem[:50])
def test_shared_logs_read_alike_line_by_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_alike(path.read_bytes(), monkeypatch)


def test_reads_of_any_size_give_the_same_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a reader whose reads end anywhere THEN the rows are the same."""
    log = SAMPLES["vllm"].encode() + b"\n".join(line.encode() for line in lines(SAMPLES["sglang"]))
    expected = facts(read(log))
    for seed in range(20):
        sizes = random.Random(seed)
        monkeypatch.setattr("oomctl.collectors.artifacts.logs.source.CHUNK_BYTES", sizes.randint(1, 500))
        monkeypatch.setattr("oomctl.collectors.artifacts.logs.source.SNIFF_BYTES", sizes.randint(100, 900))
        assert facts(read(log)) == expected


def test_long_lines_are_counted_and_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    from io import BytesIO

    raw = RawLines(BytesIO(b"one error\n" + b"x" * (3 << 20) + b"\ntwo error\n"))
    found = [line for line in raw.lines_of_interest(lambda: False) if line is not None]
    assert [number for number, _ in found] == [1, 2, 3]
    assert (raw.lines, raw.cut, raw.bytes) == (3, 1, (3 << 20) + 21)
