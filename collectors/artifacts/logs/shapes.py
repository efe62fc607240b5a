"""The shape of a line: what is left of it when the numbers go. A large log has some hundred shapes, repeated."""

_BLOT = bytes(ord("0") if byte in b"0123456789abcdef" else byte for byte in range(256))


def blot(text: bytes) -> bytes:
    """Blot out digits and hex letters, so that addresses, times and request ids do not make a new shape.

    A text that holds a word has a shape that holds the word's; the converse need not be so.
    """
    return text.translate(_BLOT)
