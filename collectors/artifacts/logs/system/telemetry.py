"""Figures of memory under names: CSV dumps with a heading, `key=value` lines, Prometheus text.

A name says what a figure is (used, free, total), of what (a device or the host) and in which unit; tools agree on no more.
"""

import re
from dataclasses import dataclass

from oomctl.collectors.artifacts.logs.fact import Fact
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.system.block import Block

MIB = 2**20
_UNITS = {
    "b": 1, "bytes": 1, "byte": 1, "kb": 1000, "kib": 2**10, "mb": 10**6, "mib": MIB, "gb": 10**9, "gib": 2**30,
}  # fmt: skip
_NAME = Pattern(
    r"(?i)^(?P<of>gpu|vram|fb|device|host|cpu|sys(?:tem)?|node|ram|rss)?[._ ]?(?:fb|mem(?:ory)?|ram|vram)?[._ ]?"
    r"(?P<what>used|use|usage|free|avail(?:able)?|total|limit)(?:[._ ](?:gpu[._ ])?mem(?:ory)?)?"
    r"(?:[._ ]?[\[(]?(?P<unit>gib|gb|mib|mb|kib|kb|bytes|byte|b)[\])]?)?$"
)
_SAYS_MEMORY = Pattern(r"(?i)mem|ram\b|ram_|fb|rss")
_DEVICE = Pattern(r"(?i)gpu|vram|fb|device|memory\.")
_INDEX = frozenset({"index", "gpu", "gpu_id", "device", "gpu_index"})
_PID = frozenset({"pid"})
_PROCESS = frozenset({"process_name", "name", "command", "process"})
_CELL = Pattern(r"^\s*(-?\d{1,18}(?:\.\d{1,9})?)\s*([KMG]i?B|bytes|B)?\s*$")


@dataclass(frozen=True)
class Column:
    """What a name means.

    Attributes:
        what: used, free, total, index, pid, process; "" for what is not read.
        scale: Bytes of one unit; None where the name tells none.
        device: Whether it is of a device; False for the host's.
    """

    what: str
    scale: int | None = None
    device: bool = False


def column(name: str) -> Column:
    """What a column or key is, by its name."""
    bare = name.strip().strip("\"'").lower()
    if bare in _INDEX:
        return Column("index", device=True)
    if bare in _PID:
        return Column("pid")
    if bare in _PROCESS:
        return Column("process")
    match = _NAME.match(bare)
    if match is None or _SAYS_MEMORY.search(bare) is None:
        return Column("")
    what = {"use": "used", "usage": "used", "limit": "total"}.get(match["what"], match["what"])
    what = "free" if what.startswith("avail") else what
    scale = _UNITS[match["unit"]] if match["unit"] else None
    return Column(what, scale, _DEVICE.search(bare) is not None)


def reading(columns: list[Column], cells: list[str]) -> list[Fact] | None:
    """The row that some cells under their columns make; None where they are no figures of memory."""
    figures: dict[str, int] = {}
    resolution, device, index, pid, name = 0, False, None, None, None
    for meaning, cell in zip(columns, cells, strict=False):
        if meaning.what == "process":
            name = cell.strip()
            continue
        number = _CELL.match(cell)
        if meaning.what in ("index", "pid"):
            if number is None:
                continue
            index = int(float(number[1])) if meaning.what == "index" else index
            pid = int(float(number[1])) if meaning.what == "pid" else pid
        elif meaning.what:
            if number is None:
                return None
            scale = _UNITS[number[2].lower()] if number[2] else meaning.scale or 1
            figures[meaning.what] = round(float(number[1]) * scale)
            resolution = max(resolution, scale // (2 * 10 ** len(number[1].partition(".")[2])))
        device = device or meaning.device
    if not figures or any(value < 0 for value in figures.values()):
        return None
    common = {"device_id": index} if index is not None else {}
    if pid is not None:
        if "used" not in figures:
            return None
        fields = {"pid": pid, "used_bytes": figures["used"], "resolution_bytes": resolution}
        return [Fact("process", fields | ({"name": name} if name else {}), common)]
    if device:
        kept: dict[str, object] = {f"{what}_bytes": value for what, value in figures.items()}
        return [Fact("device", kept | {"resolution_bytes": resolution}, common)]
    if "total" not in figures:
        return None
    free = figures.get("free", figures["total"] - figures["used"] if "used" in figures else None)
    host = {"total_bytes": figures["total"]} | ({"free_bytes": max(free, 0)} if free is not None else {})
    return [Fact("host", host)]


class Csv(Block):
    """Comma-separated rows below a heading that names columns of memory."""

    heading = Pattern(r"[\w.]+(?: ?[\[(][\w%]+[\])])?(?:[ \t]*,[ \t]*[\w.]+(?: ?[\[(][\w%]+[\])])?)+")
    patience = 2

    def __init__(self) -> None:
        super().__init__()
        self._columns: list[Column] = []

    def begins(self, text: str) -> bool:
        """A heading names memory used or free, and something besides."""
        if len(text) > 1000:
            return False
        for match in self.heading.finditer(text):
            columns = [column(name) for name in match[0].split(",")]
            if any(found.what in ("used", "free") for found in columns) and sum(1 for c in columns if c.what) > 1:
                self._columns = columns
                return True
        return False

    def row(self, text: str) -> list[Fact] | None:
        """A row has as many cells as the heading has columns."""
        cells = text.split(",")
        return reading(self._columns, cells) if len(cells) == len(self._columns) else None


_PAIR = re.compile(r"(?<![\w.])([A-Za-z][\w.]{1,40})=(\d{1,18}(?:\.\d{1,9})?)(?![\w.])")
_SAMPLE = Pattern(r"^([A-Za-z_:][\w:]{2,100})(?:\{([^}]{0,2000})\})? +(\d[\d.e+]{0,25})(?: \d{10,16})?$")
_GPU_LABEL = Pattern(r"\b(?:gpu|gpu_id|minor_number)=\"(\d{1,3})\"")
_SAMPLES: dict[str, tuple[str, str, int]] = {
    "DCGM_FI_DEV_FB_USED": ("device", "used_bytes", MIB),
    "DCGM_FI_DEV_FB_FREE": ("device", "free_bytes", MIB),
    "DCGM_FI_DEV_FB_TOTAL": ("device", "total_bytes", MIB),
    "nvidia_gpu_memory_used_bytes": ("device", "used_bytes", 1),
    "nvidia_gpu_memory_total_bytes": ("device", "total_bytes", 1),
    "node_memory_MemAvailable_bytes": ("host", "free_bytes", 1),
    "node_memory_MemTotal_bytes": ("host", "total_bytes", 1),
    "container_memory_working_set_bytes": ("host", "cgroup_current_bytes", 1),
    "container_spec_memory_limit_bytes": ("host", "cgroup_limit_bytes", 1),
    "container_oom_events_total": ("host", "cgroup_oom_kills", 1),
}


def facts(text: str) -> list[Fact]:
    """Figures on a line of their own."""
    sample = _SAMPLE.match(text)
    if sample is not None:
        return _sample(sample)
    pairs = _PAIR.findall(text)
    columns = [column(name) for name, _ in pairs]
    if {"used", "free"} & {found.what for found in columns} and any(found.scale for found in columns):
        return reading(columns, [value for _, value in pairs]) or []
    return []


def _sample(match: re.Match[str]) -> list[Fact]:
    """A sample of Prometheus' text format."""
    try:
        value = float(match[3])
    except ValueError:
        return []
    label = _GPU_LABEL.search(match[2] or "")
    common = {"device_id": int(label[1])} if label is not None else {}
    if match[1] == "DCGM_FI_DEV_XID_ERRORS" and value:
        return [Fact("fault", {"code": "xid", "detail": match[0][:500]}, common)]
    known = _SAMPLES.get(match[1])
    if known is None or not 0 <= value < 2**62:
        return []
    kind, name, scale = known
    return [Fact(kind, {name: round(value * scale)}, common)]
