"""Ray's memory monitor: what the node held when it killed a task, and who held most."""

from oomctl.collectors.artifacts.logs.fact import Fact
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.units import size

_NODE = Pattern(r"(?i)memory on the node .{0,400}?was ([\d.]{1,12})(GB|MB) / ([\d.]{1,12})(GB|MB)")
_TOP = Pattern(r"(?:^|\n)\s*(\d{1,10})\s+(\d{1,6}\.\d{1,3})\s+(\S[^\n]{0,200})")


def facts(message: str) -> list[Fact]:
    """The node's figures (Ray divides by 2**30 and prints GB), and the rows of its "Top 10 memory users"."""
    node = _NODE.search(message[:4000])
    if node is None:
        return []
    used, total = size(node[1], node[2], binary=True), size(node[3], node[4], binary=True)
    if used is None or total is None:
        return []
    found = [Fact("host", {"total_bytes": total.bytes, "free_bytes": max(total.bytes - used.bytes, 0)})]
    _, heading, table = message.partition("MEM(GB)")
    for row in list(_TOP.finditer(table[:4000]))[:10] if heading else ():
        held = size(row[2], "GB", binary=True)
        if held is not None and held.bytes:
            fields = {
                "pid": int(row[1]),
                "name": row[3][:200],
                "rss_bytes": held.bytes,
                "resolution_bytes": held.resolution,
            }
            found.append(Fact("process", fields))
    return found
