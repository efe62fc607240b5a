"""What a matrix takes packed, and which packing each matrix of a model has."""

import re
from collections.abc import Callable
from typing import Literal

import msgspec

from oomctl.schemas.errors import OomctlError

Packing = Literal["none", "fp8_tensor", "fp8_channel", "fp8_block", "int8_channel", "int4_group", "nvfp4", "mxfp4", "gguf"]

_CONTAINERS = re.compile(r"^(?:(?:model|language_model|backbone|transformer)\.)+")

_SEGMENTS = (
    (re.compile(r"(?<!\w)(?:ffn|feed_forward|block_sparse_moe)(?!\w)"), "mlp"),
    (re.compile(r"(?<!\w)mixer(?=\\?\.(?:shared_)?experts?(?!\w))"), "mlp"),
    (re.compile(r"(?<!\w)(?:attn|self_attention)(?!\w)"), "self_attn"),
    (re.compile(r"(?<!\w)shared_expert(?!\w)"), "shared_experts"),
)
"""Names that models give to a part of a layer, and the one under which this ledger asks for it."""

_LONGEST = 2000
_REPEATED = re.compile(r"\)[+*{]")
"""A repeated group: a config comes from strangers, and such a pattern may take for ever on a name that nearly fits."""


class Scheme(msgspec.Struct, frozen=True, kw_only=True):
    """The packing of one matrix."""

    packing: Packing = "none"
    bits: int = 16
    group: int | None = None
    """Inputs that share a scale, for the packings in groups; None: one group per output."""
    block: tuple[int, int] = (128, 128)
    """Outputs and inputs that share a scale, for fp8_block."""
    bytes_per_weight: float = 0.0
    """Of a GGUF file's mixture of types, scales with it; its blocks follow the inputs."""
    zeros: bool = False
    group_index: bool = False

    def tensors(self, out: int, into: int, element_bytes: int) -> list[int]:
        """Bytes of each tensor of an `out` x `into` matrix.

        GPTQ: qweight, scales, and qzeros and g_idx where they are kept; AWQ the same without g_idx. FP8: 1 B and an fp32
        scale per tensor, output channel or block. NVFP4: half a byte, an e4m3 scale per 16 inputs, an fp32 scale. MXFP4:
        half a byte and an e8m0 scale per 32. Sources: vLLM model_executor/layers/quantization (gptq.py, awq.py,
        fp8.py, modelopt.py, mxfp4.py) and compressed_tensors/schemes.

        >>> sum(Scheme(packing="int4_group", bits=4, group=128, zeros=True).tensors(4096, 4096, 2)) / 4096**2
        0.51953125
        >>> Scheme(packing="fp8_block").tensors(256, 129, 2)
        [33024, 16]
        """
        count = out * into
        groups = max(-(-into // self.group), 1) if self.group else 1
        if self.packing == "none":
            return [count * element_bytes]
        if self.packing == "gguf":
            return [round(count * self.bytes_per_weight)]
        if self.packing == "fp8_tensor":
            return [count, 4]
        if self.packing in ("fp8_channel", "int8_channel"):
            return [count, 4 * out]
        if self.packing == "fp8_block":
            return [count, 4 * -(-out // self.block[0]) * -(-into // self.block[1])]
        if self.packing == "int4_group":
            sizes = [count * self.bits // 8, groups * out * element_bytes]
            if self.zeros:
                sizes.append(groups * out * self.bits // 8)
            if self.group_index:
                sizes.append(4 * into)
            return sizes
        scales = 16 if self.packing == "nvfp4" else 32
        sizes = [count // 2, out * -(-into // scales)]
        return [*sizes, 4] if self.packing == "nvfp4" else sizes


PLAIN = Scheme()


class Quantization(msgspec.Struct, frozen=True, kw_only=True):
    """The packing of every matrix of a model, by the module's name.

    Args:
        name: Of the format, as shown.
        default: Of every matrix that no pattern names.
        rules: (pattern, packing), the first match decides.
        kv_fp8: Whether the checkpoint asks for an FP8 KV cache.
    """

    name: str = "none"
    default: Scheme = PLAIN
    rules: tuple[tuple[str, Scheme], ...] = ()
    kv_fp8: bool = False

    @property
    def packings(self) -> frozenset[Packing]:
        """Every packing that some matrix may have."""
        return frozenset({self.default.packing, *(scheme.packing for _, scheme in self.rules)})

    def matcher(self) -> Callable[[str], Scheme]:
        """What tells the packing of a module such as "layers.3.mlp.down_proj"; made once, since lists are long."""
        found = _matchers(self.rules)

        def of(module: str) -> Scheme:
            return next((scheme for matches, scheme in found if matches(module)), self.default)

        return of


def _matchers(rules: tuple[tuple[str, Scheme], ...]) -> list[tuple[Callable[[str], bool], Scheme]]:
    """Names in one set and wildcards in one expression per packing: a checkpoint may list thousands of them."""
    names: dict[Scheme, set[str]] = {}
    wildcards: dict[Scheme, list[str]] = {}
    found: list[tuple[Callable[[str], bool], Scheme]] = []
    for given, scheme in rules:
        pattern = canonical(given)
        if pattern.startswith("re:"):
            found.append((_expression(pattern[3:]), scheme))
            continue
        bare = _CONTAINERS.sub("", pattern)
        if "*" in bare:
            wildcards.setdefault(scheme, []).append(".*".join(map(re.escape, bare.split("*"))))
        else:
            names.setdefault(scheme, set()).add(bare)
    for scheme, some in names.items():
        found.append((_named(some), scheme))
    for scheme, parts in wildcards.items():
        # "a.*" names whatever lies deeper too, and "a*b" what lies under it.
        compiled = re.compile(f"(?:{'|'.join(parts)})(?:\\..*)?\\Z")
        found.append((_matching(compiled), scheme))
    return found


def canonical(pattern: str) -> str:
    """A module's name, or a pattern of names, in this ledger's words.

    >>> canonical("layers.0.ffn.experts"), canonical("backbone.layers.1.mixer.in_proj")
    ('layers.0.mlp.experts', 'backbone.layers.1.mixer.in_proj')
    """
    for segment, word in _SEGMENTS:
        pattern = segment.sub(word, pattern)
    return pattern


def _matching(compiled: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda module: compiled.match(module) is not None


def _named(names: set[str]) -> Callable[[str], bool]:
    def match(module: str) -> bool:
        # A name also stands for what lies under it, and its last word alone for every module of that name.
        parts = module.split(".")
        return parts[-1] in names or any(".".join(parts[:end]) in names for end in range(1, len(parts) + 1))

    return match


def _expression(pattern: str) -> Callable[[str], bool]:
    if len(pattern) > _LONGEST or _REPEATED.search(pattern):
        raise OomctlError(f"the quantization's pattern is refused: it could take for ever ({pattern[:80]})")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise OomctlError(f"the quantization's pattern cannot be read: {error} ({pattern[:80]})") from None
    return lambda module: any(
        compiled.match(prefix + module) for prefix in ("", "model.", "language_model.model.", "model.language_model.")
    )
