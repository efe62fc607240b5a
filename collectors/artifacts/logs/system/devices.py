"""Tables of the drivers' tools: nvidia-smi, DCGM, rocm-smi."""

import re

from oomctl.collectors.artifacts.logs.fact import Fact
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.system.block import Block
from oomctl.collectors.artifacts.logs.units import size
from oomctl.schemas.numbers import whole

MIB = 2**20
HALF_MIB = MIB // 2

_PROCESS_LINE = Pattern(r"^\s*(\d{2,10}),\s*([\d.]+) (GiB|MiB),\s*([A-Za-z/\[].{0,120})$")
_PROCESS_ROW = Pattern(
    r"\|\s+(?P<gpu>\d{1,3})\s+(?:(?:N/A|\d{1,3})\s+(?:N/A|\d{1,3})\s+)?(?P<pid>\d{1,10})\s+[CGM+]{1,3}\s+"
    r"(?P<name>\S.{0,100}?)\s+(?:(?P<used>\d{1,9})MiB|N/A)\s*\|$"
)
_ROCM = Pattern(r"GPU\[(\d{1,3})\]\s*:\s*(?:VRAM|vram) Total (Used )?Memory \(B\): (\d{1,16})")

_MONITORED = {"fb": "used", "FBUSD": "used", "FBTTL": "total", "FBFRE": "free"}


def facts(text: str) -> list[Fact]:
    """A row that says all by itself."""
    row = _PROCESS_ROW.search(text)
    if row is not None:
        return [process(row["pid"], row["name"], int(row["used"]) * MIB if row["used"] else None, row["gpu"])]
    line = _PROCESS_LINE.match(text)
    used = size(line[2], line[3]) if line is not None else None
    if line is not None and used is not None:
        fields = {"pid": int(line[1]), "name": line[4], "used_bytes": used.bytes, "resolution_bytes": used.resolution}
        return [Fact("process", fields)]
    rocm = _ROCM.search(text)
    if rocm is not None:
        name = "used_bytes" if rocm[2] else "total_bytes"
        return [Fact("device", {name: int(rocm[3])}, {"device_id": int(rocm[1])})]
    return []


def process(pid: str, name: str, used_bytes: int | None, gpu: str | None) -> Fact:
    """A process that holds device memory, printed in whole MiB."""
    fields: dict[str, object] = {"pid": int(pid), "name": name}
    if used_bytes is not None:
        fields |= {"used_bytes": used_bytes, "resolution_bytes": HALF_MIB}
    return Fact("process", fields, {"device_id": int(gpu)} if gpu is not None else {})


class NvidiaSmi(Block):
    """nvidia-smi's table of devices: the line of figures stands below the line that names the device."""

    heading = Pattern(r"NVIDIA-SMI\s+\d|\|\s+GPU\s+Name\b|^nvidia-smi\b")
    patience = 4
    _NAMED = Pattern(r"\|\s+(\d{1,3})\s+\S.{0,60}\|\s*[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:")
    _FIGURES = Pattern(r"\|\s*(\d{1,9})MiB\s*/\s*(\d{1,9})MiB\s*\|")
    _END = Pattern(r"\|\s+Processes:|^\$ ")

    def __init__(self) -> None:
        super().__init__()
        self._index: int | None = None

    def row(self, text: str) -> list[Fact] | None:
        """A device's name, or its figures."""
        named = self._NAMED.search(text)
        if named is not None:
            self._index = int(named[1])
            return []
        figures = self._FIGURES.search(text)
        if figures is not None and self._index is not None:
            fields = {"used_bytes": int(figures[1]) * MIB, "total_bytes": int(figures[2]) * MIB}
            index, self._index = self._index, None
            return [Fact("device", fields | {"resolution_bytes": HALF_MIB}, {"device_id": index})]
        if self._END.search(text) is not None:
            self.close()
            return None
        return [] if "|" in text or "+--" in text else None


class Monitor(Block):
    """Rows of `nvidia-smi dmon` and `pmon`, and of `dcgmi dmon`: a heading of column names behind a #."""

    heading = Pattern(r"^#\s*(?:gpu|Entity)\s.*\b(?:fb|FBUSD|FBTTL|FBFRE)\b")
    patience = 3
    _ENTITY = re.compile(r"^GPU (?=\d)")

    def __init__(self) -> None:
        super().__init__()
        self._names: list[str] = []

    def begins(self, text: str) -> bool:
        """The names of the columns."""
        if not super().begins(text):
            return False
        self._names = text.lstrip("# ").split()
        return True

    def row(self, text: str) -> list[Fact] | None:
        """A row of figures in MiB; the line of units below the heading tells nothing new."""
        if text.startswith("#"):
            return []
        cells = self._ENTITY.sub("", text).split(None, len(self._names) - 1)
        if len(cells) != len(self._names) or whole(cells[0]) is None:
            return None
        named = dict(zip(self._names, cells, strict=True))
        figures = {
            _MONITORED[key]: amount * MIB
            for key, value in named.items()
            if key in _MONITORED and (amount := whole(value)) is not None and amount * MIB < 2**63
        }
        if whole(named.get("pid")) is not None:
            return [process(named["pid"], named.get("command", "").strip(), figures.get("used"), cells[0])]
        if not figures or "pid" in named:
            return []
        fields: dict[str, object] = {f"{what}_bytes": value for what, value in figures.items()}
        return [Fact("device", fields | {"resolution_bytes": HALF_MIB}, {"device_id": int(cells[0])})]


class RocmProcesses(Block):
    """`rocm-smi --showpids`."""

    heading = Pattern(r"^PID\s+PROCESS NAME\s+GPU\(s\)\s+VRAM USED")
    _ROW = Pattern(r"^(\d{1,10})\s+(\S{1,64})\s+\S+\s+(\d{1,16})\s+\d")

    def row(self, text: str) -> list[Fact] | None:
        """A process and the bytes that it holds."""
        match = self._ROW.match(text)
        if match is None:
            return None
        return [Fact("process", {"pid": int(match[1]), "name": match[2], "used_bytes": int(match[3])})]
