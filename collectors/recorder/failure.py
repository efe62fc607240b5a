"""What an out-of-memory record's own words say beyond its figures: the agent writes the message, and parses nothing."""

from oomctl.collectors.artifacts.logs import torch_message
from oomctl.collectors.artifacts.logs.redact import redact
from oomctl.schemas.rows import Row

_WRITTEN = {"oom": ("message",), "fault": ("detail",), "lifecycle": ("detail",), "manifest": ("value",)}


def completed(row: Row) -> Row:
    """The row with its texts redacted, ids of stacks made unique, and the figures of its message."""
    kind = row["kind"]
    fields = row[kind]
    if fields.get("stack_id"):
        # Each process counts its own; rows of several streams may stand in one story.
        fields["stack_id"] = f"{row['stream']}:{fields['stack_id']}"
    for name in _WRITTEN.get(kind, ()):
        if fields.get(name):
            fields[name] = redact(fields[name])
    message = fields.get("message") if kind == "oom" else None
    if message and torch_message.looks_like(message) and (parsed := torch_message.parse(message)) is not None:
        # As printed, all or none: the view that puts printed figures right would spoil measured ones.
        fields.update(parsed.fields)
        if row.get("device_id") is None:
            row["device_id"] = parsed.device
    return row
