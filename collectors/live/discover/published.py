"""Where an engine publishes its KV events, by its arguments: `--kv-events-config JSON` of vLLM, SGLang, Dynamo's workers.

Defaults as in vllm/config/kv_events.py and sglang/srt/disaggregation/kv_events.py: a publisher that is not named is zmq
where events are enabled, and publishes at port 5557. Each data-parallel rank adds its number to the port.
"""

import json
from collections.abc import Iterable, Sequence

OPTION = "--kv-events-config"
RANKS = ("--data-parallel-size", "-dp", "--dp-size", "--dp")
DEFAULT = "tcp://*:5557"
MAX_RANKS = 64

Published = tuple[str, str | None]
"""Where it publishes, and where it replays or None; as configured, before a wildcard is resolved."""


def of_arguments(arguments: Sequence[str]) -> list[Published]:
    """The endpoints that a command line configures, of each data-parallel rank; none where it publishes nothing."""
    text = _value(arguments, (OPTION,))
    try:
        config = json.loads(text) if text is not None else None
    except ValueError:
        return []
    if not isinstance(config, dict):
        return []
    enabled = config.get("enable_kv_cache_events") is not False
    if not enabled or config.get("publisher", "zmq" if "enable_kv_cache_events" in config else None) != "zmq":
        return []
    endpoint, replay = config.get("endpoint", DEFAULT), config.get("replay_endpoint")
    if not isinstance(endpoint, str):
        return []
    ranks = _value(arguments, RANKS) or "1"
    count = min(int(ranks), MAX_RANKS) if ranks.isdecimal() else 1
    return [
        (_of_rank(endpoint, rank), _of_rank(replay, rank) if isinstance(replay, str) else None) for rank in range(count)
    ]


def _value(arguments: Sequence[str], names: Iterable[str]) -> str | None:
    """Of the last of these options, in both spellings: `--name value`, `--name=value`."""
    found = None
    for at, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") in names:
            found = value if equals else next(iter(arguments[at + 1 : at + 2]), None)
    return found


def _of_rank(endpoint: str, rank: int) -> str:
    head, colon, port = endpoint.rpartition(":")
    return f"{head}:{int(port) + rank}" if colon and port.isdecimal() and rank else endpoint
