"""A config's fields under the names that models give them, with one clear error for what is missing."""

from collections.abc import Mapping
from typing import Any

from oomctl.schemas.errors import OomctlError

SPELLINGS: dict[str, tuple[str, ...]] = {
    "hidden_size": ("n_embd", "d_model", "n_embed"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads"),
    "num_key_value_heads": ("num_kv_heads", "kv_n_heads", "multi_query_group_num", "n_head_kv"),
    "head_dim": ("attention_head_dim", "kv_channels"),
    "intermediate_size": ("ffn_hidden_size", "n_inner", "block_ff_dim", "ffn_dim"),
    "vocab_size": ("padded_vocab_size",),
    "max_position_embeddings": ("n_positions", "max_seq_len", "max_sequence_length", "seq_length"),
    "n_routed_experts": ("num_local_experts", "num_experts", "moe_num_experts"),
    "num_experts_per_tok": (
        "num_experts_per_token", "experts_per_token", "top_k_experts", "moe_topk", "moe_top_k", "moe_k",
    ),
    "n_shared_experts": ("num_shared_experts", "num_shared_expert", "moe_num_shared_experts"),
    "first_k_dense_replace": ("num_dense_layers", "moe_layer_start_index"),
    "shared_expert_intermediate_size": (
        "moe_shared_expert_intermediate_size", "shared_intermediate_size", "share_expert_dim",
    ),
    "dtype": ("torch_dtype",),
}  # fmt: skip
"""A field as this ledger names it, and as other models spell it."""


class Fields:
    """A JSON object with several spellings per field.

    Args:
        values: The object.
        where: Its file, for errors.
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values = values
        self.where = where

    def get(self, *names: str) -> Any:
        """The first of these fields that is there, in any spelling, and not null."""
        for name in names:
            for spelling in (name, *SPELLINGS.get(name, ())):
                if self._values.get(spelling) is not None:
                    return self._values[spelling]
        return None

    def maybe(self, *names: str) -> int | None:
        """A count of at least 0, or None; a list of one and the same count per layer stands for it."""
        value = self.get(*names)
        if isinstance(value, list) and value and all(one == value[0] for one in value):
            value = value[0]
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**48:
            raise OomctlError(f"{names[0]} is no count: {str(value)[:40]} ({self.where})")
        return value

    def need(self, *names: str) -> int:
        """A count of at least 1.

        Raises:
            OomctlError: It is missing, or no such count.
        """
        value = self.maybe(*names)
        if not value:
            raise OomctlError(
                f"{' or '.join(names)} is missing ({self.where})", "is it the config.json of a language model?"
            )
        return value

    def flag(self, *names: str, default: bool = False) -> bool:
        """A truth value."""
        value = self.get(*names)
        return default if value is None else bool(value)

    def words(self, name: str) -> list[str]:
        """A list of words; empty where there is none."""
        value = self.get(name)
        return [str(item) for item in value] if isinstance(value, list) else []

    def numbers(self, name: str) -> list[int]:
        """A list of counts; empty where there is none."""
        value = self.get(name)
        return [item for item in value if type(item) is int] if isinstance(value, list) else []

    def objects(self, name: str) -> list["Fields"]:
        """A list of objects; empty where there is none."""
        value = self.get(name)
        return [Fields(item, self.where) for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []

    def object(self, *names: str) -> "Fields":
        """A nested object; an empty one where there is none."""
        value = self.get(*names)
        return Fields(value if isinstance(value, Mapping) else {}, self.where)

    def flat(self, *names: str) -> "Fields":
        """These fields with those of nested objects beside them, where models keep a part's sizes in one."""
        nested = {name: value for key in names for name, value in self.object(key)._values.items()}
        return Fields({**nested, **self._values}, self.where)

    def __bool__(self) -> bool:
        return bool(self._values)
