"""Experts in MXFP4 as the Triton kernels on Hopper take them: padded by the engine, then by the kernels' layout."""

from oomctl.analyzers.ledger.engine import Engine

WIDTH_STEP, WIDER_FROM, WIDER_STEP = 64, (0, 17), 128
"""The engine pads the experts' width of a rank to the one, later to the other; the hidden size it leaves."""
ROW_WEIGHTS = 256
"""Weights of an output lie in whole rows of 128 bytes."""
SWIZZLED_FROM = (0, 12)
"""The first vLLM on a PyTorch (2.9) whose kernels take scales in tiles."""
TILE_OUTPUTS, TILE_WEIGHTS = 2 * 8 * 2 * 8, 128
"""Of a tile of scales: outputs of eight warps, and the weights that four scales stand for."""
SCALED, BIAS_BYTES = 32, 4
"""Weights that share a scale of one byte; biases are kept in fp32."""


def mxfp4_experts(width: int, hidden: int, gated: bool, biased: bool, engine: Engine) -> list[int]:
    """Bytes per expert of each tensor: values and scales of gate and up, then of down, then the biases.

    Sources: vLLM model_executor/layers/quantization/mxfp4.py and fused_moe/oracle/mxfp4.py (width, biases), triton_kernels'
    tensor_details/layout_details/hopper_scale.py (tiles). That rows are whole, and the wider step, was not found in code:
    with them gpt-oss-20b takes the 13.47 and 13.64 GiB that vLLM 0.11 and 0.19 print on H100, and 7.00 of 7.01 on two
    ranks. Marlin, on older devices, pads the hidden size to 256 instead: 0.6% more.

    >>> wide = mxfp4_experts(2880, 2880, True, True, Engine(version=(0, 19)))
    >>> wide[0] == 5888 * 3072 // 2, wide[2] == 2880 * 3072 // 2
    (True, True)
    """
    own = _up(width, WIDER_STEP if engine.version >= WIDER_FROM else WIDTH_STEP)
    up = own * (2 if gated else 1)
    outputs, weights = (TILE_OUTPUTS, TILE_WEIGHTS) if engine.version >= SWIZZLED_FROM else (1, SCALED)
    sizes = []
    for out, into in ((up, hidden), (hidden, own)):
        sizes += [out * _up(into, ROW_WEIGHTS) // 2, _up(out, outputs) * _up(into, weights) // SCALED]
    return [*sizes, BIAS_BYTES * up, BIAS_BYTES * hidden] if biased else sizes


def _up(count: int, step: int) -> int:
    return -(-count // step) * step
