"""Layers that keep a state of fixed size: their projections, and what they keep per request.

Source: vLLM model_executor/layers/mamba (mamba_mixer.py, mamba_mixer2.py, short_conv.py, mamba_utils.py) and the models'
own files.
"""

from oomctl.analyzers.ledger.fields import Fields
from oomctl.analyzers.ledger.shape import State
from oomctl.schemas.errors import OomctlError

RECURRENT = ("linear_attention", "lightning", "kda", "mamba", "mamba_only", "short_conv")
_STATE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def recurrent(fields: Fields, kind: str) -> State:
    """The layer of one of these kinds."""
    if kind == "linear_attention":
        return _gated_delta_net(fields)
    if kind == "kda":
        return _kimi_delta(fields)
    if kind == "short_conv":
        return _short_conv(fields)
    if kind == "lightning":
        return _lightning(fields)
    return mamba2(fields) if fields.get(*_HEADS) else _mamba1(fields)


def _state_bytes(fields: Fields, *names: str, default: int | None = None) -> int | None:
    value = fields.get(*names)
    if value is None:
        return default
    name = str(value).removeprefix("torch.")
    if name not in _STATE_BYTES:
        raise OomctlError(f'{names[0]} "{name[:40]}" is not known ({fields.where})', f"known: {', '.join(_STATE_BYTES)}")
    return _STATE_BYTES[name]


def _gated_delta_net(fields: Fields) -> State:
    """Gated delta net: conv of 2 key and 1 value streams, a state of value heads x key x value dims."""
    hidden = fields.need("hidden_size")
    keys = fields.need("linear_num_key_heads") * fields.need("linear_key_head_dim")
    value_heads = fields.need("linear_num_value_heads")
    values = value_heads * fields.need("linear_value_head_dim")
    kernel = fields.need("linear_conv_kernel_dim")
    return State(
        kind="gated_delta_net",
        conv_channels=2 * keys + values,
        conv_kernel=kernel,
        state_elements=values * fields.need("linear_key_head_dim"),
        state_bytes=_state_bytes(fields, "mamba_ssm_dtype"),
        weights=(
            ("linear_attn.in_proj_qkv", hidden, 2 * keys + values, "column"),
            ("linear_attn.in_proj_z", hidden, values, "column"),
            ("linear_attn.in_proj_ba", hidden, 2 * value_heads, "column"),
            ("linear_attn.out_proj", values, hidden, "row"),
        ),
        small_elements=(2 * keys + values) * kernel + 2 * value_heads + fields.need("linear_value_head_dim"),
    )


def _kimi_delta(fields: Fields) -> State:
    """Kimi delta attention: three short convolutions, a square state per head."""
    linear = fields.object("linear_attn_config")
    hidden, heads, dim = fields.need("hidden_size"), linear.need("num_heads"), linear.need("head_dim")
    kernel = linear.need("short_conv_kernel_size")
    wide = heads * dim
    return State(
        kind="kda",
        conv_channels=3 * wide,
        conv_kernel=kernel,
        state_elements=wide * dim,
        state_bytes=4,
        weights=(
            *((f"self_attn.{name}_proj", hidden, wide, "column") for name in "qkv"),
            ("self_attn.f_a_proj", hidden, dim, "replicated"),
            ("self_attn.f_b_proj", dim, wide, "column"),
            ("self_attn.b_proj", hidden, heads, "column"),
            ("self_attn.g_a_proj", hidden, dim, "replicated"),
            ("self_attn.g_b_proj", dim, wide, "column"),
            ("self_attn.o_proj", wide, hidden, "row"),
        ),
        small_elements=3 * wide * kernel + wide + heads + dim,
    )


_HEADS = ("mamba_num_heads", "mamba_n_heads", "num_heads")


def mamba2(fields: Fields) -> State:
    """Mamba 2: conv of the inner width and both group states, a state of heads x head dim x state size."""
    hidden = fields.need("hidden_size")
    heads, dim = fields.need(*_HEADS), fields.need("mamba_head_dim", "mamba_d_head", "head_dim")
    groups = fields.need("n_groups", "mamba_n_groups")
    size = fields.need("ssm_state_size", "mamba_d_state", "state_size")
    kernel = fields.need("conv_kernel", "mamba_d_conv")
    inner = heads * dim
    normed = inner if fields.flag("mamba_rms_norm", default=True) else 0
    return State(
        kind="mamba2",
        conv_channels=inner + 2 * groups * size,
        conv_kernel=kernel,
        state_elements=inner * size,
        state_bytes=_state_bytes(fields, "mamba_ssm_cache_dtype", "mamba_ssm_dtype"),
        weights=(
            ("mixer.in_proj", hidden, 2 * inner + 2 * groups * size + heads, "column"),
            ("mixer.out_proj", inner, hidden, "row"),
        ),
        small_elements=(inner + 2 * groups * size) * (kernel + 1) + 3 * heads + normed,
    )


def _lightning(fields: Fields) -> State:
    """MiniMax's linear attention: a square state per head, a gate and a norm over all heads, no convolution.

    Source: vLLM model_executor/models/minimax_text_01.py, MiniMaxText01LinearAttention.
    """
    hidden, heads = fields.need("hidden_size"), fields.need("num_attention_heads")
    dim = fields.maybe("head_dim") or hidden // heads
    wide = heads * dim
    return State(
        kind="lightning",
        conv_channels=0,
        conv_kernel=1,
        state_elements=wide * dim,
        state_bytes=4,
        weights=(
            ("self_attn.qkv_proj", hidden, 3 * wide, "column"),
            ("self_attn.output_gate", hidden, wide, "column"),
            ("self_attn.out_proj", wide, hidden, "row"),
        ),
        small_elements=wide,
    )


def _mamba1(fields: Fields) -> State:
    """Mamba 1: conv of the inner width, a state of inner width x state size; A and D are kept in fp32."""
    hidden = fields.need("hidden_size")
    expand = fields.get("mamba_expand", "expand")
    inner = fields.maybe("intermediate_size") if fields.get("state_size") else None
    if inner is None:
        if isinstance(expand, bool) or not isinstance(expand, int | float) or not 0 < expand < 2**16:
            raise OomctlError(f"mamba_expand is missing ({fields.where})", "is it the config.json of a Mamba model?")
        inner = int(expand * hidden)
    size, kernel = fields.need("state_size", "mamba_d_state"), fields.need("conv_kernel", "mamba_d_conv")
    step = fields.get("time_step_rank", "mamba_dt_rank")
    step = step if isinstance(step, int) and not isinstance(step, bool) and step > 0 else -(-hidden // 16)
    # Jamba norms the step and both states.
    norms = step + 2 * size if fields.get("mamba_dt_rank") else 0
    return State(
        kind="mamba1",
        conv_channels=inner,
        conv_kernel=kernel,
        state_elements=inner * size,
        state_bytes=_state_bytes(fields, "mamba_ssm_cache_dtype", "mamba_ssm_dtype"),
        weights=(
            ("mixer.in_proj", hidden, 2 * inner, "column"),
            ("mixer.x_proj", inner, step + 2 * size, "row"),
            ("mixer.dt_proj", step, inner, "column"),
            ("mixer.out_proj", inner, hidden, "row"),
        ),
        small_elements=inner * (kernel + 1) + inner + norms,
        float32_elements=inner * size + inner,
    )


def _short_conv(fields: Fields) -> State:
    """A gated short convolution: it keeps its last inputs and nothing else."""
    hidden, kernel = fields.need("hidden_size"), fields.need("conv_L_cache")
    bias = fields.flag("conv_bias")
    return State(
        kind="short_conv",
        conv_channels=hidden,
        conv_kernel=kernel,
        state_elements=0,
        state_bytes=None,
        weights=(("conv.in_proj", hidden, 3 * hidden, "column"), ("conv.out_proj", hidden, hidden, "row")),
        small_elements=hidden * kernel + (5 * hidden if bias else 0),
    )
