"""What users wrote is text, not evidence, however it is echoed; what the engine then says of itself is."""

# ruff: noqa: E501  a line of a log is one line

import pytest

from tests.logs.reading import of_kind, read
from tests.logs.samples import VLLM, lines

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 8.00 GiB of which 1.00 MiB is free."
PASTED = f"""\
Traceback (most recent call last):
  File "/home/me/train.py", line 4, in <module>
    model.cuda()
{OOM}"""
HEAD = "(APIServer pid=71) INFO 03-14 15:12:08 [logger.py:39] Received request a-1: "
PARAMS = ", params: SamplingParams(n=1, temperature=0.7), prompt_token_ids: None."
NEXT = "(APIServer pid=71) INFO 03-14 15:12:09 [async_llm.py:271] Added request a-1.\n"
KILL_NOTE = "The kernel said: Out of memory: Killed process 4121 (python3) total-vm:1kB, anon-rss:900kB"

QUOTED = {
    "one line": f"{HEAD}prompt: '{OOM}'{PARAMS}\n",
    "one line, double quotes": f'{HEAD}prompt: "why do I see {OOM}"{PARAMS}\n',
    "one line, escaped line breaks": f"{HEAD}prompt: 'help!\\n{PASTED}\\nthanks'".replace("\n", "\\n") + f"{PARAMS}\n",
    "several lines": f"{HEAD}prompt: 'why do I see\n{OOM}\nhere?'{PARAMS}\n",
    "several lines, whole traceback": f"{HEAD}prompt: 'why do I see this?\n{PASTED}\nthanks'{PARAMS}\n",
    "traceback closes the quotation": f"{HEAD}prompt: 'why?\n{PASTED}'{PARAMS}\n",
    "apostrophes in words": f"{HEAD}prompt: 'I don't get it, it's\n{OOM}\nand that isn't my card's fault'{PARAMS}\n",
    "escaped quotes": f"{HEAD}prompt: 'I don\\'t get it:\n{OOM}\nis \\'it\\' broken?'{PARAMS}\n",
    "double quotes, apostrophes": f'{HEAD}prompt: "I don\'t get\n{OOM}\nit"{PARAMS}\n',
    "chat messages": f"{HEAD}messages=[{{'role': 'user', 'content': 'see\n{PASTED}\n'}}], temperature=1\n",
    "json body": f'{HEAD}body: {{"messages": [{{"role": "user", "content": "see {OOM}"}}]}}\n',
    "blank lines inside": f"{HEAD}prompt: 'see\n\n{PASTED}\n\n\nthanks'{PARAMS}\n",
    "a kill": f"{HEAD}prompt: 'see\n{KILL_NOTE}\nKilled\nexit code 137\n'{PARAMS}\n",
    "a kill in one line": f"{HEAD}prompt: 'see {KILL_NOTE}'{PARAMS}\n",
    "engine words": f"{HEAD}prompt: 'see\nKV cache pool is full. Retract requests. #retracted_reqs: 3\nModel loading took 3.0 GiB\n'{PARAMS}\n",
    "engine words in one line": f"{HEAD}prompt: 'see KV cache pool is full. Retract requests. #retracted_reqs: 3 and Model loading took 3.0 GiB'{PARAMS}\n",
    "a warning": f"(APIServer pid=71) WARNING 03-14 15:12:08 [a.py:1] rejected, prompt: 'see {OOM}', n=1\n",
    "a warning with a kill": f"(APIServer pid=71) WARNING 03-14 15:12:08 [a.py:1] rejected, prompt: 'see {KILL_NOTE}', n=1\n",
    "a bare line": f"user said: content='{KILL_NOTE}'\n",
    "a handled exception": f'Traceback (most recent call last):\n  File "/srv/a.py", line 1, in f\nKeyError: "content": "{OOM}"\n\n',
    "a quotation in a bare line": f"user: 'see\n{PASTED}\nthanks'\n",
}


@pytest.mark.parametrize("quoted", QUOTED)
def test_quoted_text_gives_nothing(quoted: str) -> None:
    rows = read(QUOTED[quoted] + NEXT)
    assert of_kind(rows, "oom", "refusal", "lifecycle", "stack", "host", "memory") == []
    assert {fields["code"] for fields in of_kind(rows, "fault")} <= {"exception"}


@pytest.mark.parametrize("quoted", QUOTED)
def test_the_real_failure_after_a_quoted_one_is_found(quoted: str) -> None:
    at = lines(VLLM).index(next(line for line in lines(VLLM) if "fatal error" in line))
    before, after = lines(VLLM)[:at], lines(VLLM)[at:]
    rows = read("\n".join(before) + "\n" + QUOTED[quoted] + "\n".join(after) + "\n")
    (failure,) = of_kind(rows, "oom")
    assert failure["requested_bytes"] == 448 * 2**20
    assert len(of_kind(rows, "stack")) == 3


REAL = f"""\
Traceback (most recent call last):
  File "/srv/env/vllm/v1/engine/core.py", line 1099, in run_busy_loop
    self._process_engine_step()
{OOM.replace("20.00 MiB", "48.00 MiB")}
"""


@pytest.mark.parametrize(
    "cut", ["prompt: 'I wonder why", 'prompt: "I wonder why', "prompt: 'why does\nit say out of memory"]
)
@pytest.mark.parametrize("follows", ["", NEXT])
def test_a_prompt_that_is_cut_off_hides_no_traceback(cut: str, follows: str) -> None:
    """GIVEN a quotation that never closes THEN a traceback after it is real."""
    (failure,) = of_kind(read(f"{HEAD}{cut}\n{REAL}{follows}"), "oom")
    assert failure["requested_bytes"] == 48 * 2**20


@pytest.mark.parametrize("follows", ["", NEXT])
def test_a_lone_exception_line_in_a_prompt_that_is_cut_off_is_text(follows: str) -> None:
    assert of_kind(read(f"{HEAD}prompt: 'why do I see\n{OOM}\nhere\n{follows}"), "oom") == []


def test_a_headed_line_ends_a_quotation_that_is_cut_off() -> None:
    rows = read(f"{HEAD}prompt: 'I wonder\n{VLLM}")
    assert len(of_kind(rows, "oom")) == 1
    assert len(of_kind(rows, "memory")) == len(of_kind(read(VLLM), "memory"))


@pytest.mark.parametrize(
    "line",
    [
        '(APIServer pid=71) INFO:     127.0.0.1:40118 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        "(APIServer pid=71) INFO:     Application startup complete.",
    ],
)
@pytest.mark.parametrize("prompt", ["I wonder", "I wonder about memory errors"])
def test_other_processes_lines_end_a_quotation_that_is_cut_off(line: str, prompt: str) -> None:
    """GIVEN a prompt cut off by the log's collector THEN a kill some lines later is still seen."""
    rows = read(f"{HEAD}prompt: '{prompt}\n{line}\nKilled\n")
    assert [fields["phase"] for fields in of_kind(rows, "lifecycle")][-1:] == ["killed"]


def test_an_errors_own_quotation_is_no_prompt() -> None:
    log = f"(APIServer pid=71) ERROR 03-14 15:12:08 [a.py:1] failed, text: 'half a\n{OOM}\n{NEXT}"
    assert len(of_kind(read(log), "oom")) == 1


def test_held_lines_are_bounded() -> None:
    """GIVEN a quotation that never closes THEN a failure far behind it is found all the same."""
    filler = "some plain words of text\n" * 20_000
    (failure,) = of_kind(read(f"{HEAD}prompt: 'I wonder\n{filler}{REAL}"), "oom")
    assert failure["requested_bytes"] == 48 * 2**20
