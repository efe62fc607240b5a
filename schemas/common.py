"""The columns that every row of the event table has."""

from oomctl.schemas.declare import Field, integer, text

SOURCES = (
    "agent", "nvml", "amdsmi", "host", "prometheus", "kv_events", "otlp", "log", "snapshot", "trace", "replay",
)  # fmt: skip
QUALITIES = ("measured", "derived", "predicted", "estimated", "simulated")
TS_QUALITIES = ("exact", "local", "relative", "none")

COMMON: tuple[Field, ...] = (
    Field(
        "ts",
        "timestamp",
        "When, in UTC; NULL where the source tells no time. Relates streams, never orders one.",
    ),
    text("ts_quality", "How far ts is to be trusted; local: year or zone assumed.", *TS_QUALITIES),
    text("stream", "One source instance (a file, a ring, a scraper)."),
    integer("seq", "Order within the stream; a gap is lost events."),
    integer("line", "1-based line of a text source, counted by \\n alone, so that `sed -n` shows it."),
    text("node", "Host or Kubernetes node, where known."),
    text("worker", "The engine instance."),
    text(
        "incarnation",
        "One life of the worker: boot id + pid + start time; from a log, the n-th start in the stream.",
    ),
    integer("rank", "Global rank, where known."),
    text("rank_name", "The rank or process as printed (DP0_TP3, EngineCore_DP0)."),
    integer("device_id", "Device index as the process sees it."),
    text("source", "What kind of collector wrote the row.", *SOURCES),
    text("quality", "How the figures came about.", *QUALITIES),
    text("kind", "Which struct column is filled."),
)
