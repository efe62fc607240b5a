"""The tokenizer that aiperf loads and never uses: prompts are token ids already, and the server counts."""

import json
from pathlib import Path
from typing import Any

NAME = "oomctl/tokens"
COMMIT = "0" * 40
TOKENIZER: dict[str, Any] = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
    "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"<unk>": 0, "w": 1}, "unk_token": "<unk>"},
}  # fmt: skip
FILES = {
    "tokenizer.json": TOKENIZER,
    "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"},
    "config.json": {"model_type": "llama", "architectures": ["LlamaForCausalLM"]},
}


def write_tokenizer(folder: Path) -> dict[str, str]:
    """Put it where a cache of Hugging Face's hub has it (refs/main, snapshots/COMMIT).

    Args:
        folder: The cache is made in it.

    Returns:
        The variables with which it is found there, and nowhere else.
    """
    home = folder.resolve() / "hf"
    model = home / "hub" / f"models--{NAME.replace('/', '--')}"
    snapshot = model / "snapshots" / COMMIT
    snapshot.mkdir(parents=True, exist_ok=True)
    (model / "refs").mkdir(exist_ok=True)
    (model / "refs" / "main").write_text(COMMIT, encoding="ascii")
    for name, content in FILES.items():
        (snapshot / name).write_text(json.dumps(content), encoding="utf-8")
    return {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
