"""What stands below a failure: answers of a server that caught it; and output that pytest had captured."""

import pytest

from oomctl.collectors.artifacts.logs.answers import WATCHED
from tests.logs.reading import of_kind, read
from tests.triage.logs import first, triaged

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.65 GiB."
START = "INFO:     Uvicorn running on http://0.0.0.0:9000\n"
ANSWER = 'INFO:     10.0.0.1:4444 - "POST /generate HTTP/1.1" 200 OK\n'


@pytest.mark.parametrize(
    ("below", "survived"),
    [
        (ANSWER, True),
        ("bye\n" * (WATCHED - 2) + ANSWER, True),
        ('127.0.0.1 - - [05/May/2026 10:00:00] "POST /v1/chat HTTP/1.1" 200 -\n', True),
        ('INFO:     10.0.0.1:4444 - "POST /generate HTTP/1.1" 500 Internal Server Error\n', None),
        ('INFO:     10.0.0.1:4444 - "GET /health HTTP/1.1" 200 OK\n', None),
        ("", None),
        ("bye\n" * WATCHED + ANSWER, None),
        (ANSWER + "Killed\n", False),
    ],
)
def test_an_answer_below_shows_that_a_plain_server_went_on(below: str, survived: bool | None) -> None:
    found = first(f"{START}ERROR {OOM}\n{below}")
    assert (found.verdict, found.survived) == ("oom", survived)


def test_an_answer_above_shows_nothing() -> None:
    assert first(f"{START}{ANSWER}ERROR {OOM}\n").survived is None


def test_an_engine_answers_while_its_core_dies() -> None:
    core = "(EngineCore pid=3) INFO 07-02 09:14:01 [core.py:105] Initializing a V1 LLM engine (v0.14.0) with config: x\n"
    assert first(f"{core}ERROR 07-02 09:15:01 [core.py:842] {OOM}\n{ANSWER}").survived is None


def test_only_lines_below_a_failure_are_looked_at() -> None:
    assert read(START + ANSWER * 500)[-1]["line"] == 1
    rows = read(f"ERROR {OOM}\n" + ANSWER * 500)
    assert [row["line"] for row in rows if row["kind"] == "lifecycle"] == [2]


SESSION = """\
============================= test session starts ==============================
tests/test_oom.py::test_raises {result}                            [ 33%]
------------------------------ Captured stderr call ----------------------------
{oom}
tests/test_oom.py::test_other PASSED                               [100%]
============================== 2 passed in 0.12s ===============================
"""


def test_captured_output_of_a_test_that_passed_is_none_of_the_engine() -> None:
    assert triaged(SESSION.format(result="PASSED", oom=OOM)) == []
    assert first(SESSION.format(result="FAILED", oom=OOM)).verdict == "oom"
    passes = f"=== PASSES ===\n____ test_x ____\n---- Captured stdout call ----\n{OOM}\n=== 1 passed in 1.00s ===\n{OOM}\n"
    assert [row["line"] for row in read(passes) if row["kind"] == "oom"] == [6]
    assert len(of_kind(read(passes.replace("PASSES", "FAILURES")), "oom")) == 2


def test_an_engine_that_says_so_below_its_message_is_dead() -> None:
    head = "(EngineCore pid=77) ERROR 11-20 01:01:04 [core.py:842] "
    log = f'{head}Traceback (most recent call last):\n{head}  File "/opt/vllm/v1/x.py", line 4, in f\n{head}{OOM}\n'
    found = first(f"{log}{head}EngineCore failed to start.\n")
    assert found.survived is False
