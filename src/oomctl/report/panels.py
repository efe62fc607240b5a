"""Which queries each section of the page stands on: chart, table and SQL of a section are one answer."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """A section of the page.

    Attributes:
        key: Anchor, and name of its chart.
        title: Heading.
        queries: Whose answers it shows, as tables that fold; the first ones are drawn where there is a chart.
    """

    key: str
    title: str
    queries: tuple[str, ...]


SECTIONS = (
    Section("memory", "Memory at the failure", ("memory_at_failure", "memory_at")),
    Section(
        "time",
        "Over time",
        ("phases", "memory_over_time", "allocated_reserved_free", "kv_blocks", "batch_over_time", "request_spans"),
    ),
    Section("batch", "Who was there", ("batch_at_failure", "longest_prompts", "grew_most")),
    Section("cohorts", "Cohorts", ("reserved_and_output", "prefix_reuse", "preemption_cost", "block_return_delay")),
    Section("heap", "The allocator's heap", ("heap_pools", "heap_holders")),
    Section("ranks", "Ranks compared", ("ranks_compared",)),
    Section("starts", "Starts and neighbours", ("restart_changes", "overlap_of_lives", "foreign_processes")),
    Section("record", "The record itself", ("recorded", "record_gaps", "evidence_lines")),
)

NAMES = tuple(name for section in SECTIONS for name in section.queries)
