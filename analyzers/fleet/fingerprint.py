"""When two incidents are the same: what they are, and where in the engine's code they happened.

No figure, name of a worker, model or version is part of it: the same defect on another node, and before and after an
upgrade, has the same fingerprint. Lines and generated names vary by build, so they are left out too.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from oomctl.analyzers.triage.words import short_path
from oomctl.schemas.verdict import Incident

if TYPE_CHECKING:
    import duckdb

VERSION = 1
"""Of these rules. Another version's fingerprints are not compared with this one's."""
FRAMES = 3
"""Innermost frames of the engine's code that tell incidents apart."""
STRANGERS = re.compile(
    r"(torch|torchinductor\w*|triton|asyncio|concurrent|multiprocessing|threading|contextlib|functools|importlib|runpy|uvloop"
    r"|ray|starlette|fastapi|uvicorn|click|typer|fire)(/|\.py$|$)"
)
"""Packages whose frames stand around the engine's, and are the same in every traceback."""
_STDLIB = re.compile(r"/lib(?:64)?/python3[^/]*/(?!(?:site|dist)-packages/)|^<")
_GENERATED = re.compile(r"[0-9a-f]{8,}|\d{3,}")
_MODEL = re.compile(r"(?<=/models/)[\w/]+(?=\.py:)")
"""A model's own file: the layers below it and the engine above it are the same for all."""
_STACKS = """
SELECT failure.name, stack.file, stack.function
FROM (SELECT unnest($1) AS stream, unnest($2) AS seq, unnest(range(len($1))) AS cited) AS cites
INNER JOIN failure USING (stream, seq)
LEFT JOIN stack ON stack.stream = failure.stream AND stack.stack_id = failure.stack_id
ORDER BY failure.stack_id IS NULL, cites.cited, stack.depth DESC, stack.seq
"""


@dataclass(frozen=True)
class Fingerprint:
    """Why two incidents are the same.

    Attributes:
        parts: What they have in common, in words of the verdict and of the engine's code.
    """

    parts: dict[str, Any]

    @property
    def text(self) -> str:
        """The parts as JSON, always written alike."""
        return msgspec.json.encode(self.parts, order="sorted").decode()

    @property
    def digest(self) -> str:
        """The parts in twelve characters."""
        return hashlib.sha256(f"{VERSION}|{self.text}".encode()).hexdigest()[:12]


def fingerprint(connection: "duckdb.DuckDBPyConnection", incident: Incident) -> Fingerprint:
    """The fingerprint of an incident.

    Args:
        connection: The event table that it was found in, with the derived views.
        incident: From `survey`.
    """
    cited = [cite for statement in incident.evidence for cite in statement.cites]
    rows = connection.execute(_STACKS, [[cite.stream for cite in cited], [cite.seq for cite in cited]]).fetchall()
    frames: list[str] = []
    for _, file, function in rows:
        told = _frame(file, function)
        if told is not None and told not in frames:
            frames.append(told)
    parts = {
        "verdict": incident.verdict or "undetermined",
        "class": incident.oom_class,
        "resource": incident.resource,
        "cause": incident.causes[0].cause if incident.causes else None,
        "phase": incident.phase,
        "engine": incident.engine,
        "error": _error(rows[0][0]) if rows else None,
        "frames": frames[:FRAMES],
    }
    return Fingerprint({name: value for name, value in parts.items() if value})


def _error(name: str | None) -> str | None:
    """torch.OutOfMemoryError, torch.cuda.OutOfMemoryError and OutOfMemoryError are one."""
    return None if name is None else name.rpartition(".")[2]


def _frame(file: str | None, function: str | None) -> str | None:
    """A frame of the engine's or the model's code as PATH:FUNCTION; None for all others."""
    if not file or not function or _STDLIB.search(file):
        return None
    path = short_path(file)
    if STRANGERS.match(path) or "torchinductor" in file:
        return None
    return _GENERATED.sub("#", _MODEL.sub("*", f"{path}:{function}"))
