"""The feed-forward part of each layer: dense or of experts, by the fields that models use to say so."""

from oomctl.analyzers.ledger.architectures import Traits
from oomctl.analyzers.ledger.fields import Fields
from oomctl.analyzers.ledger.shape import Mlp, Moe
from oomctl.schemas.errors import OomctlError

_SIGMOID = ("sigmoid", "noaux_tc", "sqrtsoftplus")


def feed_forward(fields: Fields, traits: Traits, index: int) -> Mlp | Moe:
    """The feed-forward part of this layer."""
    return moe(fields, traits) if _is_sparse(fields, index) else mlp(fields, traits)


def mlp(fields: Fields, traits: Traits) -> Mlp:
    """A dense one."""
    if not _experts(fields) and fields.maybe("shared_intermediate_size"):
        # Granite 4's dense models have the experts' shared one alone.
        return Mlp(intermediate=fields.need("shared_intermediate_size"), gated=traits.gated)
    width = fields.maybe("dense_intermediate_size", "intermediate_size_mlp", "intermediate_size")
    if width is None and traits.widening:
        width = traits.widening * fields.need("hidden_size")
    if not width:
        width = fields.need("intermediate_size")
    step, scale = fields.maybe("block_multiple_of"), fields.get("block_ffn_dim_multiplier")
    if step and fields.flag("block_auto_adjust_ff_dim"):
        # LFM 2 gives the width of an ungated layer. Source: vLLM model_executor/models/lfm2.py, Lfm2MLP.
        width = int(2 * width / 3 * (scale if isinstance(scale, int | float) and 0 < scale < 2**16 else 1))
        width = -(-width // step) * step
    return Mlp(intermediate=width, gated=traits.gated, bias=_biased(fields, traits))


def moe(fields: Fields, traits: Traits) -> Moe:
    """One of experts, all of them resident, with those that every token passes."""
    width = fields.need("moe_intermediate_size", "intermediate_size")
    number = fields.maybe("n_shared_experts") or 0
    shared = fields.maybe("shared_expert_intermediate_size")
    if shared is None:
        # Llama 4's shared expert has no field of its own.
        shared = number * width if number else width if fields.get("intermediate_size_mlp") else 0
    bias = _biased(fields, traits)
    chosen = str(fields.get("scoring_func", "moe_router_activation_func") or fields.get("topk_method") or "")
    corrected = traits.router_bias or chosen in _SIGMOID or fields.flag("use_routing_bias", "use_moe_router_bias")
    return Moe(
        experts=_experts(fields),
        active=fields.maybe("num_experts_per_tok"),
        intermediate=width,
        shared_intermediate=shared,
        shared_gate=traits.shared_gate and shared > 0,
        gated=traits.gated,
        bias=bias,
        router_bias=bias or corrected,
        latent=fields.maybe("moe_latent_size", "routed_expert_hidden_size"),
        dense=mlp(fields, traits) if fields.flag("enable_moe_block") else None,
    )


def searched(block: Fields, fields: Fields) -> Mlp | None:
    """The feed-forward part of one of `block_configs`, the layers of a model found by architecture search; None: none.

    Its width is 2/3 of the multiple of the hidden size, in steps of 256. Source: DeciLM's modeling_decilm.py,
    `_ffn_mult_to_intermediate_size`; vLLM model_executor/models/nemotron_nas.py.
    """
    multiple, hidden = block.get("ffn_mult"), fields.need("hidden_size")
    if block.flag("no_op"):
        return None
    if block.flag("replace_with_linear") or not isinstance(multiple, int | float) or not 0 < multiple < 2**16:
        raise OomctlError(f"a feed-forward block of block_configs is not known ({fields.where})")
    return Mlp(intermediate=-(-int(2 * multiple * hidden / 3) // 256) * 256)


def _biased(fields: Fields, traits: Traits) -> bool:
    return fields.flag("mlp_bias", "use_bias", "bias", "add_bias_linear", default=traits.mlp_bias)


def _experts(fields: Fields) -> int:
    return fields.maybe("n_routed_experts") or 0


def _is_sparse(fields: Fields, index: int) -> bool:
    if not _experts(fields):
        return False
    frequency = fields.get("moe_layer_freq")
    if isinstance(frequency, list):
        return index < len(frequency) and bool(frequency[index])
    if index < (fields.maybe("first_k_dense_replace") or 0):
        return False
    period = fields.maybe("expert_layer_period")
    if period:
        return index % period == (fields.maybe("expert_layer_offset") or 0)
    dense = fields.get("mlp_only_layers")
    if isinstance(dense, list) and index in dense:
        return False
    step = fields.maybe("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval") or 1
    return (index + 1) % step == 0 and index % (frequency if isinstance(frequency, int) and frequency > 0 else 1) == 0
