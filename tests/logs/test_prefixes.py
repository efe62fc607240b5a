"""A log says the same whatever stands before its lines and whatever they are wrapped in."""

import json
import re
from collections.abc import Callable

import pytest

from oomctl.collectors.artifacts.logs.objects import open_envelope
from oomctl.collectors.artifacts.logs.prefixes import Prefixes, template_of
from tests.logs.reading import facts, of_kind, read
from tests.logs.samples import SAMPLES, SGLANG, VLLM, lines

PREFIXES: dict[str, Callable[[int], str]] = {
    "docker compose": lambda n: "vllm-1  | ",
    "syslog": lambda n: f"Nov 30 12:{n // 60:02d}:{n % 60:02d} gpu-07 vllm[2211]: ",
    "journalctl iso": lambda n: f"2026-11-30T12:{n // 60:02d}:{n % 60:02d}+0100 gpu-07 python3[2211]: ",
    "cri": lambda n: f"2026-08-18T09:12:{n:02d}.123456789Z stderr F ",
    "cri, both streams": lambda n: f"2026-08-18T09:12:{n:02d}.1234{n:05d}Z {('stdout', 'stderr')[n % 2]} F ",
    "kubectl": lambda n: "[pod/x-7c9f4/vllm] ",
    "stern": lambda n: "x-7c9f4 vllm ",
    "tsv": lambda n: f"{n}\tworker-{n % 3}\t",
    "invented": lambda n: "zz~41> ",
    "invented, counting": lambda n: f"<<{n * 37}:q>> ",
}


def prefixed(log: str, prefix: Callable[[int], str]) -> str:
    return "".join(prefix(number) + line + "\n" for number, line in enumerate(lines(log)))


def coloured(log: str) -> str:
    """As vLLM colours the process and the level on a terminal."""
    text = re.sub(r"^(\([^)]*\))", "\x1b[0;36m\\1\x1b[0;0m", log, flags=re.MULTILINE)
    return re.sub(r"\b(INFO|ERROR)\b", "\x1b[1;32m\\1\x1b[0m", text)


def enveloped(log: str, wrap: Callable[[str], dict[str, object]]) -> str:
    return "".join(json.dumps(wrap(line)) + "\n" for line in lines(log))


ENVELOPES: dict[str, Callable[[str], dict[str, object]]] = {
    "docker json-file": lambda line: {"log": line + "\n", "stream": "stderr", "time": "2026-08-18T09:12:02.123456789Z"},
    "fluentd": lambda line: {"message": line, "container_id": "9f1c", "source": "stderr"},
    "cloud logging": lambda line: {"textPayload": line, "timestamp": "2026-08-18T09:12:02Z", "severity": "ERROR"},
    "cloud logging, json": lambda line: {"jsonPayload": {"message": line}, "timestamp": "2026-08-18T09:12:02Z"},
    "journald": lambda line: {"MESSAGE": line, "__REALTIME_TIMESTAMP": "1787000000000000", "PRIORITY": "3"},
}


@pytest.mark.parametrize("engine", SAMPLES)
def test_the_samples_tell_what_the_tests_below_compare(engine: str) -> None:
    rows = read(SAMPLES[engine])
    kinds = {row["kind"] for row in rows}
    assert {"manifest", "lifecycle", "memory", "kv_pool", "graph", "oom", "stack", "fault", "log"} <= kinds
    assert len(of_kind(rows, "oom")) == 1
    assert len(of_kind(rows, "stack")) == 3


@pytest.mark.parametrize("engine", SAMPLES)
@pytest.mark.parametrize("prefix", PREFIXES)
def test_prefix(engine: str, prefix: str) -> None:
    assert facts(read(prefixed(SAMPLES[engine], PREFIXES[prefix]))) == facts(read(SAMPLES[engine]))


@pytest.mark.parametrize("engine", SAMPLES)
@pytest.mark.parametrize("envelope", ENVELOPES)
def test_envelope(engine: str, envelope: str) -> None:
    assert facts(read(enveloped(SAMPLES[engine], ENVELOPES[envelope]))) == facts(read(SAMPLES[engine]))


@pytest.mark.parametrize("engine", SAMPLES)
def test_prefix_before_envelope(engine: str) -> None:
    log = prefixed(enveloped(SAMPLES[engine], ENVELOPES["fluentd"]), PREFIXES["docker compose"])
    assert facts(read(log)) == facts(read(SAMPLES[engine]))


@pytest.mark.parametrize("engine", SAMPLES)
def test_colours(engine: str) -> None:
    assert facts(read(coloured(SAMPLES[engine]))) == facts(read(SAMPLES[engine]))


@pytest.mark.parametrize("engine", SAMPLES)
def test_coloured_prefix(engine: str) -> None:
    log = prefixed(coloured(SAMPLES[engine]), lambda n: "\x1b[33mvllm-1  | \x1b[0m")
    assert facts(read(log)) == facts(read(SAMPLES[engine]))


@pytest.mark.parametrize("engine", SAMPLES)
def test_crlf(engine: str) -> None:
    assert facts(read(SAMPLES[engine].replace("\n", "\r\n"))) == facts(read(SAMPLES[engine]))


@pytest.mark.parametrize("engine", SAMPLES)
@pytest.mark.parametrize("prefix", [None, "docker compose", "cri", "invented"])
def test_without_the_engines_time_stamps(engine: str, prefix: str | None) -> None:
    """GIVEN headers without times THEN all facts are the same."""
    log = re.sub(r"(?m)^(\(\S+ pid=\d+\) [A-Z]+ )\d\d-\d\d \d\d:\d\d:\d\d ", r"\1", SAMPLES[engine])
    log = re.sub(r"(?m)^\[2026-03-14 \d\d:\d\d:\d\d (TP\d)\]", r"[\1]", log)
    log = re.sub(r"(?m)^\[2026-03-14 \d\d:\d\d:\d\d\] ", "", log)
    assert not re.search(r"\d\d:\d\d:\d\d", log)
    if prefix is not None:
        log = prefixed(log, PREFIXES[prefix])
    assert facts(read(log)) == facts(read(SAMPLES[engine]))


def test_times_of_envelope_and_prefix_are_exact_where_they_name_a_zone() -> None:
    for log in (
        enveloped(SGLANG, ENVELOPES["docker json-file"]),
        prefixed(SGLANG, lambda n: "2026-08-18T09:12:02.123456789Z stderr F "),
    ):
        rows = read(log)
        assert {(row["ts"], row["ts_quality"]) for row in rows if row["kind"] != "loss"} == {(1787044322123456, "exact")}


def test_engines_own_times_are_local() -> None:
    row = next(row for row in read(VLLM) if row["kind"] == "memory")
    assert (row["ts"], row["ts_quality"]) == (953046580000000, "local"), "2000-03-14 15:09:40: no year is printed"
    row = next(row for row in read(SGLANG) if row["kind"] == "memory")
    assert (row["ts"], row["ts_quality"]) == (1773500981000000, "local")


def test_worker_and_node_of_an_envelope() -> None:
    place = {"pod_name": "otter-5d9-x2", "host": "gpu-07"}
    log = enveloped(VLLM, lambda line: {"log": line, "kubernetes": place})
    assert {(row["worker"], row["node"]) for row in read(log)} == {("otter-5d9-x2", "gpu-07")}


def test_two_workers_in_one_stream_do_not_share_tracebacks() -> None:
    pods = [enveloped(SGLANG, lambda line, pod=pod: {"log": line, "pod": pod}) for pod in ("a", "b")]  # type: ignore[misc]
    mixed = "\n".join(line for pair in zip(*map(lines, pods), strict=True) for line in pair) + "\n"
    rows = read(mixed)
    assert [row["worker"] for row in rows if row["kind"] == "oom"] == ["a", "b"]
    assert [len(of_kind([row for row in rows if row["worker"] == pod], "stack")) for pod in "ab"] == [3, 3]


@pytest.mark.parametrize(
    "line",
    [
        "{", "{}", "[]", '{"log": 3}', '{"log": null}', '{"jsonPayload": []}', "{" * 5000 + "}", '{"log": "x"',
        '{"a": {"log": "x"}}',
    ],
)  # fmt: skip
def test_not_an_envelope(line: str) -> None:
    assert open_envelope(line) is None


def test_template_keeps_words_and_frees_numbers() -> None:
    template = re.compile(template_of("Nov 30 12:00:01 gpu-07 vllm[2211]: "))
    assert template.match("Dec  1 00:59:59 gpu-12 vllm[9]: x")
    assert not template.match("Nov 30 12:00:01 gpu-07 sshd[2211]: x")


def test_a_stripped_line_keeps_its_indentation() -> None:
    prefixes = Prefixes()
    prefixes.learn("vllm-1  | ")
    parts = prefixes.strip
    assert parts('vllm-1  |   File "x.py", line 1, in f') == ("vllm-1  | ", '  File "x.py", line 1, in f')
    assert parts("vllm-1  |") == ("vllm-1  |", "")
    assert parts("other") == ("", "other")
