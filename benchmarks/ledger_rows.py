"""Rows of truth.jsonl as shapes and engines: the configs they name, or a config made of the facts that they carry."""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from oomctl.analyzers.ledger.config import DTYPE_BYTES, from_mapping, load
from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.quantization import read_quantization
from oomctl.analyzers.ledger.shape import ModelShape
from oomctl.schemas.errors import OomctlError

Row = Mapping[str, Any]

# A row's short facts under a config's names.
FIELDS = {
    "L": "num_hidden_layers", "h": "hidden_size", "nh": "num_attention_heads", "nkv": "num_key_value_heads",
    "hd": "head_dim", "I": "intermediate_size", "V": "vocab_size", "E": "n_routed_experts", "mI": "moe_intermediate_size",
    "shared_I": "shared_expert_intermediate_size", "first_dense": "first_k_dense_replace", "kv_lora": "kv_lora_rank",
    "rope": "qk_rope_head_dim", "nope": "qk_nope_head_dim", "vd": "v_head_dim", "q_lora": "q_lora_rank",
    "index_head_dim": "index_head_dim", "v_heads": "linear_num_value_heads", "k_heads": "linear_num_key_heads",
    "k_dim": "linear_key_head_dim", "v_dim": "linear_value_head_dim", "conv": "linear_conv_kernel_dim",
    "tie": "tie_word_embeddings", "qkv_bias": "attention_bias", "qk_norm": "use_qk_norm",
}  # fmt: skip


FAMILIES: dict[str, str] = json.loads(Path(__file__).with_name("families.json").read_text())
"""Architectures of families whose rows carry sizes but no architecture; the first pattern that matches counts."""
WEIGHTS_NEED = ("h", "nh", "V")


class NotCovered(Exception):
    """Why a row cannot be predicted."""


def config_of(row: Row, folder: Path) -> Path | None:
    """The config that the row names as the source of its facts, where it is there."""
    source = str(row.get("arch_source") or "")
    for name in re.findall(r"([\w.\-]+)(?:_config\.json|/config\.json)", source):
        for file in sorted(folder.glob("*_config.json")):
            stem = file.name.removesuffix("_config.json")
            if name.lower() in (stem.lower(), stem.lower().removeprefix("blis--"), stem.split("--")[-1].lower()):
                return file
    return None


def shape_of(row: Row, folder: Path, logs: Path) -> ModelShape:
    """The shape of a row's model, packed as the row says.

    Raises:
        NotCovered: Its facts are too few.
    """
    named = config_of(row, folder)
    try:
        base = json.loads(named.read_text()) if named else _made(row, _architecture(row, logs))
        packing = quantization_of(row)
        text = next((base[key] for key in ("text_config", "llm_config") if isinstance(base.get(key), dict)), base)
        own = base.get("quantization_config") or text.get("quantization_config")
        if packing and own and _bits(own) == _bits(packing):
            packing = None  # the config's own says more than the row's words
        if packing is not None:
            text.pop("quantization_config", None)
            base["quantization_config"] = packing
        return load(named) if named and packing is None else from_mapping(base, str(row["model"]))
    except OomctlError as error:
        raise NotCovered(f"the row's facts are too few: {error.what}") from None


def weight_facts_missing(row: Row, folder: Path) -> str:
    """Which facts the weights need and a row lacks; "" where none."""
    if row.get("tp") is None:
        return "how many ranks share the weights"
    if "/" in str(row.get("quant") or "").replace("awq/gptq", "").replace("AWQ/GPTQ", "").replace("awq/wna16", ""):
        return f"which of {row['quant']} it is"
    if config_of(row, folder) is not None:
        return ""
    arch = row["arch"]
    lacking = [FIELDS[key] for key in WEIGHTS_NEED if key not in arch]
    if not {"I", "mI"} & set(arch):
        lacking.append("intermediate_size")
    return ", ".join(lacking)


def engine_of(row: Row) -> Engine:
    """The engine of a row, with the arguments that it tells."""
    version, block = str(row["version"]), row.get("block_size")
    mtp = re.search(r"MTP\s*\(?n=(\d)", str(row["model"]))
    dtype = str(row.get("dtype") or "").removeprefix("torch.")
    kv = str(row.get("kv_dtype") or "auto").lower()
    return Engine(
        name=str(row["engine"]),
        version=version_of(version),
        v0=True if "V0" in version else False if "V1" in version else None,
        tensor_parallel=row.get("tp") or 1,
        pipeline_parallel=row.get("pp") or 1,
        expert_parallel=(row.get("ep") or 1) > 1,
        data_parallel=row.get("dp") or 1,
        dp_attention=row["engine"] == "sglang" and (row.get("dp") or 1) > 1,
        context_parallel=row.get("dcp") or 1,
        utilization=row.get("util") or 0.9,
        block_size=block if isinstance(block, int) else 16,
        max_model_len=row.get("max_model_len"),
        batched_tokens=row.get("max_num_batched_tokens") or 8192,
        max_requests=row.get("max_num_seqs") or 1024,
        dtype_bytes=DTYPE_BYTES["float32"] if dtype == "float32" else None,
        kv_dtype="fp8" if kv.startswith("fp8") else "auto" if kv in ("auto", "bf16", "fp16") else kv,
        draft_tokens=int(mtp[1]) if mtp else 0,
    )


def version_of(text: str) -> tuple[int, int]:
    """(major, minor) of what a report says; an x stands for the middle of what it leaves open, a date for (9, 9)."""
    match = re.match(r"v?(\d)\.(\d{1,2})(x?)", text)
    if match is None:
        return (9, 9)
    return int(match[1]), int(match[2] + "5" if match[3] else match[2])


def quantization_of(row: Row) -> dict[str, Any] | None:
    """A quantization_config of the words of a row; None where the config's own stands, {} where there is none."""
    words = f"{row.get('quant') or ''} {row['model']}".lower()
    said = str(row.get("quant") or "none").lower()
    if said == "none":
        return {}
    if "w8a8" in words or "int8" in said:
        return _compressed(8, "int", "channel")
    if "fp8" in said and "block" in said:
        return {"quant_method": "fp8", "weight_block_size": [128, 128]}
    if "channel" in said or "fp8-dynamic" in words or "fbgemm" in said:
        kept = ["re:.*self_attn.*"] if "attn unquantised" in said or "attention unquantised" in said else []
        return {"quant_method": "fbgemm_fp8", "modules_to_not_convert": [*kept, "lm_head"]}
    if said == "fp8":
        return {"quant_method": "fp8"}
    if "mxfp4" in said or "nvfp4" in said:
        return None
    if "awq" in words:
        return {"quant_method": "awq", "bits": 4, "group_size": _group(said, row), "zero_point": True}
    if "w4a16" in words or "int4" in said or "gptq" in said or "4-bit" in said:
        return {"quant_method": "gptq", "bits": 4, "group_size": _group(said, row), "sym": True}
    return None


def _bits(config: Mapping[str, Any]) -> int:
    return read_quantization(config, "row").default.bits


def _group(text: str, row: Row) -> int:
    """Weights that share a scale: as the row says, else the largest usual group that divides every input of a matrix."""
    match = re.search(r"g(\d{2,3})\b", text)
    if match:
        return int(match[1])
    inputs = [row["arch"][key] for key in ("h", "I", "mI") if key in row["arch"]]
    return next((group for group in (128, 64, 32) if all(one % group == 0 for one in inputs)), 32)


def _compressed(bits: int, kind: str, strategy: str) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": kind, "strategy": strategy, "symmetric": True}
    return {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ["lm_head"],
    }


@lru_cache(maxsize=256)
def _resolved(log: Path) -> str | None:
    with log.open(errors="replace") as lines:
        for line, _ in zip(lines, range(400), strict=False):
            match = re.search(r"Resolved architecture: (\w+)", line)
            if match:
                return match[1]
    return None


def _architecture(row: Row, logs: Path) -> str:
    """As the row's own log resolved it; without a log by the family's name, else the plainest that has the row's parts."""
    log = logs / (str(row["id"]).removeprefix("planner-") + ".log")
    resolved = _resolved(log) if log.is_file() else None
    arch = row["arch"]
    if resolved:
        return resolved
    named = next((made for words, made in FAMILIES.items() if re.search(words, str(row["model"]), re.IGNORECASE)), None)
    if named:
        return named
    if "kv_lora" in arch:
        return "DeepseekV2ForCausalLM"
    if "gdn" in arch:
        return "Qwen3_5ForConditionalGeneration"
    return "LlamaForCausalLM"


@lru_cache(maxsize=1)
def _towers() -> dict[str, dict[str, Any]]:
    """Vision towers by architecture, as published configs give them: rows tell of the language model alone.

    Looked up in public code and documentation: siglip and MoonViT in several repositories each, pixtral's in that of
    Mistral Small 3.2, Qwen2.5-VL's in that of its 32B model; "128000" is that family's documented context.
    """
    found: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("towers.json").read_text())
    return found


def _made(row: Row, architecture: str) -> dict[str, Any]:
    """A config of a row's facts."""
    arch = dict(row["arch"])
    ropes = arch.pop("ropes", [])
    window, full, linear, delta = (arch.pop(key, None) for key in ("swa", "full", "gdn", "kda"))
    config: dict[str, Any] = {FIELDS[key]: value for key, value in arch.items() if key in FIELDS}
    config["architectures"] = [architecture]
    count = arch.get("L", 0)
    if window:
        few = count - window["n"]
        kinds = ["full_attention"] * few + ["sliding_attention"] * window["n"]
        config |= {"layer_types": kinds, "sliding_window": window["w"]}
    if linear:
        config["layer_types"] = ["linear_attention"] * linear + ["full_attention"] * (full or 0)
        config["mamba_ssm_dtype"] = "float32"
    if delta:
        heads = {"num_heads": config.get("num_attention_heads"), "head_dim": config.get("head_dim") or 128}
        kept = {"full_attn_layers": list(range(1, count - delta + 1)), "short_conv_kernel_size": 4}
        config["linear_attn_config"] = heads | kept
    if ropes:
        config |= {"max_position_embeddings": ropes[-1][0], "rotary_dim": ropes[0][1]}
    if len(ropes) > 1:
        config["rope_scaling"] = {"rope_type": "linear", "factor": ropes[0][0] / ropes[-1][0]}
        config["rope_local_base_freq"] = 10000
    if not ropes:
        config["max_position_embeddings"] = row.get("max_model_len") or 4096
    config |= _towers().get(architecture, {})
    # Rows that tell the cache's dimensions alone: the rest does not move the cache (see `weight_facts_missing`).
    config.setdefault("num_attention_heads", config.get("linear_num_value_heads") or config.get("num_key_value_heads"))
    config.setdefault("linear_num_key_heads", config.get("linear_num_value_heads"))
    config.setdefault("linear_conv_kernel_dim", 4)
    for field in ("hidden_size", "intermediate_size", "vocab_size"):
        config.setdefault(field, 1)
    return config
