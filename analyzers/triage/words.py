"""How figures are said in statements and remedies."""

MIB = 2**20
GIB = 2**30


UNKNOWN = "an unknown amount"
"""What stands in a sentence for a figure that was not observed: such a sentence is not said (`complete`)."""


def complete(text: str) -> bool:
    """Whether a sentence has all its figures."""
    return UNKNOWN not in text


def count(number: int | None) -> str:
    """A number of requests, tokens or the like."""
    return UNKNOWN if number is None else str(number)


def plain(number: float) -> str:
    """A setting's number with all its digits."""
    return str(int(number)) if number == int(number) else f"{number:g}"


def size(amount: int | None) -> str:
    """Bytes for a reader: MiB below one GiB, else GiB, two decimals."""
    if amount is None:
        return UNKNOWN
    sign = "-" if amount < 0 else ""
    value = abs(amount)
    if value < 2**10:
        return f"{sign}{value} B"
    if value < MIB:
        return f"{sign}{value / 2**10:.0f} KiB"
    if value < GIB - MIB // 2:  # else it would be printed as 1024 MiB
        return f"{sign}{value / MIB:.0f} MiB" if value >= 10 * MIB else f"{sign}{value / MIB:.2f} MiB"
    return f"{sign}{value / GIB:.2f} GiB"


def printed(amount: int | None, resolution: int | None) -> str:
    """Bytes as read from a print, which shows nothing of an amount below its resolution."""
    if amount is not None and resolution and abs(amount) < resolution:
        return f"less than {size(resolution)} (below what was printed)"
    return size(amount)


def times(count: int) -> str:
    """How often, in words."""
    return "once" if count == 1 else f"{count} times"


def percent(share: float | None) -> str:
    """A share of 1 as a percentage."""
    return UNKNOWN if share is None else f"{share * 100:.1f}%"


def short_path(path: str) -> str:
    """A source path from its package on: the reader's site-packages do not matter."""
    for marker in ("site-packages/", "dist-packages/", "/python/"):
        _, found, tail = path.rpartition(marker)
        if found:
            return tail
    return path.rpartition("/")[2]
