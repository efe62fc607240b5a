"""What an architecture's code fixes and its config does not say. No sizes stand here: those come from configs."""

from typing import Literal

import msgspec

QkNorm = Literal["", "head", "heads", "whole"]
"""Norms of queries and keys: none, one of a head's width for all heads, one per head, or one over all heads together."""


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """Of one architecture's modelling code.

    Args:
        output_bias: Whether attention's output projection has a bias where q, k and v have one.
        named_qk_norm: Of queries and keys where the config says that there is one, and not which.
        norms: Per layer.
        widening: The feed-forward width in hidden sizes, where the config does not say it.
        tied: Whether embeddings and head are one tensor where the config does not say.
        positions: Rows of a learned table of positions beyond the maximum length; None where there is no such table.
        rotary_float32: The rotary table is kept in fp32.
        router_bias: Experts are chosen with a correction per expert, in fp32.
        complete: False where parts of the model are not counted: the figure is a lower bound.
    """

    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: QkNorm = ""
    named_qk_norm: QkNorm = "head"
    gated: bool = True
    norms: int = 2
    norm_bias: bool = False
    head_bias: bool = False
    tied: bool = False
    rotates: bool = True
    rotary_float32: bool = False
    shared_gate: bool = False
    attention_gate: bool = False
    router_bias: bool = False
    widening: int | None = None
    positions: int | None = None
    embedding_norm: bool = False
    complete: bool = True


_LLAMA = Traits(output_bias=True)
_QWEN2 = Traits(qkv_bias=True)
_QWEN3 = Traits(qk_norm="head")
_DEEPSEEK = Traits(rotary_float32=True)
_QWEN35 = Traits(qk_norm="head", shared_gate=True, attention_gate=True)
_GEMMA3 = Traits(tied=True, norms=4, qk_norm="head")
_COHERE = Traits(tied=True, norms=1, named_qk_norm="heads")
_BIASED = Traits(qkv_bias=True, output_bias=True, mlp_bias=True, gated=False, norm_bias=True, tied=True)
_MAMBA = Traits(tied=True, norms=1, rotates=False)

# Looked up in vLLM's model_executor/models: one entry per class of `architectures`.
ARCHITECTURES: dict[str, Traits] = {
    "LlamaForCausalLM": _LLAMA,
    "MistralForCausalLM": _LLAMA,
    "Mistral3ForConditionalGeneration": _LLAMA,
    "LlavaForConditionalGeneration": _LLAMA,
    "LlavaNextForConditionalGeneration": _LLAMA,
    "EagleLlamaForCausalLM": _LLAMA,
    "LlamaForCausalLMEagle3": _LLAMA,
    "MixtralForCausalLM": Traits(),
    "DeciLMForCausalLM": _LLAMA,
    "InternLM2ForCausalLM": _LLAMA,
    "InternLM3ForCausalLM": _LLAMA,
    "InternVLChatModel": _LLAMA,
    "InternVLForConditionalGeneration": _LLAMA,
    "BaichuanForCausalLM": Traits(),
    "AquilaForCausalLM": _LLAMA,
    "SmolLM3ForCausalLM": _LLAMA,
    "SeedOssForCausalLM": Traits(),
    "GraniteForCausalLM": _LLAMA,
    "GraniteMoeForCausalLM": Traits(tied=True),
    "GraniteMoeHybridForCausalLM": Traits(tied=True, rotates=False),
    "BambaForCausalLM": Traits(),
    "ExaoneForCausalLM": Traits(),
    "Exaone4ForCausalLM": _QWEN3,
    "Olmo2ForCausalLM": Traits(qk_norm="whole"),
    "Olmo3ForCausalLM": Traits(qk_norm="whole"),
    "OlmoeForCausalLM": Traits(qk_norm="whole"),
    "CohereForCausalLM": _COHERE,
    "Cohere2ForCausalLM": _COHERE,
    "ApertusForCausalLM": Traits(qk_norm="head", gated=False),
    "ArceeForCausalLM": Traits(gated=False),
    "NemotronForCausalLM": Traits(gated=False, norm_bias=True),
    "StableLmForCausalLM": Traits(norm_bias=True, named_qk_norm="heads"),
    "StableLMEpochForCausalLM": Traits(norm_bias=True, named_qk_norm="heads"),
    "Starcoder2ForCausalLM": _BIASED,
    "GPT2LMHeadModel": msgspec.structs.replace(_BIASED, rotates=False, widening=4, positions=0),
    "GPTBigCodeForCausalLM": msgspec.structs.replace(_BIASED, rotates=False, widening=4, positions=0),
    "OPTForCausalLM": msgspec.structs.replace(_BIASED, rotates=False, positions=2),
    "BloomForCausalLM": msgspec.structs.replace(_BIASED, rotates=False, widening=4, embedding_norm=True),
    "GPTNeoXForCausalLM": msgspec.structs.replace(_BIASED, tied=False),
    "GPTJForCausalLM": Traits(mlp_bias=True, gated=False, norms=1, norm_bias=True, head_bias=True, widening=4),
    "FalconForCausalLM": Traits(gated=False, norms=1, norm_bias=True, tied=True, widening=4),
    "MPTForCausalLM": Traits(gated=False, rotates=False, tied=True, widening=4),
    "MptForCausalLM": Traits(gated=False, rotates=False, tied=True, widening=4),
    "DbrxForCausalLM": Traits(),
    "MiMoForCausalLM": _QWEN2,
    "Phi3ForCausalLM": Traits(),
    "PhiForCausalLM": msgspec.structs.replace(_BIASED, norms=1, head_bias=True, tied=False),
    "PhiMoEForCausalLM": Traits(output_bias=True, norm_bias=True),
    "ChatGLMModel": _QWEN2,
    "ChatGLMForConditionalGeneration": _QWEN2,
    "GlmForCausalLM": Traits(),
    "Glm4ForCausalLM": Traits(norms=4),
    "Glm4MoeForCausalLM": Traits(router_bias=True),
    "Qwen2ForCausalLM": _QWEN2,
    "Qwen2VLForConditionalGeneration": _QWEN2,
    "Qwen2_5_VLForConditionalGeneration": _QWEN2,
    "Qwen2MoeForCausalLM": Traits(qkv_bias=True, shared_gate=True),
    "Qwen3ForCausalLM": _QWEN3,
    "Qwen3MoeForCausalLM": _QWEN3,
    "Qwen3VLForConditionalGeneration": _QWEN3,
    "Qwen3VLMoeForConditionalGeneration": _QWEN3,
    "Qwen3OmniMoeForConditionalGeneration": _QWEN3,
    "Qwen3NextForCausalLM": _QWEN35,
    "Qwen3_5ForConditionalGeneration": _QWEN35,
    "Qwen3_5MoeForConditionalGeneration": _QWEN35,
    "GemmaForCausalLM": Traits(tied=True),
    "Gemma2ForCausalLM": Traits(tied=True, norms=4),
    "Gemma3ForCausalLM": _GEMMA3,
    "Gemma3ForConditionalGeneration": _GEMMA3,
    "Gemma4ForConditionalGeneration": msgspec.structs.replace(_GEMMA3, complete=False),
    "GptOssForCausalLM": Traits(qkv_bias=True, output_bias=True, mlp_bias=True),
    "HunYuanDenseV1ForCausalLM": Traits(tied=True),
    "HunYuanMoEV1ForCausalLM": Traits(tied=True),
    "Ernie4_5ForCausalLM": Traits(tied=True),
    "Ernie4_5_ForCausalLM": Traits(tied=True),
    "Ernie4_5_MoeForCausalLM": Traits(tied=True, router_bias=True),
    "Dots1ForCausalLM": Traits(qk_norm="head", router_bias=True),
    "BailingMoeForCausalLM": Traits(),
    "Grok1ModelForCausalLM": Traits(norms=4, tied=True),
    "MiniMaxText01ForCausalLM": Traits(),
    "MiniMaxM2ForCausalLM": Traits(qk_norm="heads", router_bias=True),
    "MiMoV2FlashForCausalLM": Traits(),
    "DeepseekForCausalLM": Traits(),
    "DeepseekV2ForCausalLM": _DEEPSEEK,
    "DeepseekV3ForCausalLM": _DEEPSEEK,
    "DeepseekV32ForCausalLM": _DEEPSEEK,
    "MiniCPM3ForCausalLM": Traits(tied=True),
    "GlmMoeDsaForCausalLM": _DEEPSEEK,
    "KimiK25ForConditionalGeneration": _DEEPSEEK,
    "KimiVLForConditionalGeneration": _DEEPSEEK,
    "KimiLinearForCausalLM": Traits(rotary_float32=True),
    "Llama4ForCausalLM": Traits(),
    "Llama4ForConditionalGeneration": Traits(),
    "JambaForCausalLM": Traits(rotates=False),
    "MambaForCausalLM": _MAMBA,
    "Mamba2ForCausalLM": _MAMBA,
    "FalconMambaForCausalLM": _MAMBA,
    "FalconH1ForCausalLM": Traits(),
    "Lfm2ForCausalLM": Traits(tied=True, qk_norm="head"),
    "Lfm2MoeForCausalLM": Traits(tied=True, qk_norm="head"),
    "NemotronHForCausalLM": Traits(gated=False, norms=1, rotates=False),
}
_SUFFIXES = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")
_BY_TYPE = {
    name.removesuffix(suffix).lower(): name for suffix in _SUFFIXES for name in ARCHITECTURES if name.endswith(suffix)
}


def named(architecture: str, model_type: str) -> str:
    """The architecture of a config: as it says, else the one whose name its `model_type` spells.

    >>> named("", "qwen3_moe"), named("", "gemma3_text"), named("NovelForCausalLM", "llama")
    ('Qwen3MoeForCausalLM', 'Gemma3ForConditionalGeneration', 'NovelForCausalLM')
    """
    if architecture:
        return architecture
    spelt = model_type.lower().removesuffix("_text").replace("_", "").replace("-", "")
    return _BY_TYPE.get(spelt) or model_type or "unknown"


_UNGATED = ("gelu", "relu", "xielu")


def assumed(activation: str) -> Traits:
    """Of an architecture that is not known: the least that a decoder has, so that the figure is a lower bound."""
    return Traits(tied=True, gated=not any(word in activation.lower() for word in _UNGATED), norms=1)
