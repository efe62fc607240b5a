"""A small load generator: streams completions, hangs up on some of them, and keeps its own record of what happened."""

import http.client
import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

TIMEOUT_S = 300


@dataclass(frozen=True)
class Wish:
    """One request to be made.

    Attributes:
        name: Its X-Request-Id.
        prompt: Words of the tiny model's vocabulary, one token each.
        output_tokens: How many it asks for; it gets exactly these.
        hang_up_after: Chunks after which the client closes the connection; None for never.
    """

    name: str
    prompt: tuple[str, ...]
    output_tokens: int
    hang_up_after: int | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of a request, as the client saw it.

    Attributes:
        wish: The request.
        state: finished, hung_up, refused (an HTTP status), broken (an error in the stream, or no end).
        chunks: Parts of the answer that arrived; a busy server puts several tokens into one.
        prompt_tokens: As the server counted them; None where it did not tell.
        output_tokens: The same of the answer.
        ended_ns: When it ended, on the monotonic clock.
        detail: The error, where there was one.
        cached_tokens: Of the prompt, found in the cache, as the server counted them; it tells only if it is started so.
    """

    wish: Wish
    state: str
    chunks: int
    prompt_tokens: int | None
    output_tokens: int | None
    ended_ns: int
    detail: str = ""
    cached_tokens: int | None = None


def wishes(
    count: int,
    output_tokens: int,
    seed: int,
    shared_words: int = 64,
    own_words: int = 20,
    hang_up_ratio: float = 0.0,
) -> list[Wish]:
    """Requests that share a prefix; some will be hung up on in the middle. The same for the same seed."""
    rng = random.Random(seed)
    shared = tuple(f"w{rng.randrange(496)}" for _ in range(shared_words))
    found = []
    for number in range(count):
        own = tuple(f"w{rng.randrange(496)}" for _ in range(own_words))
        hang_up = rng.randrange(1, output_tokens) if rng.random() < hang_up_ratio else None
        found.append(Wish(f"load-{seed}-{number}", shared + own, output_tokens, hang_up))
    return found


def run(port: int, requests: list[Wish], concurrency: int = 64, gap_s: float = 0.0) -> list[Outcome]:
    """Make them all, as many at a time as said, and none earlier than so long after the one before; in their order."""
    begun_s = time.monotonic()
    with ThreadPoolExecutor(concurrency) as pool:
        asked = []
        for number, wish in enumerate(requests):
            time.sleep(max(0.0, begun_s + number * gap_s - time.monotonic()))
            asked.append(pool.submit(ask, port, wish))
        return [each.result() for each in asked]


def start(port: int, requests: list[Wish], concurrency: int = 64) -> tuple[threading.Thread, list[Outcome]]:
    """The same in the background; the list fills as requests end."""
    outcomes: list[Outcome] = []

    def work() -> None:
        with ThreadPoolExecutor(concurrency) as pool:
            for outcome in pool.map(lambda wish: ask(port, wish), requests):
                outcomes.append(outcome)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread, outcomes


def ask(port: int, wish: Wish) -> Outcome:
    """Make one request and read its stream."""
    body = {
        "model": "tiny",
        "prompt": " ".join(wish.prompt),
        "max_tokens": wish.output_tokens,
        "temperature": 0.8,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    chunks, prompt_tokens, output_tokens, cached_tokens = 0, None, None, None
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)

    def ended(state: str, detail: str = "") -> Outcome:
        return Outcome(wish, state, chunks, prompt_tokens, output_tokens, time.monotonic_ns(), detail, cached_tokens)

    try:
        headers = {"Content-Type": "application/json", "X-Request-Id": wish.name}
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        if answer.status != 200:
            return ended("refused", f"{answer.status} {answer.read(300)!r}")
        for line in answer:
            if line.strip() == b"data: [DONE]":
                return ended("finished")
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line[6:])
            if "error" in chunk:
                return ended("broken", str(chunk["error"]))
            if chunk.get("choices"):
                chunks += 1
            if chunk.get("usage"):
                prompt_tokens = chunk["usage"]["prompt_tokens"]
                output_tokens = chunk["usage"]["completion_tokens"]
                cached_tokens = (chunk["usage"].get("prompt_tokens_details") or {}).get("cached_tokens")
            if chunks == wish.hang_up_after:
                return ended("hung_up")
        return ended("broken", "the stream had no end")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return ended("broken", repr(error))
    finally:
        connection.close()
