"""What may not be kept is nowhere in the rows; what may is kept as it stands."""

# ruff: noqa: E501  a line of a log is one line

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomctl.collectors.artifacts.logs.redact import redact
from tests.logs.reading import read
from tests.logs.samples import SAMPLES, lines

KEY = "Zq9rT4mW8xK2pL6vN3bY7c"
SECRETS = {
    "hugging face": f"hf_{KEY}",
    "openai": f"sk-{KEY}",
    "openai, project": f"sk-proj-{KEY}",
    "github": f"ghp_{KEY}",
    "aws": "AKIAZQ9RT4MW8XK2PL6V",
    "slack": f"xoxb-{KEY}",
    "jwt": f"eyJhbGciOiJIUzI1NiJ9.{KEY}.{KEY}",
    "api_key=": f"api_key={KEY}",
    "--api-key": f"--api-key {KEY}",
    "'api_key':": f"'api_key': '{KEY}'",
    "list": f"'api_key': ['{KEY}']",
    "json": f'"api_key": "{KEY}"',
    "escaped json": f'{{\\"api_key\\": \\"{KEY}\\"}}',
    "bearer": f"Authorization: Bearer {KEY}",
    "header dict": f"{{'authorization': 'Bearer {KEY}'}}",
    "password": f"password={KEY}!",
    "token": f"HF_TOKEN={KEY}",
    "secret": f"AWS_SECRET_ACCESS_KEY={KEY}+/x",
    "url": f"https://me:{KEY}@registry.example/x",
    "url without a user": f"redis://:{KEY}@cache.example/0",
    "bearer alone": f"Bearer {KEY}",
    "basic": f"Authorization: Basic {KEY}==",
    "--hf-token": f"--hf-token {KEY}",
    "github, fine-grained": f"github_pat_{KEY}",
    "gitlab": f"glpat-{KEY}",
    "google": f"AIza{KEY}{KEY}",
    "nvidia": f"nvapi-{KEY}",
    "groq": f"gsk_{KEY}",
    "environment dump": f"environ({{'MY_TOKEN': '{KEY}', 'X': '1'}})",
    "password with a space": f"'password': 'correct {KEY} battery'",
    "private key in a line": f"-----BEGIN RSA PRIVATE KEY-----\\n{KEY}\\n-----END RSA PRIVATE KEY-----",
}
PLACES = {
    "a warning": "(APIServer pid=71) WARNING 03-14 15:09:26 [a.py:9] {}",
    "an error": "(APIServer pid=71) ERROR 03-14 15:09:26 [a.py:9] failed with {}",
    "a lone exception": "RuntimeError: out of memory: CUDA out of memory. Tried to allocate 1.00 GiB. {}",
    "a traceback": 'Traceback (most recent call last):\n  File "/srv/a.py", line 1, in f\n    call({0})\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. {0}',
    "a handled exception": 'Traceback (most recent call last):\n  File "/srv/a.py", line 1, in f\n    call({0})\nHTTPError: {0}',
    "a refusal": "(EngineCore pid=71) ERROR 03-14 15:09:26 [a.py:9] ValueError: No available memory for the cache blocks. {}",
    "an illegal access": "RuntimeError: CUDA error: an illegal memory access was encountered {}",
    "a kill": "bash: line 1: 123 Killed                  vllm serve {}",
    "a kernel's kill": "Out of memory: Killed process 77 (python3) {}",
    "a restart": "Back-off restarting failed container {}",
    "arguments": "(APIServer pid=71) INFO 03-14 15:09:26 [a.py:9] non-default args: {{'model': 'm', {}, 'tokenizer': 't'}}",
    "SGLang's arguments": "[2026-03-14 15:09:26] server_args=ServerArgs(model_path='m', {})",
    "a watchdog": "[2026-03-14 15:09:26] Scheduler watchdog timeout {}",
    "a retraction": "[2026-03-14 15:09:26] KV cache pool is full. Retract requests. #retracted_reqs: 3 {}",
    "an envelope": '{{"log": "ERROR 03-14 15:09:26 [a.py:9] out of memory {}"}}',
    "nvidia-smi": "4121, 61234 MiB, /usr/bin/python3 {}",
}


@pytest.mark.parametrize("secret", SECRETS)
def test_secret_in_a_line(secret: str) -> None:
    assert KEY not in redact(f"before {SECRETS[secret]} after")
    assert "AKIA" not in redact(f"before {SECRETS[secret]} after")
    assert redact(f"before {SECRETS[secret]} after").startswith("before ")


SHORT = {
    "password": "password=hunter2",
    "password of digits": "DB_PASSWORD: 483920",
    "secret": "MY_SECRET=hunter2",
    "token": "HF_TOKEN='hunter2'",
    "api key": "OPENAI_API_KEY=hunter2",
    "flag": "--api-key hunter2",
    "flag with =": "--redis-password=hunter2",
}


@pytest.mark.parametrize("secret", SHORT)
def test_short_secret_of_an_unmistakable_name(secret: str) -> None:
    found = redact(f"before {SHORT[secret]}, after")
    assert "hunter2" not in found and "483920" not in found
    assert found.startswith("before ") and "[redacted]" in found


def test_private_key_over_several_lines() -> None:
    line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
    assert redact(line) == "[redacted]"
    assert redact("0123456789abcdef" * 4) == "0123456789abcdef" * 4, "a checksum"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("secret", ["hugging face", "--api-key", "'api_key':", "bearer", "url"])
def test_no_row_keeps_a_secret(place: str, secret: str) -> None:
    rows = read(PLACES[place].format(SECRETS[secret]) + "\n")
    assert rows
    assert KEY not in json.dumps(rows)


PROMPT = "my grandmother's recipe"
ECHOES = {
    "single quotes": "prompt: '{}', params: None",
    "double quotes": 'prompt: "{}", params: None',
    "escaped double quotes": 'prompt: \\"{}\\", params: None',
    "python dict": "'prompt': '{}', 'n': 1",
    "json": '"content": "{}", "role": "user"',
    "escaped json": '\\"content\\": \\"{}\\", \\"role\\": \\"user\\"',
    "keyword": "text='{}', n=1",
    "cut off": "prompt: '{}",
    "two": "prompt: 'x', prompt: '{}', n=1",
    "list": "prompts=['x', '{}'], n=1",
    "list of texts": "\"prompt\": [\"x\", \"{}\"], n=1",
    "after an apostrophe": "prompt: 'it's {}', n=1",
}  # fmt: skip


@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.parametrize(
    "place", ["a warning", "an error", "a lone exception", "a traceback", "a refusal", "an illegal access", "a kill"]
)
def test_no_row_keeps_a_prompt(echo: str, place: str) -> None:
    rows = read(PLACES[place].format(ECHOES[echo].format("grandmother recipe")) + "\n")
    assert rows
    assert "grandmother" not in json.dumps(rows)


@pytest.mark.parametrize("echo", ["double quotes", "escaped double quotes", "json", "escaped json", "list of texts"])
def test_apostrophes_in_a_prompt(echo: str) -> None:
    assert "grandmother" not in redact(ECHOES[echo].format(PROMPT))


def test_what_follows_a_prompt_is_kept() -> None:
    assert redact("a prompt: 'secret thing', params: n=1") == "a prompt: '[redacted]', params: n=1"
    assert redact('{"content": "secret \\" thing", "role": "user"}') == '{"content": "[redacted]", "role": "user"}'


@pytest.mark.parametrize("engine", SAMPLES)
def test_a_line_without_secrets_is_kept_as_it_stands(engine: str) -> None:
    for line in lines(SAMPLES[engine]):
        assert redact(line) == line


@pytest.mark.parametrize(
    "line",
    [
        "Avg prompt throughput: 812.4 tokens/s", "#new-token: 8192, #cached-token: 512, token usage: 0.83", "tokenizer=acme/otter-9b-instruct",
        "max_num_batched_tokens=8192000000000", "total_num_scheduled_tokens=2561", "prompt_token_ids_len=9000", "keys: weights_and_kv_caches",
        "the text says 'no'", "eos_token: 128009", "password is required", "trust_remote_code=True, tokenizer_mode=automatic_detect",
        "VLLM_MAX_TOKEN=512", "--max-tokens 100 --tokenizer acme/otter", "--eos-token 128009", "KV transfer token: 7 of 8",
    ],
)  # fmt: skip
def test_look_alikes_are_kept(line: str) -> None:
    assert redact(line) == line


@settings(deadline=None)
@given(st.text(max_size=200))
def test_redacting_twice_changes_nothing(text: str) -> None:
    for template in ECHOES.values():
        once = redact(template.format(text))
        assert redact(once) == once
