"""The shape of a model: all that its memory depends on, free of the spelling of its config."""

from pathlib import Path
from typing import Literal

import msgspec

from oomctl.analyzers.ledger.architectures import QkNorm
from oomctl.analyzers.ledger.packing import Quantization


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """Multi-head attention with grouped KV heads; `window` or `chunk` in tokens where it does not see everything."""

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: QkNorm = ""
    gated: bool = False
    """A query projection twice as wide, whose second half gates the output."""
    window: int | None = None
    chunk: int | None = None
    shares_cache: bool = False
    """It reads what an earlier layer kept, and keeps nothing."""
    values: Literal["own", "keys", "copied"] = "own"
    """The matrix of the values: their own, none since they are the keys, or a copy of the keys' that the engine makes."""
    query_rank: int | None = None
    output_rank: int | None = None
    """Where queries or outputs go through fewer dimensions; outputs in `output_groups`, each from its own heads."""
    output_groups: int = 1


class Mla(msgspec.Struct, frozen=True, kw_only=True):
    """Multi-head latent attention: one compressed row of `kv_rank + rope_dim` per token, whatever the heads."""

    heads: int
    query_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    index_heads: int = 0
    index_dim: int = 0
    """Of a sparse indexer, which keeps a key of its own per token; 0 where there is none."""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """A recurrent layer: a state of fixed size per request.

    Args:
        conv_channels: Inputs of the short convolution, before tensor parallelism.
        conv_kernel: Its taps; `conv_kernel - 1` are kept.
        state_elements: Of the recurrent state, before tensor parallelism; it is split like the channels.
        state_bytes: Bytes of one element of the recurrent state; None: the model's type.
        weights: Shapes of its projections as (name, in, out, split).
    """

    kind: str
    conv_channels: int
    conv_kernel: int
    state_elements: int
    state_bytes: int | None
    weights: tuple[tuple[str, int, int, str], ...] = ()
    small_elements: int = 0
    """Of its vectors (biases, norms, decay), before tensor parallelism."""
    float32_elements: int = 0
    """Of those that an engine keeps in fp32, before tensor parallelism."""


class Mlp(msgspec.Struct, frozen=True, kw_only=True):
    """A dense feed-forward layer; `gated` ones have a third matrix."""

    intermediate: int
    gated: bool = True
    bias: bool = False


class Moe(msgspec.Struct, frozen=True, kw_only=True):
    """Routed experts, all of them resident, and those that every token passes."""

    experts: int
    active: int | None
    """Experts of one token; None where the config does not tell."""
    intermediate: int
    shared_intermediate: int = 0
    shared_gate: bool = False
    gated: bool = True
    bias: bool = False
    router_bias: bool = False
    latent: int | None = None
    """Width of the experts' input where it is not the hidden size."""
    dense: Mlp | None = None
    """A dense layer beside the experts."""


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """One layer; NULL where it has no mixer or no feed-forward part."""

    mixer: Attention | Mla | State | None
    beside: State | None = None
    """A second mixer that runs beside the first."""
    feed_forward: Mlp | Moe | None
    norms: int = 2


class Rope(msgspec.Struct, frozen=True, kw_only=True):
    """A table of cosines and sines; one per distinct kind, whole on every rank."""

    positions: int
    dim: int
    element_bytes: int | None = None
    """None: the model's type."""


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """A matrix that leads from a tower to the language model."""

    into: int
    out: int
    split: bool = True
    """Over the tensor-parallel ranks; else every rank holds it whole."""


class Vision(msgspec.Struct, frozen=True, kw_only=True):
    """A vision tower.

    Args:
        unloaded: Of its layers, the last ones that a checkpoint has and an engine leaves out.
        bias: Of every matrix, but of queries, keys and values only with `query_bias`.
        whole: Elements of each tensor that every rank holds whole.
        on_disk: Elements of what else a checkpoint has and an engine leaves out.
    """

    layers: int
    unloaded: int = 0
    hidden: int
    intermediate: int
    gated: bool
    bias: bool
    query_bias: bool = True
    norm_bias: bool = True
    whole: tuple[int, ...]
    on_disk: int = 0
    projections: tuple[Projection, ...]


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """What `predict` needs to know of a model."""

    name: str
    architecture: str
    hidden: int
    vocabulary: int
    layers: tuple[Layer, ...]
    draft_layers: tuple[Layer, ...] = ()
    """Layers of a built-in draft model (MTP); loaded only for speculative decoding."""
    tied_embeddings: bool
    beside_embedding: tuple[int, ...] = ()
    """Elements of tables of positions and of a norm, whole on the first stage."""
    head_bias: bool = False
    norm_bias: bool = False
    element_bytes: int
    ropes: tuple[Rope, ...]
    max_positions: int
    vision: Vision | None = None
    quantization: Quantization
    lower_bounds: tuple[str, ...] = ()
    """What the model has and this shape does not count."""
    cache_unknown: str = ""
    """Why nobody can tell what it keeps per token; "" where the layers tell."""
    config_hash: str | None = None

    @staticmethod
    def from_config(path: str | Path) -> "ModelShape":
        """The shape of a config.json (or of the folder that holds it).

        Raises:
            OomctlError: The file is unreadable, or lacks a field that memory depends on.
        """
        from oomctl.analyzers.ledger.config import load

        return load(Path(path))
