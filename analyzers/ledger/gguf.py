"""The header of a GGUF file: its tensors with their packings.

Source: ggml, docs/gguf.md (the layout) and src/ggml-common.h (bytes of a block of each type).
"""

import math
import re
import struct
from collections import Counter
from pathlib import Path
from typing import BinaryIO

from oomctl.analyzers.ledger.checkpoint import Checkpoint
from oomctl.analyzers.ledger.packing import Quantization, Scheme
from oomctl.schemas.errors import OomctlError

MOST_ITEMS, MOST_TEXT, MOST_DEPTH, MOST_BYTES = 1 << 20, 1 << 20, 4, 1 << 28
"""Metadata and tensors, characters of a text, arrays in arrays, and bytes of a header: far beyond any model's."""

# Number of a type: its name, weights per block, bytes per block.
TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292), 16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136), 24: ("I8", 1, 1), 25: ("I16", 1, 2),
    26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8), 29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
}  # fmt: skip
# Modules of a model beside the tensors that they are made of; those of experts first.
_MODULES = (
    (r"re:.*mlp\.experts\..*(gate|up)_proj$", re.compile(r"ffn_(gate|up|gate_up)_exps\.weight$")),
    (r"re:.*mlp\.experts\..*down_proj$", re.compile(r"ffn_down_exps\.weight$")),
    (r"re:.*shared_experts\.(gate|up)_proj$", re.compile(r"ffn_(gate|up)_shexp\.weight$")),
    (r"re:.*shared_experts\.down_proj$", re.compile(r"ffn_down_shexp\.weight$")),
    ("q_proj", re.compile(r"attn_(q|k|v|qkv)\.weight$")),
    ("o_proj", re.compile(r"attn_output\.weight$")),
    ("gate_proj", re.compile(r"ffn_(gate|up)\.weight$")),
    ("up_proj", re.compile(r"ffn_(gate|up)\.weight$")),
    ("down_proj", re.compile(r"ffn_down\.weight$")),
    ("embed_tokens", re.compile(r"token_embd\.weight$")),
    ("lm_head", re.compile(r"^output\.weight$")),
)
_SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_TEXT, _ARRAY = 8, 9


def tensor_bytes(kind: int, dimensions: tuple[int, ...]) -> int:
    """Bytes of a tensor whose rows (its first dimension) are packed in blocks.

    >>> tensor_bytes(12, (4096, 4096)) / 4096**2  # Q4_K: 144 B per 256 weights
    0.5625
    """
    _, weights, size = TYPES[kind]
    return math.prod(dimensions) // weights * size


def read_gguf(path: Path) -> Checkpoint:
    """Tensors of a GGUF file of version 2 or 3.

    Raises:
        OomctlError: Its header cannot be believed.
    """
    with path.open("rb") as file:
        reader = _Reader(file, path)
        reader.take(4)
        version, tensors, items = reader.number("<I"), reader.number("<Q"), reader.number("<Q")
        if version not in (2, 3) or max(tensors, items) > MOST_ITEMS:
            raise OomctlError(f"no GGUF file of version 2 or 3 ({path})")
        for _ in range(items):
            reader.text()
            reader.skip(reader.number("<I"))
        sizes: dict[str, int] = {}
        weights: dict[str, int] = {}
        kinds: Counter[str] = Counter()
        for _ in range(tensors):
            name, count, size, kind = reader.tensor()
            sizes[name], weights[name] = size, count
            kinds[kind] += size
    most = kinds.most_common(1)[0][0] if kinds else "no tensors"
    size = path.stat().st_size
    if sum(sizes.values()) > size:
        raise OomctlError(f"its tensors are larger than the file ({path})")
    return Checkpoint(
        format=f"GGUF {most}", files=(size,), tensors=sizes, tensor_bytes=sum(sizes.values()), weights=weights
    )


def quantization(checkpoint: Checkpoint) -> Quantization:
    """The packings of a GGUF file's matrices: of each kind the bytes per weight over all layers, which mix types.

    An engine keeps the blocks as they lie in the file. Source: vLLM model_executor/layers/quantization/gguf.py.
    """
    rules = []
    for module, names in _MODULES:
        own = [name for name in checkpoint.weights or {} if names.search(name)]
        count = sum((checkpoint.weights or {})[name] for name in own)
        if count:
            size = sum((checkpoint.tensors or {})[name] for name in own)
            rules.append((module, Scheme(packing="gguf", bits=8 * size // count, bytes_per_weight=size / count)))
    return Quantization(name=checkpoint.format, rules=tuple(rules))


class _Reader:
    """Steps through a header and never takes more than it may."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path, self._left = file, path, MOST_BYTES

    def take(self, count: int) -> bytes:
        self._left -= count
        data = self._file.read(count) if count >= 0 and self._left >= 0 else b""
        if len(data) < count:
            raise OomctlError(f"its GGUF header is damaged or cut off ({self._path})")
        return data

    def number(self, form: str) -> int:
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def text(self) -> str:
        length = self.number("<Q")
        if length > MOST_TEXT:
            raise OomctlError(f"its GGUF header is damaged: a text of {length} bytes ({self._path})")
        return self.take(length).decode("utf-8", "replace")

    def skip(self, kind: int, depth: int = 0) -> None:
        """Pass over a value of the metadata."""
        if kind in _SCALARS:
            self.take(_SCALARS[kind])
        elif kind == _TEXT:
            self.text()
        elif kind == _ARRAY and depth < MOST_DEPTH:
            inner, count = self.number("<I"), self.number("<Q")
            if inner in _SCALARS:
                self.take(_SCALARS[inner] * count)
                return
            if count > MOST_ITEMS:
                raise OomctlError(f"its GGUF header is damaged: an array of {count} ({self._path})")
            for _ in range(count):
                self.skip(inner, depth + 1)
        else:
            raise OomctlError(f"its GGUF header is damaged: a value of type {kind} ({self._path})")

    def tensor(self) -> tuple[str, int, int, str]:
        """(name, weights, bytes, type) of the next tensor."""
        name, count = self.text(), self.number("<I")
        if count > len("wzyx"):
            raise OomctlError(f"its GGUF header is damaged: {count} dimensions ({self._path})")
        dimensions = tuple(self.number("<Q") for _ in range(count))
        kind = self.number("<I")
        self.number("<Q")
        if kind not in TYPES:
            raise OomctlError(f"a tensor's type, number {kind}, is not known ({self._path})")
        return name, math.prod(dimensions), tensor_bytes(kind, dimensions), TYPES[kind][0]
