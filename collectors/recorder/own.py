"""What the recorder says itself: losses, its own state, and what it saw of the worker's end."""

from typing import Any

from oomctl.collectors.agent.header import Header
from oomctl.collectors.recorder.live import State
from oomctl.schemas.rows import Row, make_row

KEY = "own"


class OwnRows:
    """A stream of the recorder's own, numbered on over restarts.

    Args:
        node: This host.
        worker: The worker that is recorded.
        state: What an earlier recorder knew.
    """

    def __init__(self, node: str, worker: str, state: State) -> None:
        self._seq = int(state.get(KEY, 0))
        self._common = {"stream": f"{node}/recorder", "node": node, "worker": worker, "source": "host"}

    def loss(self, ts: int, reason: str, count: int, detail: str) -> Row:
        """Something is lost."""
        return self._row(ts, "loss", {"reason": reason, "count": count, "detail": detail})

    def state(self, ts: int, state: str, detail: str, **fields: Any) -> Row:
        """How the recorder is: ok, degraded or failed."""
        return self._row(ts, "collector", {"name": "recorder", "state": state, "detail": detail, **fields})

    def killed(self, ts: int, incarnation: str, detail: str, header: Header | None) -> Row:
        """A process of the worker is gone, and nobody here saw by which signal."""
        known = {} if header is None else {"rank": header.rank, "rank_name": header.rank_name or None}
        return self._row(ts, "lifecycle", {"phase": "killed", "detail": detail}, incarnation=incarnation, **known)

    def at(self) -> State:
        """The number of the last row."""
        return {KEY: self._seq}

    def _row(self, ts: int, kind: str, fields: dict[str, Any], **common: Any) -> Row:
        self._seq += 1
        times = {"ts": ts, "ts_quality": "exact", "quality": "measured", "seq": self._seq}
        return make_row(kind, fields, {**self._common, **times, **common})
