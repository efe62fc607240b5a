"""What no arithmetic gives: fitted on printed figures of vLLM 0.19 on H100, with an interval, or NULL with its reason.

`python -m benchmarks.ledger_fit` makes the constants from one part of the models; the intervals are tested on the others.
"""

from collections.abc import Callable

import msgspec

from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.shape import Layer, Mlp, ModelShape, Moe
from oomctl.schemas.ledger import GIB

FITTED_FROM = (0, 17)
"""The sampler's copies of the logits changed before; the fit does not hold for what is older."""
LOGIT_COPIES, HIDDEN_COPIES, FIXED_GIB = 12.451, 1.154, 0.0503
"""B per logit beside the logits themselves; copies of the hidden states; the rest."""
MLP_WIDTHS, HIDDEN_WIDTHS = 3, 4
BOUNDARIES = 2
"""Hidden states and residual that a pipeline's ranks hand on."""
GRAPH_GIB, GRAPH_LAYER_GIB, GRAPH_WIDTH_GIB = 0.3635, 0.00946, 0.18995
"""Of all captured graphs: fixed, per layer, and per 1e5 of layers x hidden / tp."""
GUESSED_SHARE = 0.9
"""Of the graphs, what the engine's own guess comes to: the median of the rows that were fitted."""
GRAPH_SIZES = 51
"""Capture sizes of the rows that were fitted: up to 512 tokens."""


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes with an interval; None: why not."""

    bytes: int | None
    low_bytes: int | None = None
    high_bytes: int | None = None
    formula: str = ""
    source: str = "fitted on vLLM 0.19 on H100"
    reason: str = ""

    def map(self, made: Callable[[int], int]) -> "Estimate":
        """What a growing function makes of the figure and both ends of its interval."""
        if self.bytes is None:
            return self
        low, high = (None if end is None else made(end) for end in (self.low_bytes, self.high_bytes))
        return msgspec.structs.replace(self, bytes=made(self.bytes), low_bytes=low, high_bytes=high)


def _around(value: float, below: float, above: float, formula: str) -> Estimate:
    return Estimate(
        bytes=int(value), low_bytes=int(value * (1 - below)), high_bytes=int(value * (1 + above)), formula=formula
    )


def activation(shape: ModelShape, engine: Engine, layers: tuple[Layer, ...], last: bool) -> Estimate:
    """The peak of the profiling step, the logits and the sampler in it.

    The last pipeline rank holds the logits of `max_num_seqs` requests over the whole vocabulary (they are gathered, so
    tensor parallelism does not help), the sampler's copies and some hidden states. Other ranks, and models with a small
    vocabulary, peak in the feed-forward layer. Experts add their intermediate buffers, a pipeline its boundaries. The
    interval is wider where experts or a vision encoder are profiled too.
    """
    unfit = _unfit(engine)
    if unfit:
        return Estimate(bytes=None, reason=unfit)
    element = engine.dtype_bytes or shape.element_bytes
    tokens, hidden, ranks = engine.batched_tokens, shape.hidden, engine.tensor_parallel
    feeds = [layer.feed_forward for layer in layers]
    experts = [feed for feed in feeds if isinstance(feed, Moe)]
    if any(not feed.active for feed in experts):
        return Estimate(bytes=None, reason="the config does not tell how many experts a token takes")
    widest = max((feed.intermediate // ranks for feed in feeds if isinstance(feed, Mlp)), default=0)
    dense = tokens * (MLP_WIDTHS * widest + HIDDEN_WIDTHS * hidden) * element
    beside = max((routed_bytes(feed, hidden, engine, element) for feed in experts), default=0)
    text = f"tokens x ({MLP_WIDTHS} x intermediate / tp + {HIDDEN_WIDTHS} x hidden) x {element} B"
    value = float(dense)
    if last:
        logits = (LOGIT_COPIES + element) * engine.max_requests * shape.vocabulary
        value = max(value, logits + HIDDEN_COPIES * tokens * hidden * element + FIXED_GIB * GIB)
        text = f"max({LOGIT_COPIES} + {element} B x max_num_seqs x vocabulary + hidden states, {text})"
    if beside:
        text += " + experts' buffers"
    if engine.pipeline_parallel > 1:
        beside += boundary_bytes(shape, engine)
        text += " + pipeline boundary"
    above = 0.2 if shape.vision is not None else 0.16 if experts else 0.04 if last else 0.08
    return _around(value + beside, 0.06 if experts else 0.03, above, text)


def routed_bytes(own: Moe, hidden: int, engine: Engine, element: int) -> int:
    """Buffers of the fused experts: both projections' outputs, one row per token and active expert.

    The first and the last share one; whole experts have their whole width. Source: vLLM layers/fused_moe/fused_moe.py,
    `intermediate_cache13` and `cache2`.
    """
    width = own.intermediate if engine.expert_parallel else own.intermediate // engine.expert_ranks
    return engine.batched_tokens * (own.active or 0) * (max(2 * width, hidden) + width) * element


def boundary_bytes(shape: ModelShape, engine: Engine) -> int:
    """Hidden states and residual between two stages of a pipeline. Source: vLLM `make_empty_intermediate_tensors`."""
    return BOUNDARIES * engine.batched_tokens * shape.hidden * (engine.dtype_bytes or shape.element_bytes)


def graphs(shape: ModelShape, engine: Engine, layers: tuple[Layer, ...]) -> Estimate:
    """The pool of all captured graphs: each one keeps its kernels' parameters, the largest its buffers.

    It grows with the layers and their width; the rows that were fitted capture 51 sizes twice, with piecewise and with full
    graphs, and other numbers of sizes scale what grows.
    """
    unfit = _unfit(engine)
    if unfit:
        return Estimate(bytes=None, reason=unfit)
    sizes, count = len(engine.capture_sizes()), len(layers)
    width = count * shape.hidden / engine.tensor_parallel / 1e5
    value = GRAPH_GIB + (GRAPH_LAYER_GIB * count + GRAPH_WIDTH_GIB * width) * sizes / GRAPH_SIZES
    text = f"{GRAPH_GIB} GiB + ({GRAPH_LAYER_GIB} x layers + {GRAPH_WIDTH_GIB} x layers x hidden / tp / 1e5) x sizes / 51"
    if any(isinstance(layer.feed_forward, Moe) for layer in layers):
        return _around(1.6 * value * GIB, 0.3, 0.4, f"1.6 x ({text}): experts")
    return _around(value * GIB, 0.1, 0.12, text)


def graph_of_one_size(shape: ModelShape, engine: Engine, layers: tuple[Layer, ...]) -> Estimate:
    """What one batch size more adds: its piecewise and its full graph."""
    sizes = len(engine.capture_sizes())
    fewer = msgspec.structs.replace(engine, graph_sizes=engine.capture_sizes()[1:])
    all_of_them, without = graphs(shape, engine, layers), graphs(shape, fewer, layers)
    if all_of_them.bytes is None or without.bytes is None or not sizes:
        return all_of_them
    text = f"what grows with the layers, of one of {sizes} batch sizes"
    return _around(all_of_them.bytes - without.bytes, 0.5, 0.5, text)


def graph_charge(captured: Estimate) -> Estimate:
    """What the engine guesses that the graphs will take, from two captures of each kind, before it captures them.

    It is off in both directions; where it charges its guess, the KV pool is what the guess leaves. Source: vLLM
    v1/worker/gpu_model_runner.py, profile_cudagraph_memory.
    """
    if captured.bytes is None:
        return captured
    return _around(GUESSED_SHARE * captured.bytes, 0.28, 0.25, f"{GUESSED_SHARE} x captured graphs")


def non_torch(engine: Engine) -> Estimate:
    """What the driver and the collectives took while profiling, beyond the start."""
    unfit = _unfit(engine)
    if unfit:
        return Estimate(bytes=None, reason=unfit)
    if engine.tensor_parallel > 1:
        return _around(2.1 * GIB, 0.04, 0.07, "seen: 2.06 to 2.21 GiB under tensor parallelism")
    if engine.pipeline_parallel > 1:
        return _around(0.07 * GIB, 0.1, 0.1, "seen: 0.07 GiB under pipeline parallelism alone")
    return _around(0.25 * GIB, 0.06, 0.1, "seen: 0.24 to 0.27 GiB")


def context(engine: Engine) -> Estimate:
    """The CUDA context, and the collectives' memory that is taken before the engine's first snapshot."""
    unfit = _unfit(engine)
    if unfit:
        return Estimate(bytes=None, reason=unfit)
    if engine.tensor_parallel * engine.pipeline_parallel > 1:
        return _around(1.6 * GIB, 0.11, 0.3, "seen: 1.43 to 2.07 GiB with several ranks")
    return _around(0.51 * GIB, 0.03, 0.03, "seen: 0.51 GiB")


def _unfit(engine: Engine) -> str:
    if engine.name != "vllm" or engine.is_v0 or engine.version < FITTED_FROM:
        return f"fitted for vLLM from {FITTED_FROM[0]}.{FITTED_FROM[1]} only"
    return ""
