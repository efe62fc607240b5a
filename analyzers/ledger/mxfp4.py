"""Experts in MXFP4 as the kernels of Hopper lay them out: padded for the kernel, then once more by its layout."""

from oomctl.analyzers.ledger.engine import Engine

WIDTH_STEP, HIDDEN_STEP = 64, 256
"""The engine pads the experts' width of a rank, and the hidden size."""
OUTPUT_STEP, INPUT_STEP = 256, 64
"""Steps of the layout of values and of scales: 2 x 8 warps x 2 x 8 outputs, and the inputs of a tile."""
SCALED, BIAS_BYTES = 32, 4
"""Weights that share a scale of one byte; biases are kept in fp32."""
SWIZZLED_FROM = (0, 12)
"""The first vLLM on a PyTorch (2.9) whose Hopper kernels take another layout than rows; before, weights stay as padded."""


def mxfp4_experts(width: int, hidden: int, gated: bool, biased: bool, engine: Engine) -> list[int]:
    """Bytes per expert of each tensor: values and scales of gate and up, then of down, then the biases.

    Sources: vLLM model_executor/layers/quantization/mxfp4.py, `create_weights` and `process_weights_after_loading` (the
    Triton kernels of Hopper), and triton_kernels' tensor_details/layout_details, `HopperMXValueLayout._padded_shape` and
    `HopperMXScaleLayout.swizzle_data`. Marlin, on older devices, pads widths to 128 instead: 0.4% more.

    >>> wide = mxfp4_experts(2880, 2880, True, True, Engine(version=(0, 19)))
    >>> wide[0] == 5888 * 3072 // 2, wide[2] == 3072 * 2880 // 2
    (True, True)
    """
    up, down = _up(width, WIDTH_STEP) * (2 if gated else 1), _up(width, WIDTH_STEP)
    wide = _up(hidden, HIDDEN_STEP)
    outputs, inputs = (OUTPUT_STEP, INPUT_STEP) if engine.version >= SWIZZLED_FROM else (1, 1)
    sizes = []
    for out, into in ((up, wide), (wide, down)):
        count = _up(out, outputs) * _up(into, inputs)
        sizes += [count // 2, count // SCALED]
    return [*sizes, BIAS_BYTES * up, BIAS_BYTES * wide] if biased else sizes


def _up(count: int, step: int) -> int:
    return -(-count // step) * step
