"""Numbers in texts that others wrote."""


def whole(text: str | None) -> int | None:
    """A natural number as the event table holds it; None where it is none.

    `str.isdigit` also holds for `²`, at which `int` raises; and of ten thousand digits `int` makes nothing at all.
    """
    if text is None or len(text) > 18 or not (text.isascii() and text.isdecimal()):
        return None
    return int(text)
