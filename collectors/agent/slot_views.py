"""Records that lie ready in memory: their bytes, seen as numbers, so that only what changes is stored."""

from zlib import adler32

from oomctl.collectors.agent.decode import offset_of
from oomctl.collectors.agent.layout import CHECKSUM, CONTROL_OFFSET, HEADER_BYTES, SLOT_BYTES, RecordKind
from oomctl.collectors.agent.ring import Ring

LONGS, WORDS = SLOT_BYTES // 8, SLOT_BYTES // 4
"""Numbers of 8 and of 4 bytes in a slot."""
_PLACE, _NOW, _SPILLED = 8 // 8, 16 // 8, 24 // 4
"""Where `layout.SLOT_HEAD` has them: the first two among the longs, the third among the words."""


def index_of(kind: RecordKind, name: str, size: int, shift: int = 0) -> int:
    """Which of a slot's numbers of that size a value is, where they begin `shift` bytes behind the slot."""
    start: int = offset_of(kind, name).start
    index, rest = divmod(start - shift, size)
    assert not rest, f"{kind.name}.{name} does not lie so"
    return index


class SlotViews:
    """Some slots in a row, in memory: a record in each.

    What a record costs is not what is computed for it. During the engine's own step all of this has left the caches, and
    each function and object that is touched again costs more than what is done there. Two records filled value by value,
    and only with what changes, take 7 us with their checksums and the copy into the ring; packing, joining and copying
    them took 14.

    Args:
        count: How many.
        shift: Where the numbers of `shifted_longs` begin: their formats do not align what they hold.

    Attributes:
        whole: Their bytes.
        bodies: Of each slot what its checksum is of.
        longs: Numbers of 8 bytes.
        words: Numbers of 4 bytes, unsigned.
        shifted_longs: Numbers of 8 bytes, those of the next slot LONGS further on.
    """

    __slots__ = ("bodies", "longs", "shifted_longs", "whole", "words")

    def __init__(self, count: int, shift: int) -> None:
        self.whole = whole = memoryview(bytearray(count * SLOT_BYTES))
        self.longs, self.words = whole.cast("q"), whole.cast("I")
        self.shifted_longs = whole[shift : shift - 8].cast("q")
        self.bodies = [whole[at + CHECKSUM.size : at + SLOT_BYTES] for at in range(0, len(whole), SLOT_BYTES)]

    def put(self, ring: Ring, now_ns: int) -> bool:
        """Seal them, and append them in one copy.

        Args:
            ring: Where to.
            now_ns: On the monotonic clock.

        Returns:
            Whether the ring is to be written on.
        """
        place, spilled, longs, words, whole = ring.place, ring.spilled, self.longs, self.words, self.whole
        at = HEADER_BYTES + (place + 1) % ring.capacity * SLOT_BYTES
        word = long = 0
        for body in self.bodies:
            place += 1
            longs[long + _PLACE] = place
            longs[long + _NOW] = now_ns
            words[word + _SPILLED] = spilled
            words[word] = adler32(body)
            word += WORDS
            long += LONGS
        view, end = ring.view, at + len(whole)
        if view is None or end > len(view):
            return ring.extend(whole)
        # As `extend` does it, which costs 1 us more to call.
        view[at:end] = whole
        ring.place = place
        return view[CONTROL_OFFSET] == 1
