"""Ray's memory monitor: what the node held when it killed a worker, whom it killed, and who held most.

Source of the formats: src/ray/raylet/node_manager.cc and src/ray/common/memory_monitor.cc, from 2.2 on. Ray divides by
2**30 and prints GB.
"""

from typing import Any

from oomctl.collectors.artifacts.logs.echo import repeats
from oomctl.collectors.artifacts.logs.fact import Fact
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.system.block import Block
from oomctl.collectors.artifacts.logs.units import Size, size

_SAYS = Pattern(
    r"killed due to the node running low on memory|[Mm]emory on the node .{0,600}exceeds the memory usage threshold"
    r"|\b[1-9]\d{0,5} [Ww]orkers? \(tasks / actors\) killed due to memory pressure"
)
_NODE = Pattern(r"(?i)memory on the node .{0,600}?was ([\d.]{1,12})(GB|MB) / ([\d.]{1,12})(GB|MB)")
_WHERE = Pattern(r"where the (?P<what>task|actor|lease|worker) \((?P<about>[^)\n]{0,400})\)")
_NAME = Pattern(r"\bname=([^,)]{1,200})")
_PID = Pattern(r"\bpid=(\d{1,10})\b")
_USED = Pattern(r"\bmemory used=([\d.]{1,12})(GB|MB|KB)")
_TOP = Pattern(r"(?:^|\n)\s*(\d{1,10})\s+(\d{1,6}\.\d{1,3})\s+(\S[^\n]{0,200})")
_HEADING = "MEM(GB)"


def kill(message: str) -> dict[str, Any] | None:
    """The fields of an oom row: a worker that Ray killed for the node's memory; None where the message is of none."""
    head = message[:4000]
    if _SAYS.search(head) is None or repeats(head):
        return None
    fields: dict[str, Any] = {"resource": "host", "api": "ray", "error_type": "oom_kill", "message": message[:2000]}
    where = _WHERE.search(head)
    if where is None:
        return fields
    name, pid, used = (pattern.search(where["about"]) for pattern in (_NAME, _PID, _USED))
    if name is not None:
        fields["victim"] = f"ray::{name[1]}"
    if pid is not None:
        fields["victim_pid"] = int(pid[1])
    held = _gib(used[1], used[2]) if used is not None else None
    if held is not None:
        fields["own_process_bytes"] = held.bytes
    if "actor ID" in where["about"] or where["what"] == "actor":
        fields["fatal"] = True  # a task may be tried again
    return fields


def facts(text: str) -> list[Fact]:
    """What a line tells that stands alone."""
    fields = kill(text)
    return [] if fields is None else [Fact("oom", fields), *surroundings(text)]


def surroundings(message: str) -> list[Fact]:
    """The node's figures, and the rows of "Top 10 memory users"."""
    node = _NODE.search(message[:4000])
    if node is None:
        return []
    used, total = _gib(node[1], node[2]), _gib(node[3], node[4])
    if used is None or total is None:
        return []
    found = [Fact("host", {"total_bytes": total.bytes, "free_bytes": max(total.bytes - used.bytes, 0)})]
    _, heading, table = message.partition(_HEADING)
    for row in list(_TOP.finditer(table[:4000]))[:10] if heading else ():
        found += _holder(row[1], row[2], row[3])
    return found


class TopUsers(Block):
    """The same table, where each row is a line of its own."""

    heading = Pattern(r"^\s*PID\s+MEM\(GB\)\s+COMMAND")

    def row(self, text: str) -> list[Fact] | None:
        """A process and what it holds."""
        match = _TOP.match(text)
        return None if match is None else _holder(match[1], match[2], match[3])


def _holder(pid: str, held: str, name: str) -> list[Fact]:
    amount = _gib(held, "GB")
    if amount is None or not amount.bytes:
        return []
    fields = {"pid": int(pid), "name": name[:200], "rss_bytes": amount.bytes, "resolution_bytes": amount.resolution}
    return [Fact("process", fields)]


def _gib(number: str, unit: str) -> Size | None:
    return size(number, unit, binary=True)
