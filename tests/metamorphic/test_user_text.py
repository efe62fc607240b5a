"""What users wrote is never evidence, in whatever line a server repeats it."""

# ruff: noqa: E501  one line of a log is one line here

import pytest

from tests.scenarios import render_log
from tests.triage.logs import triaged

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.00 GiB of which "
    "1.00 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use."
)
OLD = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.90 GiB total capacity; 14.96 GiB already allocated)"
ERROR = "(APIServer pid=700) ERROR 06-03 12:00:00 "
INFO = "(APIServer pid=700) INFO 06-03 12:00:00 "
CORE = "(EngineCore_DP0 pid=801) ERROR 06-03 11:00:00 [core.py:1108] "
PASTED = f'{CORE}Traceback (most recent call last):\n{CORE}  File "/x/vllm/v1/core.py", line 1, in load_model\n{CORE}{OOM}'

LINES = {
    "prompt in an error": f"{ERROR}[serving_chat.py:200] Error in preprocessing prompt inputs for prompt 'please explain: {OOM}'",
    "tool call": f"{ERROR}[hermes_tool_parser.py:120] Error in extracting tool call from response: {OOM}",
    "guillemets": f"{ERROR}[x.py:1] Bad request «{OOM}»",
    "content": f"{ERROR}[x.py:1] content: {OOM}",
    "too long": f"{ERROR}[x.py:1] Prompt too long: {OOM}",
    "truncated": f"(APIServer pid=700) WARNING 06-03 12:00:00 [x.py:1] Truncating prompt (9000 > 8192): {OLD}",
    "template": f"jinja2.exceptions.TemplateError: cannot render message: {OOM}",
    "json": f"json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0) in {OOM}",
    "too many tokens": f"ValueError: This model's maximum context length is 4096 tokens. However, you requested 5000 tokens: '{OLD}'",
    "decoder prompt": f"ValueError: The decoder prompt '{OOM}' is too long",
    "body": f"openai.BadRequestError: Error code: 400 - {{'error': {{'message': '{OOM}', 'type': 'x'}}}}",
    "yaml": f"prompt: |\n  My vllm says\n  {OOM}",
    "chat": f"user: help\n\n{OOM}\n\nassistant: lower it",
    "one line": f"{INFO}[logger.py:43] Received request cmpl-1: prompt: 'why {OOM}?', params: SamplingParams(n=1)",
    "many lines": f"{INFO}[logger.py:43] Received request cmpl-1: prompt: 'why\n{OOM}\n', params: SamplingParams(n=1)",
    "a pasted log": f"{INFO}[logger.py:43] Received request cmpl-1: prompt: 'why\n```\n{PASTED}\n```\n', params: SamplingParams(n=1)",
}
REAL = {
    "wrapped by the loader": f"{CORE}Failed to load model - not enough GPU memory. (original error: {OOM})",
    "passed on by the executor": f"RuntimeError: Worker failed with error '{OOM}', please check the stack trace above for the root cause",
    "the bare line": OOM,
    "an unfinished prompt before it": f"{INFO}[logger.py:43] Received request cmpl-1: prompt: 'why does my\n{PASTED}",
    "triton": f"{CORE}RuntimeError: Triton Error [CUDA]: out of memory",
    "nccl": "gpu:8:9 [1] include/alloc.h:228 NCCL WARN Cuda failure 2 'out of memory'",
    "byte order mark": f"\ufeff{OOM}",
    "written from right to left": f"\u202e{OOM}",
}


def _between(text: str) -> str:
    """A text in the middle of a healthy server's log."""
    healthy = render_log("healthy", seed=4, ranks=1, engine="vllm").splitlines()
    return "\n".join([*healthy, text, *healthy[-4:], ""])


@pytest.mark.parametrize("name", LINES)
def test_repeated_text_is_no_incident(name: str) -> None:
    assert [(found.summary, found.evidence) for found in triaged(_between(LINES[name]))] == []


@pytest.mark.parametrize("name", REAL)
def test_the_engines_own_words_are(name: str) -> None:
    text = REAL[name] if name.startswith(("byte", "written")) else _between(REAL[name])
    assert [found.verdict for found in triaged(text)] == ["oom"]
