"""Printed sizes and how exact they are."""

from typing import NamedTuple

UNITS = {
    "B": 1, "byte": 1, "bytes": 1,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
    "kB": 1000, "KB": 1000, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip
GIB = 2**30
UNKNOWN_BYTES = 2**64
"""What PyTorch prints where the driver could not tell (17179869184.00 GiB)."""


class Size(NamedTuple):
    """A printed size: its bytes, and half a unit of its last digit."""

    bytes: int
    resolution: int


def size(number: str, unit: str, *, binary: bool = False) -> Size | None:
    """Bytes of a printed size.

    Args:
        number: Digits as printed ("14.99"); thousands may be separated by commas; may be negative.
        unit: "GiB", "MB", "bytes", ...
        binary: Whether "GB" means GiB. SGLang and vLLM before 0.8 divide by 2**30 and print GB.

    Returns:
        None where the number stands for "unknown" (2**64 bytes and more) or the unit is not known.
    """
    scale = UNITS.get(unit)
    if binary and unit in ("GB", "MB", "KB", "kB", "TB"):
        scale = UNITS[unit[0].upper() + "iB"]
    if scale is None:
        return None
    whole, _, fraction = number.replace(",", "").partition(".")
    try:
        value = int(whole + fraction) * scale
    except ValueError:
        return None
    divisor = 10 ** len(fraction)
    exact = round(value / divisor) if value < 2**53 else value // divisor
    if abs(exact) >= UNKNOWN_BYTES // 2:
        return None
    return Size(exact, 0 if scale == 1 and not fraction else max(scale // (2 * divisor), 1))
