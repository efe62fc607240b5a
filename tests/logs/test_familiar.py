"""Lines of which the figures alone are read give the rows that reading them in full gives."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomctl.collectors.artifacts.logs import familiar
from oomctl.collectors.artifacts.logs.familiar import Familiar
from oomctl.schemas.rows import Row
from tests.envelopes.wraps import LINES
from tests.logs.reading import read

REPORTS = (
    "(APIServer pid={p}) INFO 05-{d} 10:{m}:{s} [loggers.py:259] Engine 00{r}: Avg prompt throughput: {a}.{r} tokens/s, "
    "Avg generation throughput: {b}.7 tokens/s, Running: {r} reqs, Waiting: {n} reqs, GPU KV cache usage: {r}.{r}%",
    "(APIServer pid={p}) INFO 05-{d} 10:{m}:{s} [loggers.py:259] Engine 000: Avg prompt throughput: {a}.1 tokens/s, "
    "Avg generation throughput: 0.0 tokens/s, Running: 4 reqs, Waiting: {n} reqs, Preemptions: {r}",
    "[2026-{d}-{d} 10:{m}:{s} TP{r}] Decode batch, #running-req: {n}, #token: {a}{b}, token usage: 0.{m}, "
    "#queue-req: {n}, ",
    "[2026-05-{d} 10:{m}:{s}] Prefill batch, #new-seq: {r}, #new-token: {a}, #cached-token: {n}, token usage: 0.{m}, ",
    "INFO 05-{d} 10:{m}:{s} [core.py:{n}] Iteration({a}): {r} context requests, {n} context tokens, "
    "{r} generation requests, {r} generation tokens",
    "[2026-05-{d} 10:{m}:{s}] token: {a}{b}{p}{a}{b}, got {r} bytes",
)
OTHERS = (
    "Traceback (most recent call last):",
    '  File "/srv/app.py", line {n}, in step',
    "ValueError: {n} is too many",
    "INFO 05-02 10:{m}:{s} [x.py:{n}] prompt: 'see",
    "thanks', params: None",
    "INFO 05-02 10:{m}:{s} [x.py:{n}] shutting down: signal 1{r}",
    "{n} out of memory",
    "(EngineCore pid={p}) INFO 05-02 10:{m}:{s} [core.py:105] Initializing a V1 LLM engine (v0.26.{r}) with config: x=1",
    "Killed",
)
FIGURES = st.fixed_dictionaries(
    {
        "a": st.integers(0, 10**6), "b": st.integers(0, 10**4), "n": st.integers(0, 300), "r": st.integers(0, 9),
        "p": st.sampled_from([840, 841, 9]), "m": st.sampled_from(["00", "07", "59", "61"]),
        "s": st.sampled_from(["01", "42"]), "d": st.sampled_from(["02", "03", "11", "31"]),
    }
)  # fmt: skip
LINE = st.tuples(st.sampled_from([*REPORTS, *REPORTS, *REPORTS, *OTHERS]), FIGURES).map(
    lambda made: made[0].format(**made[1])
)


def both_ways(lines: list[str]) -> tuple[list[Row], list[Row]]:
    log = "".join(f"{line}\n" for line in lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Familiar, "find", lambda *_: None)
        full = read(log)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(familiar, "TRIED", 2)
        return read(log), full


@settings(deadline=None)
@given(st.lists(LINE, max_size=60))
def test_rows_are_those_of_reading_in_full(lines: list[str]) -> None:
    fast, full = both_ways(lines)
    assert fast == full


@pytest.mark.parametrize("wrap", LINES)
def test_rows_in_an_envelope_are_those_of_reading_in_full(wrap: str) -> None:
    rng = random.Random(wrap)
    lines = [LINES[wrap](number, report(rng)) for number in range(1, 120)]
    fast, full = both_ways(lines)
    assert fast == full


def report(rng: random.Random) -> str:
    return rng.choice(REPORTS[:5]).format(
        a=rng.randrange(10**4), b=rng.randrange(10**3), n=rng.randrange(40), r=rng.randrange(3), p=840,
        m=f"{rng.randrange(60):02}", s=f"{rng.randrange(60):02}", d="02",
    )  # fmt: skip


@pytest.mark.parametrize("form", [form for form in REPORTS[:5] if "Preemptions" not in form])
def test_reports_of_one_shape_are_read_in_full_once(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    full = []
    monkeypatch.setattr(Familiar, "learn", lambda self, record, learn=Familiar.learn: full.append(learn(self, record)))
    figures = {"a": 7213, "b": 310, "p": 840, "n": 31, "r": 2, "s": "42", "d": "11"}
    log = "".join(form.format(m=minute, **figures) + "\n" for minute in range(10, 60))
    assert len({row["ts"] for row in read(log)}) == 50
    assert len(full) == 1


def test_a_secret_in_one_of_alike_lines_is_redacted() -> None:
    """GIVEN lines of which the longer number may be a token THEN it does not pass as a count of tokens."""
    lines = [f"[2026-05-02 10:00:0{n}] Decode batch, #running-req: {n}, #token: {n}, " for n in range(3)]
    lines.append("[2026-05-02 10:00:04] Decode batch, #running-req: 1, #token: 1234567890123456, ")
    fast, full = both_ways(lines)
    assert fast == full
    assert "[redacted]" in fast[-2]["log"]["text"]
