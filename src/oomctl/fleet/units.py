"""What is judged at once: a worker-hour, or a log, which nothing else of the fleet is needed for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from oomctl.fleet.store import Entry, Store, is_url, matcher, split_pattern
from oomctl.schemas.partitions import CONTEXT, FINDINGS, HOUR, Place, place_of


@dataclass(frozen=True)
class Unit:
    """A file of a store, to be judged.

    Attributes:
        root: Of the store.
        path: Below it.
        context: The file with what its triage needs beside it, or None.
        identity: Another one means that either of the two may have changed.
        bytes: Of both.
    """

    root: str
    path: str
    context: str | None
    identity: str
    bytes: int = 0

    @property
    def name(self) -> str:
        """Its full name."""
        return f"{self.root}/{self.path}"

    @property
    def place(self) -> Place | None:
        """The worker and the hour, where its path tells."""
        return place_of(self.name)

    @property
    def folder(self) -> str:
        """The full name of its folder: the units of one are kept together."""
        return self.name.rpartition("/")[0]


def units(path: str) -> list[Unit]:
    """The units that a path means, in order of name.

    Args:
        path: A folder, a glob of files, or a URL of either. Hidden files and folders, and those that begin with _, are left
            out.
    """
    root, pattern = split_pattern(path)
    if not is_url(path) and Path(path).is_file():
        root, pattern = str(Path(path).parent), escape(Path(path).name)
    store = Store(root)
    first, below, _ = pattern.partition("/")  # such as date=2026-03-*
    entries = {entry.path: entry for entry in store.entries(matcher(first) if below and first not in ("*", "**") else None)}
    wanted = matcher(pattern)
    return [_unit(store, entries, path) for path in entries if _visible(path) and wanted.fullmatch(path)]


def folders(found: Sequence[Unit]) -> Iterator[list[Unit]]:
    """The units of each folder."""
    kept: dict[str, list[Unit]] = {}
    for unit in found:
        kept.setdefault(unit.folder, []).append(unit)
    yield from kept.values()


def _visible(path: str) -> bool:
    parts = path.split("/")
    # The findings of an earlier run may lie in a folder below.
    return not any(part.startswith((".", "_")) for part in parts) and not parts[-1].startswith(FINDINGS)


def _unit(store: Store, entries: dict[str, Entry], path: str) -> Unit:
    folder, slash, name = path.rpartition("/")
    beside = entries.get(f"{folder}{slash}{CONTEXT}{name.removeprefix(HOUR)}") if name.startswith(HOUR) else None
    found = [entries[path], *([beside] if beside else [])]
    identity = "+".join(entry.identity for entry in found)
    return Unit(store.root, path, beside.path if beside else None, identity, sum(entry.bytes for entry in found))
