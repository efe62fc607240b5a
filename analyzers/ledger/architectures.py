"""What an architecture's code fixes and its config does not say. No sizes stand here: those come from configs."""

import msgspec


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """Of one architecture's modelling code.

    Args:
        tied: Whether embeddings and head are one tensor where the config does not say.
        rotary_float32: The rotary table is kept in fp32.
    """

    qkv_bias: bool | None = None
    output_bias: bool | None = None
    mlp_bias: bool | None = None
    qk_norm: bool = False
    gated: bool = True
    norms: int = 2
    norm_bias: bool = False
    head_bias: bool = False
    tied: bool = False
    rotates: bool = True
    rotary_float32: bool = False
    shared_gate: bool = False
    attention_gate: bool = False
    complete: bool = True
    """False where parts of the model are not counted: the figure is a lower bound."""


_PLAIN = Traits()
_QWEN2 = Traits(qkv_bias=True)
_QWEN3 = Traits(qk_norm=True)
_DEEPSEEK = Traits(rotary_float32=True)
_QWEN35 = Traits(qk_norm=True, shared_gate=True, attention_gate=True)

# Looked up in vLLM's model_executor/models: one entry per class of `architectures`.
ARCHITECTURES: dict[str, Traits] = {
    "LlamaForCausalLM": _PLAIN,
    "MistralForCausalLM": _PLAIN,
    "Mistral3ForConditionalGeneration": _PLAIN,
    "MixtralForCausalLM": _PLAIN,
    "GraniteForCausalLM": _PLAIN,
    "MiMoForCausalLM": _QWEN2,
    "Phi3ForCausalLM": _PLAIN,
    "PhiForCausalLM": Traits(
        qkv_bias=True, output_bias=True, mlp_bias=True, gated=False, norms=1, norm_bias=True, head_bias=True
    ),
    "Qwen2ForCausalLM": _QWEN2,
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
    "Gemma3ForCausalLM": Traits(tied=True, norms=4, qk_norm=True),
    "Gemma3ForConditionalGeneration": Traits(tied=True, norms=4, qk_norm=True),
    "Gemma4ForConditionalGeneration": Traits(tied=True, norms=4, qk_norm=True, complete=False),
    "GptOssForCausalLM": Traits(qkv_bias=True, output_bias=True, mlp_bias=True),
    "MiniMaxM2ForCausalLM": _QWEN3,
    "MiMoV2FlashForCausalLM": _PLAIN,
    "DeepseekV2ForCausalLM": _DEEPSEEK,
    "DeepseekV3ForCausalLM": _DEEPSEEK,
    "DeepseekV32ForCausalLM": _DEEPSEEK,
    "GlmMoeDsaForCausalLM": _DEEPSEEK,
    "KimiK25ForConditionalGeneration": _DEEPSEEK,
    "KimiVLForConditionalGeneration": _DEEPSEEK,
    "KimiLinearForCausalLM": Traits(rotary_float32=True, complete=False),
    "Llama4ForConditionalGeneration": _PLAIN,
    "JambaForCausalLM": Traits(rotates=False),
    "MambaForCausalLM": Traits(tied=True, norms=1, rotates=False),
    "FalconMambaForCausalLM": Traits(tied=True, norms=1, rotates=False),
    "Lfm2ForCausalLM": Traits(tied=True, qk_norm=True),
    "Lfm2MoeForCausalLM": Traits(tied=True, qk_norm=True),
    "NemotronHForCausalLM": Traits(gated=False, norms=1, rotates=False),
}
