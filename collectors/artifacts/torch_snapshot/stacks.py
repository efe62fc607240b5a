"""Stacks interned by content: files share frames but hardly ever stacks, and repeat a hundred stacks a million times."""

from collections.abc import Callable
from typing import Any

from oomctl.schemas.heap import NO_STACK, Frame

MAX_FRAMES = 10_000
MAX_TEXT = 4096


class Stacks:
    """Distinct stacks of a document, while it lives: objects are first known by their identity.

    Args:
        spend: Called with the number of objects about to be visited; raises where it is beyond reason.
    """

    def __init__(self, spend: Callable[[int], None]) -> None:
        self.frames: list[Frame] = []
        self.stacks: list[tuple[int, ...]] = []
        self._spend = spend
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

    def intern_all(self, entries: list[dict[str, Any]]) -> list[int]:
        """The stacks of many entries: those whose very frames were met before, as nearly all were, cost no call."""
        stacks = [entry.get("frames") or () for entry in entries]
        if not set(map(type, stacks)) <= {list, tuple}:
            raise ValueError("frames is not a list of frames")
        self._spend(len(stacks) + sum(map(len, stacks)) // 64)
        known = self._by_objects.get
        numbers = []
        for frames in stacks:
            number = known(tuple(map(id, frames)))
            numbers.append(self.intern(frames) if number is None else number)
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


def _text(value: Any) -> str:
    return value[:MAX_TEXT].encode("utf-8", "replace").decode() if type(value) is str else ""
