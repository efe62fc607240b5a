"""Input that is no log, or a hostile one: no traceback, in bounded time and memory, and said so."""

# ruff: noqa: E501  a table has a row a line

import io
import random
from typing import BinaryIO, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomctl.collectors.artifacts.logs import read_log
from oomctl.collectors.artifacts.logs.fact import Fact
from oomctl.schemas import storage
from tests.logs.reading import of_kind, read, reading
from tests.logs.samples import VLLM

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.00 MiB."
MIB = 1 << 20


def noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "empty file"),
        (b"\n", "empty file"),
        (b" \t\r\n" * 100, "empty file"),
        (b"\n" * 100_000, "empty file"),
        (b" " * 3 * MIB, "empty file"),
        (b"\0" * 100, "empty file"),
        *((noise(seed, size), "not a text log") for seed in range(20) for size in (64, 300, 100_000)),
        (b"\x7fELF\x02\x01\x01" + b"\0" * 57 + noise(1, 4000), "not a text log"),
        (b"\x1f\x8b\x08\x00" + noise(2, 4000), "not a text log"),
        (VLLM.encode("utf-16"), "not a text log"),
    ],
)
def test_not_a_log(data: bytes, problem: str) -> None:
    result, rows = reading(data)
    assert (result.problem, rows) == (problem, [])


@pytest.mark.parametrize(
    "data",
    [b"x", b"plain words\n", "Grüße, 世界 █████\n".encode(), b"\x1b[31mred\x1b[0m\n", b"\r\n\r\nx\r\n", b"latin-1: gr\xfc\xdfe " * 50, b"\xef\xbb\xbfx\n"],
)  # fmt: skip
def test_a_log_without_facts(data: bytes) -> None:
    result, rows = reading(data)
    assert (result.problem, rows) == (None, [])
    assert result.bytes == len(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\n" * 50_000 + OOM.encode(),
        b" " * 50_000 + b"\n" + OOM.encode(),
        VLLM.encode().replace(b"acme", b"ac\xff\xfe\xc3("),
        b"\xef\xbb\xbf" + VLLM.encode(),
        VLLM.replace(" ", "\xa0", 3).encode(),
        b"\0\0" + VLLM.encode(),
        b"\0" * 3 * MIB + b"\n" + VLLM.encode(),
    ],
)
def test_a_failure_among_odd_bytes_is_found(data: bytes) -> None:
    result, rows = reading(data)
    assert result.problem is None
    assert len(of_kind(rows, "oom")) == 1
    assert result.bytes == len(data)


HOSTILE = {
    "one line of 10 MB": b"x" * 10 * MIB,
    "one line of 10 MB that is interesting": (b"error memory '" * MIB)[: 10 * MIB],
    "only carriage returns": b"\r" * 3 * MIB,
    "carriage returns and text": b"x\r" * MIB + b"\n",
    "quotes": b"prompt: '" * (MIB // 4) + b"\n",
    "open quotes on each line": b"INFO x prompt: 'error\n" * 20_000,
    "braces": b'{"' * MIB + b"\n",
    "nested json": b'{"log":' * 30_000 + b"1" + b"}" * 30_000 + b"\n",
    "json envelopes in each other": b'{"log": "' * 5000 + b'"}' * 5000 + b"\n",
    "backslashes": b"prompt: '" + b"\\" * 2 * MIB + b"'\n",
    "brackets": b"(" * MIB + b"[" * MIB + b" error\n",
    "escapes": b"\x1b[" * MIB + b"m error\n",
    "digits": b"error " + b"9" * 4 * MIB + b" GiB memory\n",
    "dots": b"Error" + b".a" * 2 * MIB + b": memory\n",
    "spaces": b"Killed" + b" " * 4 * MIB + b"\n",
    "headers": b"INFO 03-14 15:09:26 [a.py:1] " * 50_000 + b"\n",
    "processes": b"(Worker_TP0 pid=1) " * 50_000 + b"error\n",
    "sizes": b"Tried to allocate 1.00 GiB memory " * 50_000 + b"out of memory\n",
    "clauses": b"CUDA out of memory. Tried to allocate 1.00 GiB. " + b"Process 1 has 1.00 GiB memory in use. " * 50_000 + b"\n",
    "frames of one line": b"Traceback (most recent call last):\n" + b'  File "a", line 1, in f\n' * 40_000,
    "tracebacks": b"Traceback (most recent call last):\n" * 40_000,
    "prefixes": b"".join(b"p%dq-x%s: INFO 03-14 15:09:26 [a.py:1] error\nerror\n" % (n, b"z" * (n % 60)) for n in range(10_000)),
    "keys": b"token= " * MIB + b"error\n",
    "urls": b"error ://a:" * (MIB // 2) + b"\n",
    "scheduler dump": b"ERROR 03-14 15:09:26 [a.py:1] Dumping scheduler output: SchedulerOutput(num_scheduled_tokens={" + b"a: 1, " * 200_000 + b"\n",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_input_is_read_to_its_end(name: str) -> None:
    """Each of these once took minutes or for ever; how long they take is for benchmarks, not for a test with a clock."""
    log = HOSTILE[name] + b"\n" + OOM.encode() + b"\n"
    result, _ = reading(log)
    assert result.lines == log.count(b"\n")


def test_a_failure_after_a_line_that_is_too_long() -> None:
    result, rows = reading(b"x" * 10 * MIB + b"\n" + OOM.encode() + b"\n")
    assert [row["line"] for row in rows if row["kind"] == "oom"] == [2]
    (loss,) = of_kind(rows, "loss")
    assert loss["count"] == 1
    assert (result.lines, result.bytes) == (2, 10 * MIB + len(OOM) + 2)


@pytest.mark.parametrize("figure", [10**18, 2**63, 10**400])
def test_a_figure_of_more_than_63_bits_is_none(figure: int) -> None:
    """GIVEN a count that no column holds WHEN the rows are stored THEN it is left out, and what stands beside it is there."""
    line = f'[TensorRT-LLM][INFO] {{"Active Request Count":3,"Iteration Counter":7,"Max KV cache blocks":{figure},"Free KV cache blocks":5,"Tokens per KV cache block":64}}\n'
    with storage.connect() as connection:
        storage.load_rows(connection, read(line))
        pools = connection.execute("SELECT total_blocks, free_blocks FROM kv_pool").fetchall()
        steps = connection.execute("SELECT step_id FROM step").fetchall()
    assert pools == [(figure, 5)] * (figure < 2**63)
    assert steps == [(7,)]
    fact = Fact("kv_pool", {"total_blocks": figure, "free_blocks": 5}, {"device_id": -figure})
    assert fact.fields == ({"total_blocks": figure} if figure < 2**63 else {}) | {"free_blocks": 5}
    assert bool(fact.common) == (figure < 2**63)


@pytest.mark.parametrize("text", ["\\ud800", "\\udfff\\ud800", "a\\u0000b", "\\u2028"])
@pytest.mark.parametrize("key", ["log", "pod"])
def test_rows_from_json_escapes_can_be_written(text: str, key: str) -> None:
    """GIVEN an envelope that escapes half a character THEN its rows can be stored all the same."""
    envelope = {"log": f"{OOM} {text if key == 'log' else ''}", "pod": text if key == "pod" else "x"}
    line = f'{{"log": "{envelope["log"]}", "pod": "{envelope["pod"]}"}}\n'
    rows = read(line)
    assert len(of_kind(rows, "oom")) == 1
    connection = storage.connect()
    assert storage.load_rows(connection, rows) == len(rows)


@settings(deadline=None)
@given(st.binary(max_size=2000))
def test_any_bytes(data: bytes) -> None:
    for log in (data, VLLM.encode()[:500] + data, data + OOM.encode()):
        result = read_log(io.BytesIO(log), "any")
        for row in result.rows:
            msgspec.json.encode(row)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["'", '"', "\n", "prompt: ", "Traceback (most recent call last):\n", '  File "a", line 1, in f\n', OOM, "INFO 03-14 15:09:26 [a.py:1] ", "(W pid=1) ", "\r", "{", "}", "vllm-1  | ", "\x1b[0m", "Killed", "\\"]), max_size=60))  # fmt: skip
def test_any_mixture_of_what_matters(parts: list[str]) -> None:
    for row in read("".join(parts)):
        msgspec.json.encode(row)


class Endless(io.RawIOBase):
    """A stream that never ends; counts what was taken of it."""

    def __init__(self, unit: bytes) -> None:
        super().__init__()
        self._unit = unit
        self.taken = 0

    def read(self, size: int = -1) -> bytes:
        self.taken += size
        return (self._unit * (size // len(self._unit) + 1))[:size]


@pytest.mark.parametrize("unit", [b"\0", b" ", b"\n", b" \r\n"])
def test_white_space_without_end_is_given_up(unit: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oomctl.collectors.artifacts.logs.source.MAX_BLANK_BYTES", 8 * MIB)
    stream = Endless(unit)
    result = read_log(cast(BinaryIO, stream), "endless")
    assert list(result.rows) == []
    assert result.problem == "no text in the first 256 MiB"
    assert stream.taken < 12 * MIB
