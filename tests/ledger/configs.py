"""Configs of small models made for these tests: one per kind of attention and feed-forward part."""

import json
from pathlib import Path
from typing import Any

DENSE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 1000,
    "max_position_embeddings": 1024,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
SLIDING = DENSE | {
    "num_hidden_layers": 6,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
    "sliding_window": 64,
}
LATENT = DENSE | {
    "architectures": ["DeepseekV2ForCausalLM"],
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 128,
    "first_k_dense_replace": 1,
}
HYBRID = DENSE | {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "num_hidden_layers": 8,
    "full_attention_interval": 4,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "linear_conv_kernel_dim": 4,
    "mamba_ssm_dtype": "float32",
}
PATTERN = DENSE | {
    "architectures": ["NemotronHForCausalLM"],
    "hybrid_override_pattern": "M*-ME",
    "mamba_num_heads": 8,
    "mamba_head_dim": 32,
    "ssm_state_size": 16,
    "n_groups": 2,
    "conv_kernel": 4,
    "n_routed_experts": 4,
    "moe_intermediate_size": 128,
}


def write(folder: Path, config: dict[str, Any], name: str = "config.json") -> Path:
    """The config as a file."""
    path = folder / name
    path.write_text(json.dumps(config))
    return path
