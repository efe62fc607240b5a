"""An engine's command line, as people write it, as an Engine."""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from oomctl.analyzers.ledger.config import DTYPE_BYTES
from oomctl.analyzers.ledger.engine import Engine, parse_version
from oomctl.analyzers.ledger.options import NOT_COUNTED, SGLANG, SGLANG_FLAGS, TYPES, VLLM, VLLM_FLAGS, positive
from oomctl.schemas.errors import ExitCode, OomctlError

LARGE_DEVICE = 70 * 2**30
"""From here on vLLM schedules 8192 tokens and 1024 requests unless told otherwise, else 2048 and 256.
Source: vLLM engine/arg_utils.py, get_batch_defaults, which sets A100 apart by its name."""
MANY_REQUESTS_FROM = (0, 10)
"""Before, 256 requests on every device."""

SGLANG_DRAFT_TOKENS = 4
"""Drafted at once where the command does not say. Source: SGLang server_args.py, auto_choose_speculative_params."""
NEARLY = 0.905
"""Likeness of a misspelt option to the one that is meant; two options of an engine are less alike, or both known."""


def parse_engine(name: str, line: str, device: int | None = None) -> tuple[Engine, list[str]]:
    """An Engine, and notes on arguments that it does not count.

    Args:
        name: "vllm==0.19.0" or "sglang==0.5.6".
        line: "vllm serve MODEL --tp 4 ...", or the options alone; "" for the defaults.
        device: Total bytes of the device, on which defaults depend.

    Raises:
        OomctlError: The engine is not modelled, or a value cannot be read.
    """
    engine, _, version = name.partition("==")
    engine = engine.lower()
    if engine not in ("vllm", "sglang"):
        raise OomctlError(
            f'engine "{engine[:40]}" is not modelled', "modelled: vllm and sglang, such as vllm==0.19.0", ExitCode.USAGE
        )
    values: dict[str, Any] = {"name": engine}
    if engine == "sglang":
        values |= {"version": (0, 5), "block_size": 1}
    if version:
        values["version"] = parse_version(version)
    notes: list[str] = []
    if not version:
        assumed = ".".join(map(str, values.get("version", Engine().version)))
        notes.append(f"no version of {engine} was given: {assumed} is assumed")
    given: set[str] = set()
    passed: list[str] = []
    known, flags = (VLLM, VLLM_FLAGS) if engine == "vllm" else (SGLANG, SGLANG_FLAGS)
    structured = _STRUCTURED if engine == "vllm" else _SGLANG_STRUCTURED
    for option, words in _options(line):
        given.add(option)
        value = words[0] if words else ""
        if option in flags:
            values.__setitem__(*flags[option])
        elif option in known:
            field, read = known[option]
            values[field] = _read(option, value, read)
        elif option == "--dtype":
            if value not in TYPES:
                raise OomctlError(f'--dtype "{value[:40]}" is not known', None, ExitCode.USAGE)
            values["dtype_bytes"] = DTYPE_BYTES.get(value)
        elif option in structured:
            values |= structured[option](words, notes)
        elif option in NOT_COUNTED:
            notes.append(f"{option} is not counted")
        elif option != "--enable-lora":  # it is looked at below, with what else is given
            _refuse_misspelt(option, (*known, *flags, *structured))
            passed.append(option)
    if passed:
        notes.append(f"not looked at: {', '.join(passed)[:200]}")
    if engine == "vllm":
        if "--enable-lora" not in given:
            values.pop("loras", None)
        elif "loras" not in values:
            values["loras"] = 1
        small = device is not None and device < LARGE_DEVICE
        if small or values.get("version", Engine().version) < MANY_REQUESTS_FROM:
            values.setdefault("max_requests", 256)
        if small:
            values.setdefault("batched_tokens", 2048)
    return msgspec.structs.replace(Engine(), **values), notes


def counted_options(name: str) -> frozenset[str]:
    """The options of an engine that the ledger looks at."""
    own = (SGLANG, SGLANG_FLAGS, _SGLANG_STRUCTURED) if name == "sglang" else (VLLM, VLLM_FLAGS, _STRUCTURED)
    return frozenset({option for options in own for option in options} | {"--dtype", "--enable-lora"})


def named_arguments(engine: Engine) -> dict[str, Any]:
    """What an engine was started with, by option: those that count, where they have a value.

    >>> named_arguments(Engine(max_requests=4))["--max-num-seqs"]
    4
    """
    readers, flags = (SGLANG, SGLANG_FLAGS) if engine.name == "sglang" else (VLLM, VLLM_FLAGS)
    # The first spelling of each.
    spelt = {field: option for option, (field, _) in reversed(readers.items())}
    found: dict[str, Any] = {option: getattr(engine, field) for field, option in spelt.items()}
    found |= {option: getattr(engine, field) == value for option, (field, value) in flags.items()}
    if engine.name == "vllm":
        found["--gpu-memory-utilization"] = engine.memory_share
    found |= {"--num-speculative-tokens": engine.draft_tokens or None, "--cudagraph-capture-sizes": engine.graph_sizes}
    return {option: value for option, value in found.items() if value is not None and value is not False}


def _refuse_misspelt(option: str, known: Iterable[str]) -> None:
    """An option that is nearly one that counts: the engine would not start with it, and the ledger would leave it out."""
    import difflib

    if near := difflib.get_close_matches(option, known, 1, NEARLY):
        raise OomctlError(f"{option[:60]} is no option of the engine", f"did you mean {near[0]}?", ExitCode.USAGE)


def _read(option: str, value: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(value)
    except ValueError:
        raise OomctlError(f"{option} {value[:40]} cannot be read", None, ExitCode.USAGE) from None


def _speculative(words: list[str], notes: list[str]) -> dict[str, Any]:
    config = _object(words, "--speculative-config")
    count = config.get("num_speculative_tokens")
    if isinstance(count, bool) or not isinstance(count, int) or not 0 < count < 2**16:
        raise OomctlError("--speculative-config cannot be read", "it is JSON with num_speculative_tokens", ExitCode.USAGE)
    method = str(config.get("method") or "")
    if "mtp" in method:
        return {"draft_tokens": count, "draft": "own"}
    if "ngram" in method or "suffix" in method:
        return {"draft_tokens": count, "draft": "none"}
    return {"draft_tokens": count, "draft": "model"}


def _transfer(words: list[str], notes: list[str]) -> dict[str, Any]:
    config = _object(words, "--kv-transfer-config")
    size = config.get("kv_buffer_size")
    known = isinstance(size, int | float) and not isinstance(size, bool) and 0 <= size < 2**60
    return {"kv_connector": str(config.get("kv_connector") or ""), "kv_buffer_bytes": int(size) if known and size else None}


def _compilation(words: list[str], notes: list[str]) -> dict[str, Any]:
    if words and not words[0].startswith("{"):
        return {}
    config = _object(words, "--compilation-config")
    if str(config.get("cudagraph_mode", "")).upper() == "NONE":
        return {"eager": True}
    sizes = config.get("cudagraph_capture_sizes")
    if isinstance(sizes, list) and all(type(size) is int and size > 0 for size in sizes):
        return {"graph_sizes": tuple(sizes)}
    return {}


def _sizes(words: list[str], notes: list[str]) -> dict[str, Any]:
    numbers = [_read("--cudagraph-capture-sizes", word, positive) for part in words for word in part.split(",") if word]
    return {"graph_sizes": tuple(numbers)} if numbers else {}


def _largest(words: list[str], notes: list[str]) -> dict[str, Any]:
    return {"graph_limit": _read("--max-cudagraph-capture-size", words[0] if words else "", positive)}


def _drafter(words: list[str], notes: list[str]) -> dict[str, Any]:
    return {"draft": "none" if words and words[0] == "[ngram]" else "model"}


_STRUCTURED: dict[str, Callable[[list[str], list[str]], dict[str, Any]]] = {
    "--speculative-config": _speculative,
    "-sc": _speculative,
    "--speculative-model": _drafter,
    "--kv-transfer-config": _transfer,
    "--compilation-config": _compilation,
    "-cc": _compilation,
    "--cudagraph-capture-sizes": _sizes,
    "--cuda-graph-sizes": _sizes,
    "--max-cudagraph-capture-size": _largest,
}


def _algorithm(words: list[str], notes: list[str]) -> dict[str, Any]:
    """SGLang's `--speculative-algorithm`: the model's own layers draft, unless it is n-grams or a model is named too."""
    drafts = "none" if words and words[0].upper() in ("NGRAM", "LOOKAHEAD") else "own"
    return {"draft": drafts, "draft_tokens": SGLANG_DRAFT_TOKENS}


def _draft_path(words: list[str], notes: list[str]) -> dict[str, Any]:
    return {"draft": "model"}


_SGLANG_STRUCTURED: dict[str, Callable[[list[str], list[str]], dict[str, Any]]] = {
    "--speculative-algorithm": _algorithm,
    "--speculative-algo": _algorithm,
    "--speculative-draft-model-path": _draft_path,
    "--speculative-draft-model": _draft_path,
}


def _object(words: list[str], option: str) -> Mapping[str, Any]:
    try:
        config = json.loads(words[0]) if words else None
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise OomctlError(f"{option} cannot be read", "it is a JSON object", ExitCode.USAGE)
    return config


def _options(line: str) -> Iterator[tuple[str, list[str]]]:
    """(option, words) of a command line; underscores and `--option=value` are understood."""
    try:
        words = shlex.split(line.replace("\\\n", " "))
    except ValueError as error:
        raise OomctlError(f"the engine's arguments cannot be read: {error}", None, ExitCode.USAGE) from None
    for place, word in enumerate(words):
        if not word.startswith("-") or re.fullmatch(r"-[\d.]+", word):
            continue
        option, equals, value = word.partition("=")
        following: list[str] = []
        for later in words[place + 1 :]:
            if later.startswith("-"):
                break
            following.append(later)
        yield (option.replace("_", "-") if option.startswith("--") else option), [value] if equals else following
