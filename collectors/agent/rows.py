"""From records of a ring to rows of the event table. For readers; the agent itself never makes a row."""

from typing import Any

from oomctl.collectors.agent.decode import Record
from oomctl.collectors.agent.header import Header
from oomctl.collectors.agent.kinds import RING_ONLY
from oomctl.schemas.rows import Row, make_row


def common_columns(header: Header, stream: str, node: str | None = None) -> dict[str, Any]:
    """What all rows of one ring share; NULL where the header does not tell."""
    return {
        "ts_quality": "exact",
        "stream": stream,
        "node": node,
        "worker": header.worker or None,
        "incarnation": header.incarnation or None,
        "rank": header.rank,
        "rank_name": header.rank_name or None,
        "device_id": header.device_id,
        "source": "agent",
        "quality": "measured",
    }


def to_row(record: Record, common: dict[str, Any]) -> Row:
    """The row of one record.

    Args:
        record: From a ring.
        common: From `common_columns`.
    """
    kind = record.kind.name
    fields = {name: value for name, value in record.values.items() if (kind, name) not in RING_ONLY}
    if kind == "step":
        fields["mode"] = _mode(fields["prefill_tokens"], fields["decode_tokens"])
    elif kind == "kv_pool" and fields["total_blocks"] and fields["used_blocks"] is not None:
        fields["usage_ratio"] = fields["used_blocks"] / fields["total_blocks"]
    return make_row(kind, fields, {**common, "seq": record.seq, "ts": record.ts})


def _mode(prefill_tokens: int | None, decode_tokens: int | None) -> str | None:
    if not prefill_tokens:
        return "decode" if decode_tokens else None
    return "mixed" if decode_tokens else "prefill"
