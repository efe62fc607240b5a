"""Stacks interned by content: files share frames but hardly ever stacks, and repeat a hundred stacks a million times."""

from array import array
from collections.abc import Callable, Sequence
from itertools import compress, repeat
from operator import eq, itemgetter, mul, not_, xor
from typing import Any

from oomctl.schemas.heap import NO_STACK, Frame

MAX_FRAMES = 10_000
MAX_TEXT = 4096
_NONE: list[Any] = []
_FIRST, _SECOND = itemgetter(0), itemgetter(1)


class Stacks:
    """Distinct stacks of a document, while it lives: objects are first known by their identity.

    Args:
        spend: Called with the number of objects about to be visited; raises where it is beyond reason.
    """

    def __init__(self, spend: Callable[[int], None]) -> None:
        self.frames: list[Frame] = []
        self.stacks: list[tuple[int, ...]] = []
        self._spend = spend
        self._by_ends: dict[int, tuple[list[Any], int]] = {}
        self._by_inner: dict[int, tuple[list[Any], int]] = {}
        self._by_objects: dict[tuple[int, ...], int] = {}
        self._frame_ids: dict[int, int] = {}
        self._frame_numbers: dict[Frame, int] = {}
        self._numbers: dict[tuple[int, ...], int] = {}

    def intern(self, frames: Any) -> int:
        """The number of a stack, or NO_STACK for none."""
        if not frames:
            return NO_STACK
        if type(frames) is not list or len(frames) > MAX_FRAMES:
            raise ValueError("frames is not a list of frames")
        self._spend(1 + len(frames) // 64)  # shared stacks are real: a file written again by Python repeats them in 3 bytes
        objects = tuple(map(id, frames))
        number = self._by_objects.get(objects)
        if number is None:
            content = tuple(map(self._frame, frames))
            number = self._numbers.get(content)
            if number is None:
                number = self._numbers[content] = len(self.stacks)
                self.stacks.append(content)
            self._by_objects[objects] = number
        return number

    def intern_all(self, entries: list[dict[str, Any]]) -> "array[int]":
        """The stacks of some entries.

        A list of frames is known by a few of them and then compared with the one that is known by the same: equal lists
        mostly hold the very same objects, which C compares faster than Python could hash them.
        """
        stacks = [entry.get("frames") or _NONE for entry in entries]
        if not set(map(type, stacks)) <= {list}:
            raise ValueError("frames is not a list of frames")
        self._spend(len(stacks) + sum(map(len, stacks)) // 64)
        places: Sequence[int] = range(len(stacks))
        if _NONE in stacks:
            places = [n for n in places if stacks[n]]
        numbers = array("q", [NO_STACK]) * len(stacks)
        for keys, known in ((_ends, self._by_ends), (_inner, self._by_inner)):
            left = [stacks[n] for n in places] if len(places) < len(stacks) else stacks
            told = keys(left)
            if new := set(told).difference(known):
                for key, frames in zip(told, left, strict=True):  # in their order: a file has the same numbers each time
                    if key in new:
                        new.remove(key)
                        known[key] = (frames, self.intern(frames))
            found = list(map(known.__getitem__, told))
            same = list(map(eq, left, map(_FIRST, found)))
            if len(places) == len(stacks) and all(same):
                return array("q", map(_SECOND, found))
            for n, (_, number) in compress(zip(places, found, strict=True), same):
                numbers[n] = number
            places = list(compress(places, map(not_, same)))
        for n in places:
            numbers[n] = self.intern(stacks[n])
        return numbers

    def _frame(self, frame: Any) -> int:
        known = self._frame_ids.get(id(frame))
        if known is not None:
            return known
        if type(frame) is dict:
            file, line, name = frame.get("filename"), frame.get("line"), frame.get("name")
        else:
            file, line, name = None, 0, frame
        content = (_text(file), line if type(line) is int and 0 <= line < 2**31 else 0, _text(name))
        number = self._frame_numbers.get(content)
        if number is None:
            number = self._frame_numbers[content] = len(self.frames)
            self.frames.append(content)
        self._frame_ids[id(frame)] = number
        return number


def _ends(stacks: list[list[Any]]) -> list[int]:
    """A key of each by its length and its innermost and outermost frame; different ones may have the same."""
    first, last = map(id, map(itemgetter(0), stacks)), map(id, map(itemgetter(-1), stacks))
    return list(map(xor, map(xor, first, map(len, stacks)), map(mul, last, repeat(3))))


def _inner(stacks: list[list[Any]]) -> list[int]:
    """A key by frames in between: those that differ where unwinders and main programs are alike."""
    return [hash((len(s), id(s[len(s) // 2]), id(s[len(s) // 4]), id(s[len(s) // 8]))) for s in stacks]


def _text(value: Any) -> str:
    return value[:MAX_TEXT].encode("utf-8", "replace").decode() if type(value) is str else ""
