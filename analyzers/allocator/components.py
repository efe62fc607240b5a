"""Which part of the engine a stack belongs to (components.toml), and which of its frames a reader should see."""

import re
import tomllib
from functools import cache, lru_cache
from pathlib import Path

from oomctl.schemas.heap import Frame

UNKNOWN_COMPONENT = "unknown"
_NOISE = re.compile(
    r"unwind|CapturedTraceback|^std::|^__libc|^_start$|^c10::|^at::|^torch::|^_?Py|_PyEval|^\?\?$|method_vectorcall|^main$"
)
_LIBRARY = re.compile(
    r"(^|/)(torch|lib/python3[.\d]*/(runpy|threading|multiprocessing|asyncio|contextlib))[/.]|\.(cpp|cc|h|c|cu)$"
)


REACHES = ("whole", "own", "general")
_Rule = tuple[str, re.Pattern[str] | None, re.Pattern[str] | None]


@cache
def _rules() -> dict[str, list[_Rule]]:
    """(component, function, file) of each rule, by reach."""
    rules: dict[str, list[_Rule]] = {reach: [] for reach in REACHES}
    for rule in tomllib.loads(Path(__file__).with_name("components.toml").read_text(encoding="utf-8"))["rules"]:
        function = re.compile(rule["function"], re.IGNORECASE) if "function" in rule else None
        file = re.compile(rule["file"], re.IGNORECASE) if "file" in rule else None
        rules[rule["reach"]].append((rule["component"], function, file))
    return rules


def component(frames: list[Frame]) -> str:
    """The component that a stack allocates for, or "unknown".

    Args:
        frames: Innermost first.
    """
    for reach in REACHES:
        found = next(filter(None, (_of_frame(reach, file, function) for file, _, function in frames)), None)
        if found is not None:
            return found
    return UNKNOWN_COMPONENT


@lru_cache(maxsize=1 << 16)
def _of_frame(reach: str, file: str, function: str) -> str | None:
    """What the first rule that fits a frame says."""
    for name, functions, files in _rules()[reach]:
        if (functions is None or functions.search(function)) and (files is None or files.search(file)):
            return name
    return None


def telling(frames: list[Frame]) -> list[Frame]:
    """Frames of user and engine code, innermost first; without any, what is no unwinder; without those, all of them."""
    named = [frame for frame in frames if not _NOISE.search(frame[2])]
    own = [frame for frame in named if not _LIBRARY.search(frame[0])]
    return own or named or frames


def words(frames: list[Frame]) -> str:
    """A stack in one line: its innermost telling frame and the two functions that led there."""
    chosen = telling(frames)
    if not chosen:
        return "(no stack recorded)"
    file, line, function = chosen[0]
    place = f" ({'/'.join(file.split('/')[-2:])}:{line})" if file else ""
    return " < ".join([f"{function}{place}", *(caller for _, _, caller in chosen[1:3])])
