"""What no arithmetic gives: fitted on printed figures of vLLM 0.19 on H100, with an interval, or NULL with its reason."""

import msgspec

from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.shape import Attention, Layer, Mlp, ModelShape, Moe
from oomctl.schemas.ledger import GIB

FITTED_FROM = (0, 17)
"""The sampler's copies of the logits changed before; the fit does not hold for what is older."""
LOGIT_BYTES = 14.486
HIDDEN_COPIES = 1.17
FIXED_GIB = 0.043
MLP_WIDTHS, HIDDEN_WIDTHS = 3, 6


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes with an interval that holds nine in ten printed figures, those of the fit among them; None: why not."""

    bytes: int | None
    low_bytes: int | None = None
    high_bytes: int | None = None
    formula: str = ""
    reason: str = ""


def _around(value: float, below: float, above: float, formula: str) -> Estimate:
    return Estimate(
        bytes=int(value), low_bytes=int(value * (1 - below)), high_bytes=int(value * (1 + above)), formula=formula
    )


def activation(shape: ModelShape, engine: Engine, layers: tuple[Layer, ...], last: bool) -> Estimate:
    """The peak of the profiling step, the logits and the sampler in it.

    The last pipeline rank holds the logits of `max_num_seqs` requests over the whole vocabulary (they are gathered, so
    tensor parallelism does not help) and some hidden states; experts add their two intermediate buffers. Other ranks,
    and models with a small vocabulary, peak in the feed-forward layer.
    """
    unfit = _unfit(engine)
    if unfit:
        return Estimate(bytes=None, reason=unfit)
    element = engine.dtype_bytes or shape.element_bytes
    tokens, hidden, ranks = engine.batched_tokens, shape.hidden, engine.tensor_parallel
    feeds = [layer.feed_forward for layer in layers]
    widest = max((feed.intermediate // ranks for feed in feeds if isinstance(feed, Mlp)), default=0)
    dense = tokens * (MLP_WIDTHS * widest + HIDDEN_WIDTHS * hidden) * element
    routed = max((_routed(feed, hidden, tokens, ranks, element) for feed in feeds if isinstance(feed, Moe)), default=0)
    if not last:
        text = f"tokens x ({MLP_WIDTHS} x intermediate / tp + {HIDDEN_WIDTHS} x hidden) x {element} B + experts' buffers"
        return _around(dense + routed, 0.08, 0.12, text)
    logits = LOGIT_BYTES * engine.max_requests * shape.vocabulary + HIDDEN_COPIES * tokens * hidden * element
    text = (
        f"{LOGIT_BYTES} B x max_num_seqs x vocabulary + {HIDDEN_COPIES} x tokens x hidden x {element} B + experts' buffers"
    )
    value = logits + FIXED_GIB * GIB + routed
    attends = any(isinstance(layer.mixer, Attention) and layer.mixer.window for layer in layers)
    return _around(max(value, dense), 0.05, 0.12 if attends or routed else 0.08, text)


def _routed(own: Moe, hidden: int, tokens: int, ranks: int, element: int) -> int:
    """Buffers of the fused experts: both projections' outputs, one row per token and active expert."""
    width = own.intermediate // ranks
    return tokens * own.active * (max(2 * width, hidden) + width) * element


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
