"""How a checkpoint's matrices are packed, and what each one takes beside its payload."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from oomctl.schemas.errors import OomctlError

Packing = Literal["none", "fp8_tensor", "fp8_channel", "fp8_block", "int8_channel", "int4_group", "nvfp4", "mxfp4"]

_CONTAINERS = re.compile(r"^(?:(?:model|language_model|backbone|transformer)\.)+")


class Scheme(msgspec.Struct, frozen=True, kw_only=True):
    """The packing of one matrix."""

    packing: Packing = "none"
    bits: int = 16
    group: int | None = None
    """Inputs that share a scale, for the packings in groups; None: one group per output."""
    block: tuple[int, int] = (128, 128)
    """Outputs and inputs that share a scale, for fp8_block."""
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
        kv_fp8: Whether the checkpoint carries scales for an FP8 KV cache.
    """

    name: str = "none"
    default: Scheme = PLAIN
    rules: tuple[tuple[str, Scheme], ...] = ()
    kv_fp8: bool = False

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
    for pattern, scheme in rules:
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


def _matching(compiled: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda module: compiled.match(module) is not None


def _named(names: set[str]) -> Callable[[str], bool]:
    def match(module: str) -> bool:
        # A name also stands for what lies under it, and its last word alone for every module of that name.
        parts = module.split(".")
        return parts[-1] in names or any(".".join(parts[:end]) in names for end in range(1, len(parts) + 1))

    return match


def _expression(pattern: str) -> Callable[[str], bool]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise OomctlError(f"the quantization's pattern cannot be read: {error} ({pattern[:80]})") from None
    return lambda module: any(
        compiled.match(prefix + module) for prefix in ("", "model.", "language_model.model.", "model.language_model.")
    )


def read_quantization(config: Mapping[str, Any], where: str) -> Quantization:
    """The `quantization_config` of a config.json, or the `quantization` of a hf_quant_config.json.

    Raises:
        OomctlError: The method is not known, or a field that it needs is missing.
    """
    if not config:
        return Quantization()
    method = str(config.get("quant_method") or "").lower().replace("_", "-")
    algo = str(config.get("quant_algo") or "").upper()
    skipped = [
        (str(name), PLAIN)
        for key in ("ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers")
        for name in _names(config.get(key))
    ]
    if method == "modelopt" or algo:
        return _modelopt(config, algo, skipped, where)
    if method == "compressed-tensors":
        groups = [item for item in _mapping(config.get("config_groups")).values() if isinstance(item, Mapping)]
        if not groups:
            raise OomctlError(f"quantization_config has no config_groups ({where})")
        rules, default = _groups(groups, where)
        return Quantization(name="compressed-tensors", default=default, rules=(*skipped, *rules))
    if method == "fp8":
        block = config.get("weight_block_size")
        pair = _pair(block)
        if pair is not None:
            scheme = Scheme(packing="fp8_block", bits=8, block=pair)
        else:
            scheme = Scheme(packing="fp8_tensor", bits=8)
        return Quantization(name="fp8", default=scheme, rules=tuple(skipped))
    if method == "fbgemm-fp8":
        return Quantization(name=method, default=Scheme(packing="fp8_channel", bits=8), rules=tuple(skipped))
    if method == "mxfp4":
        return Quantization(name=method, default=Scheme(packing="mxfp4", bits=4), rules=tuple(skipped))
    if method in ("gptq", "awq", "auto-round", "gptq-marlin", "awq-marlin", "autoround", "intel/auto-round"):
        return _integer(config, method, skipped, where)
    raise OomctlError(
        f'quantization "{method or algo or "?"}" is not known ({where})',
        "known: fp8, fbgemm_fp8, compressed-tensors, gptq, awq, auto-round, mxfp4, modelopt",
    )


def online(method: str) -> Quantization:
    """What `--quantization METHOD` makes of a checkpoint that is not quantised.

    >>> online("fp8").default.packing
    'fp8_tensor'
    """
    if method == "fp8":
        return Quantization(name="fp8", default=Scheme(packing="fp8_tensor", bits=8))
    raise OomctlError(f'quantization "{method}" cannot be made while loading', "known: fp8")


def _integer(config: Mapping[str, Any], method: str, skipped: list[tuple[str, Scheme]], where: str) -> Quantization:
    bits = config.get("bits", config.get("w_bit"))
    group = config.get("group_size", config.get("q_group_size"))
    if not isinstance(bits, int) or not isinstance(group, int):
        raise OomctlError(f"quantization_config lacks bits or group_size ({where})")
    awq = method.startswith("awq")
    scheme = Scheme(
        packing="int4_group",
        bits=bits,
        group=group if group > 0 else None,
        # Marlin drops the zero points of a symmetric GPTQ checkpoint.
        zeros=bool(config.get("zero_point", True)) if awq else not config.get("sym", True),
        group_index=bool(config.get("desc_act", False)) and not awq,
    )
    return Quantization(name=method, default=scheme, rules=tuple(skipped))


def _modelopt(config: Mapping[str, Any], algo: str, skipped: list[tuple[str, Scheme]], where: str) -> Quantization:
    kv = config.get("kv_cache_quant_algo") or config.get("kv_cache_scheme")
    kv_fp8 = (isinstance(kv, str) and kv.upper() == "FP8") or (isinstance(kv, Mapping) and kv.get("num_bits") == 8)
    named = _mapping(config.get("quantized_layers"))
    if named:
        rules = [(str(name), _algorithm(str(_mapping(item).get("quant_algo", "")), where)) for name, item in named.items()]
        return Quantization(name="modelopt mixed", rules=(*skipped, *rules), kv_fp8=kv_fp8)
    if algo == "MIXED_PRECISION":
        groups = [item for item in _mapping(config.get("config_groups")).values() if isinstance(item, Mapping)]
        rules, default = _groups(groups, where)
        return Quantization(name="modelopt mixed", default=default, rules=(*skipped, *rules), kv_fp8=kv_fp8)
    return Quantization(name=f"modelopt {algo}", default=_algorithm(algo, where), rules=tuple(skipped), kv_fp8=kv_fp8)


def _algorithm(algo: str, where: str) -> Scheme:
    word = algo.upper()
    if "NVFP4" in word:
        return Scheme(packing="nvfp4", bits=4)
    if "MXFP4" in word:
        return Scheme(packing="mxfp4", bits=4)
    if word.startswith("FP8"):
        return Scheme(packing="fp8_channel" if "PER_CHANNEL" in word else "fp8_tensor", bits=8)
    raise OomctlError(f'quantization "{algo}" is not known ({where})', "known of modelopt: FP8, NVFP4, MXFP4")


def _groups(groups: list[Mapping[str, Any]], where: str) -> tuple[list[tuple[str, Scheme]], Scheme]:
    """The packings of config_groups; the one whose target is a class of modules is the default."""
    rules: list[tuple[str, Scheme]] = []
    default = PLAIN
    for group in groups:
        scheme = _compressed(_mapping(group.get("weights")), where)
        for target in _names(group.get("targets")):
            if target in ("Linear", "FusedMoE", "LinearBase"):
                default = scheme
            else:
                rules.append((target, scheme))
    return rules, default


def _compressed(weights: Mapping[str, Any], where: str) -> Scheme:
    bits, kind, strategy = weights.get("num_bits"), weights.get("type"), weights.get("strategy")
    group = weights.get("group_size")
    if bits == 8 and kind == "float":
        if strategy == "block":
            block = weights.get("block_structure")
            pair = _pair(block) or (128, 128)
            return Scheme(packing="fp8_block", bits=8, block=pair)
        return Scheme(packing="fp8_channel" if strategy == "channel" else "fp8_tensor", bits=8)
    if bits == 4 and kind == "float":
        return Scheme(packing="mxfp4" if group == 32 else "nvfp4", bits=4)
    if bits == 8 and kind == "int" and group is None:
        return Scheme(packing="int8_channel", bits=8)
    if bits in (4, 8) and kind == "int":
        return Scheme(
            packing="int4_group",
            bits=bits,
            group=int(group) if isinstance(group, int) and group > 0 else None,
            zeros=not weights.get("symmetric", True),
            group_index=bool(weights.get("actorder")),
        )
    raise OomctlError(f"quantised weights of {bits} bits, type {kind}, are not known ({where})")


def _pair(value: Any) -> tuple[int, int] | None:
    sized = isinstance(value, list) and len(value) == 2 and all(isinstance(one, int) and one > 0 for one in value)
    return (value[0], value[1]) if sized else None


def _names(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
