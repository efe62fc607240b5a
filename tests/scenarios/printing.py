"""Figures as programs print them: the text, what a reader makes of it, and how far it is good."""

from dataclasses import dataclass

KIB, MIB, GIB = 2**10, 2**20, 2**30


@dataclass(frozen=True)
class Printed:
    """A byte figure that went through a print.

    Attributes:
        text: As printed, unit included.
        bytes: What a reader gets back from the text.
        resolution_bytes: Half a unit of the last printed digit.
    """

    text: str
    bytes: int
    resolution_bytes: int


def fixed(size_bytes: float, unit: int = GIB, suffix: str = " GiB", digits: int = 2) -> Printed:
    """A figure printed in a fixed unit."""
    number = f"{size_bytes / unit:.{digits}f}"
    return Printed(f"{number}{suffix}", round(float(number) * unit), round(unit * 10**-digits / 2))


def torch_size(size_bytes: int) -> Printed:
    """A figure as PyTorch prints it (c10::CachingAllocator::format_size): two digits, unit by size."""
    if size_bytes <= KIB:
        return Printed(f"{size_bytes} bytes", size_bytes, 0)
    for unit, suffix in ((KIB, " KiB"), (MIB, " MiB")):
        if size_bytes <= unit * KIB:
            return fixed(size_bytes, unit, suffix)
    return fixed(size_bytes)
