"""A checkpoint's `quantization_config` as the packing of its matrices."""

from collections.abc import Mapping
from typing import Any

from oomctl.analyzers.ledger.packing import PLAIN, Quantization, Scheme
from oomctl.schemas.errors import OomctlError


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
        return Quantization(name="compressed-tensors", default=default, rules=(*skipped, *rules), kv_fp8=_keeps_fp8(config))
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
        f'quantization "{(method or algo or "?")[:40]}" is not known ({where})',
        "known: fp8, fbgemm_fp8, compressed-tensors, gptq, awq, auto-round, mxfp4, modelopt",
    )


def online(method: str) -> Quantization:
    """What `--quantization METHOD` makes of a checkpoint that is not quantised.

    >>> online("fp8").default.packing
    'fp8_tensor'
    """
    if method == "fp8":
        return Quantization(name="fp8", default=Scheme(packing="fp8_tensor", bits=8))
    raise OomctlError(f'quantization "{method[:40]}" cannot be made while loading', "known: fp8")


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
    kv_fp8 = _keeps_fp8(config)
    named = _mapping(config.get("quantized_layers"))
    if named:
        rules = [(str(name), _algorithm(str(_mapping(item).get("quant_algo", "")), where)) for name, item in named.items()]
        return Quantization(name="modelopt mixed", rules=(*skipped, *rules), kv_fp8=kv_fp8)
    if algo == "MIXED_PRECISION":
        groups = [item for item in _mapping(config.get("config_groups")).values() if isinstance(item, Mapping)]
        rules, default = _groups(groups, where)
        return Quantization(name="modelopt mixed", default=default, rules=(*skipped, *rules), kv_fp8=kv_fp8)
    return Quantization(name=f"modelopt {algo}", default=_algorithm(algo, where), rules=tuple(skipped), kv_fp8=kv_fp8)


def _keeps_fp8(config: Mapping[str, Any]) -> bool:
    """Whether the checkpoint asks for keys and values in FP8."""
    kv = config.get("kv_cache_quant_algo") or config.get("kv_cache_scheme")
    return (isinstance(kv, str) and kv.upper() == "FP8") or (isinstance(kv, Mapping) and kv.get("num_bits") == 8)


def _algorithm(algo: str, where: str) -> Scheme:
    word = algo.upper()
    if "NVFP4" in word:
        return Scheme(packing="nvfp4", bits=4)
    if "MXFP4" in word:
        return Scheme(packing="mxfp4", bits=4)
    if word.startswith("FP8"):
        return Scheme(packing="fp8_channel" if "PER_CHANNEL" in word else "fp8_tensor", bits=8)
    raise OomctlError(f'quantization "{algo[:40]}" is not known ({where})', "known of modelopt: FP8, NVFP4, MXFP4")


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
    raise OomctlError(f"quantised weights of {str(bits)[:20]} bits, type {str(kind)[:20]}, are not known ({where})")


def _pair(value: Any) -> tuple[int, int] | None:
    sized = isinstance(value, list) and len(value) == 2 and all(isinstance(one, int) and one > 0 for one in value)
    return (value[0], value[1]) if sized else None


def _names(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
