"""Which lines tell their figures by place alone: those of which a rule makes nothing but numbers of the line."""

import pytest

from oomctl.collectors.artifacts.logs import registry
from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.templates import Part, template
from tests.logs.reading import read

DECODE = (
    "Decode batch. #running-req: 17, #token: 20480, token usage: 0.31, gen throughput (token/s): 912.55, #queue-req: 3, "
)
THROUGHPUT = (
    "Avg prompt throughput: 812.4 tokens/s, Avg generation throughput: 96.1 tokens/s, Running: 5 reqs, Waiting: 1 reqs, "
    "GPU KV cache usage: 41.7%, Prefix cache hit rate: 2.0%"
)


def parts_of(text: str, before: str = "[head] ") -> tuple[Part, ...] | None:
    record = Record(1, before + text, text)
    return template(record, list(registry.facts(record)))


@pytest.mark.parametrize("text", [DECODE, THROUGHPUT])
def test_figures_are_read_by_their_places(text: str) -> None:
    parts = parts_of(text)
    assert parts is not None
    other = text.translate(str.maketrans("0123456789", "9081726354"))
    facts = [fact for _, fact in registry.facts(Record(1, other, other))]
    assert [(part.kind, part.fields("[head] " + other)) for part in parts] == [(fact.kind, fact.fields) for fact in facts]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{THROUGHPUT}, Preemptions: 2", id="a number that decides whether there is a fact"),
        pytest.param(
            "Iteration(7): 2 context requests, 512 context tokens, 3 generation requests, 3 generation tokens", id="a sum"
        ),
        pytest.param("Loading checkpoint shards:  50%|#####     | 1/2", id="a rule that asks for a certain number"),
        pytest.param(DECODE.replace("20480", "20480204802048020480"), id="a number that is cut"),
        pytest.param("nothing that a rule knows: 5", id="no fact"),
    ],
)
def test_what_is_more_than_a_number_has_no_template(text: str) -> None:
    assert parts_of(text) is None


def test_the_engine_counts_as_known_by_such_lines() -> None:
    line = "[2026-05-02 10:{m:02}:00 TP0] Decode batch. #running-req: 1{m:02}, #token: 20480, token usage: 0.31, \n"
    rows = read("".join(line.format(m=minute) for minute in range(60)))
    assert [row["step"]["running_requests"] for row in rows if row["kind"] == "step"] == [*range(100, 160)]
    assert [row["seq"] for row in rows] == [*range(1, len(rows) + 1)]
