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


@cache
def _rules() -> list[tuple[str, re.Pattern[str] | None, re.Pattern[str] | None]]:
    text = Path(__file__).with_name("components.toml").read_text(encoding="utf-8")
    return [
        (
            rule["component"],
            re.compile(rule["function"], re.IGNORECASE) if "function" in rule else None,
            re.compile(rule["file"]) if "file" in rule else None,
        )
        for rule in tomllib.loads(text)["rules"]
    ]


def component(frames: list[Frame]) -> str:
    """The component that a stack allocates for, or "unknown"."""
    first = min((_first_rule(file, function) for file, _, function in frames), default=len(_rules()))
    return _rules()[first][0] if first < len(_rules()) else UNKNOWN_COMPONENT


@lru_cache(maxsize=1 << 16)
def _first_rule(file: str, function: str) -> int:
    """Position of the first rule that fits a frame; the count of rules where none does."""
    for place, (_, functions, files) in enumerate(_rules()):
        if (functions is None or functions.search(function)) and (files is None or files.search(file)):
            return place
    return len(_rules())


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
