"""An engine's command line, as people write it, as an Engine."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from oomctl.analyzers.ledger.config import DTYPE_BYTES
from oomctl.analyzers.ledger.engine import Engine, parse_version
from oomctl.schemas.errors import ExitCode, OomctlError


def _count(text: str) -> int:
    """8192, 8k (thousands) or 8K (1024s), as vLLM reads them."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)([kKmMgG]?)", text)
    if match is None:
        raise ValueError
    scale = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}[match[2]]
    return int(float(match[1]) * scale)


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise ValueError
    return value


def _positive(text: str) -> int:
    value = _count(text)
    if value < 1:
        raise ValueError
    return value


_VALUES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "--tensor-parallel-size": ("tensor_parallel", _positive),
    "-tp": ("tensor_parallel", _positive),
    "--tp": ("tensor_parallel", _positive),
    "--pipeline-parallel-size": ("pipeline_parallel", _positive),
    "-pp": ("pipeline_parallel", _positive),
    "--pp": ("pipeline_parallel", _positive),
    "--gpu-memory-utilization": ("utilization", _share),
    "--block-size": ("block_size", _positive),
    "--max-model-len": ("max_model_len", _positive),
    "--max-num-batched-tokens": ("batched_tokens", _positive),
    "--max-num-seqs": ("max_requests", _positive),
    "--kv-cache-dtype": ("kv_dtype", str),
    "--quantization": ("quantization", str),
    "-q": ("quantization", str),
    "--num-gpu-blocks-override": ("gpu_blocks", _positive),
    "--kv-cache-memory-bytes": ("kv_bytes", _positive),
    "--kv-cache-memory": ("kv_bytes", _positive),
}
_FLAGS: dict[str, tuple[str, Any]] = {
    "--enable-expert-parallel": ("expert_parallel", True),
    "--enable-prefix-caching": ("prefix_caching", True),
    "--no-enable-prefix-caching": ("prefix_caching", False),
    "--disable-hybrid-kv-cache-manager": ("hybrid_groups", False),
}
# They move memory, and the ledger does not count it yet: said, never passed over.
_NOT_COUNTED = (
    "--enable-lora",
    "--cpu-offload-gb",
    "--data-parallel-size",
    "-dp",
    "--decode-context-parallel-size",
    "-dcp",
)


def parse_engine(name: str, line: str) -> tuple[Engine, list[str]]:
    """An Engine, and notes on arguments that it does not count.

    Args:
        name: "vllm==0.19.0".
        line: "vllm serve MODEL --tp 4 ...", or the options alone; "" for the defaults.

    Raises:
        OomctlError: The engine is not known, or a value cannot be read.
    """
    engine, _, version = name.partition("==")
    if engine.lower() != "vllm":
        raise OomctlError(
            f'engine "{engine[:40]}" cannot be predicted', "known: vllm, such as vllm==0.19.0", ExitCode.USAGE
        )
    values: dict[str, Any] = {"version": parse_version(version)} if version else {}
    notes: list[str] = []
    for option, value in _options(line):
        if option in _FLAGS:
            values.__setitem__(*_FLAGS[option])
        elif option in _VALUES:
            field, read = _VALUES[option]
            try:
                values[field] = read(value or "")
            except ValueError:
                raise OomctlError(f"{option} {str(value)[:40]} cannot be read", None, ExitCode.USAGE) from None
        elif option == "--dtype":
            if value not in ("auto", *DTYPE_BYTES):
                raise OomctlError(f'--dtype "{str(value)[:40]}" is not known', None, ExitCode.USAGE)
            values["dtype_bytes"] = DTYPE_BYTES.get(str(value))
        elif option in ("--speculative-config", "-sc"):
            values["draft_tokens"] = _draft_tokens(value or "", notes)
        elif option in _NOT_COUNTED:
            notes.append(f"{option} is not counted")
    return msgspec.structs.replace(Engine(), **values), notes


def _draft_tokens(text: str, notes: list[str]) -> int:
    try:
        config = json.loads(text)
        count, method = int(config["num_speculative_tokens"]), str(config.get("method", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise OomctlError(
            "--speculative-config cannot be read", "it is JSON with num_speculative_tokens", ExitCode.USAGE
        ) from None
    if "mtp" not in method and "ngram" not in method:
        notes.append(f"the draft model of speculative decoding ({method or 'no method'}) is not counted")
    return count


def _options(line: str) -> Iterator[tuple[str, str | None]]:
    """(option, value) of a command line; underscores and `--option=value` are understood."""
    try:
        words = shlex.split(line.replace("\\\n", " "))
    except ValueError as error:
        raise OomctlError(f"the engine's arguments cannot be read: {error}", None, ExitCode.USAGE) from None
    for place, word in enumerate(words):
        if not word.startswith("-") or re.fullmatch(r"-[\d.]+", word):
            continue
        option, equals, value = word.partition("=")
        following = words[place + 1] if place + 1 < len(words) and not words[place + 1].startswith("-") else None
        yield (option.replace("_", "-") if option.startswith("--") else option), value if equals else following
