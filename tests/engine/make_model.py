"""Write a tiny Llama with random weights and a tokenizer of its own: nothing is downloaded. Runs in the engine's Python.

    python make_model.py FOLDER

Its vocabulary is `w0` to `w495` and four special tokens, one token a word, so that who writes a prompt knows its length.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

WORDS = 496
SPECIAL = ("<unk>", "<s>", "</s>", "<pad>")
LAYERS, HIDDEN, HEADS, KV_HEADS, INTERMEDIATE = 2, 256, 4, 2, 512
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": WORDS + len(SPECIAL),
    "hidden_size": HIDDEN,
    "intermediate_size": INTERMEDIATE,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HIDDEN // HEADS,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 3,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def weights() -> dict[str, torch.Tensor]:
    """Random weights, the same in every run."""
    generator = torch.Generator().manual_seed(7)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return (torch.randn(rows, columns, generator=generator) * 0.02).to(torch.bfloat16)

    vocabulary = WORDS + len(SPECIAL)
    kv = HIDDEN // HEADS * KV_HEADS
    found = {
        "model.embed_tokens.weight": matrix(vocabulary, HIDDEN),
        "model.norm.weight": torch.ones(HIDDEN, dtype=torch.bfloat16),
        "lm_head.weight": matrix(vocabulary, HIDDEN),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        shapes = {
            "self_attn.q_proj": (HIDDEN, HIDDEN),
            "self_attn.k_proj": (kv, HIDDEN),
            "self_attn.v_proj": (kv, HIDDEN),
            "self_attn.o_proj": (HIDDEN, HIDDEN),
            "mlp.gate_proj": (INTERMEDIATE, HIDDEN),
            "mlp.up_proj": (INTERMEDIATE, HIDDEN),
            "mlp.down_proj": (HIDDEN, INTERMEDIATE),
        }
        for name, (rows, columns) in shapes.items():
            found[f"{prefix}{name}.weight"] = matrix(rows, columns)
        for name in ("input_layernorm", "post_attention_layernorm"):
            found[f"{prefix}{name}.weight"] = torch.ones(HIDDEN, dtype=torch.bfloat16)
    return found


def tokenizer() -> dict[str, object]:
    """A word-level tokenizer in the format of the `tokenizers` library."""
    special = [
        {"id": number, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": True}
        for number, text in enumerate(SPECIAL)
    ]  # fmt: skip
    vocabulary = {text: number for number, text in enumerate((*SPECIAL, *(f"w{word}" for word in range(WORDS))))}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    }


def main(folder: Path) -> None:
    """Write the four files that an engine loads."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights(), folder / "model.safetensors", metadata={"format": "pt"})
    names = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    settings = {**names, "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 4096}
    for name, content in (("config", CONFIG), ("tokenizer", tokenizer()), ("tokenizer_config", settings)):
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
