"""The batches that a worker is given, as records."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from oomctl.collectors.agent.batches import Batches
from oomctl.collectors.agent.header import set_active
from tests.agent.rings import Recorded


def batch_of(scheduled: dict[str, int], new: str = "", resumed: str = "", outputs: dict[str, int] | None = None) -> Any:
    """A SchedulerOutput: the tokens of each request, who is new or resumed, and the output tokens of the others."""
    cached = [name for name in scheduled if name not in new]
    return SimpleNamespace(
        num_scheduled_tokens=scheduled,
        total_num_scheduled_tokens=sum(scheduled.values()),
        scheduled_new_reqs=[SimpleNamespace(req_id=name) for name in new],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=cached,
            resumed_req_ids=set(resumed),
            num_output_tokens=[(outputs or {}).get(name, 9) for name in cached],
        ),
    )


def test_prompt_and_decode_tokens_of_every_batch(tmp_path: Path) -> None:
    recorded, batches = Recorded(tmp_path), Batches()
    for output in (
        batch_of({"a": 5, "b": 1}, new="a"),
        batch_of({"a": 1, "b": 1}, outputs={"a": 0}),
        batch_of({"a": 1, "b": 1}),
        batch_of({"a": 1, "b": 1, "c": 1}, new="c"),
        batch_of({"a": 1, "b": 7, "c": 1}, resumed="b"),
        batch_of({"a": 1, "b": 1}),
        batch_of({"a": 1, "b": 1}, resumed="b"),
        batch_of({"a": 1, "b": 1}),
        batch_of({"a": 4, "b": 1}),
        batch_of({}),
    ):
        batches.put(recorded.ring, output)
    rows = [row for _, row in recorded.rows()]
    assert [(row["prefill_tokens"], row["decode_tokens"]) for row in rows] == [
        (5, 1), (1, 1), (0, 2), (1, 2), (7, 2), (0, 2), (1, 1), (0, 2), (0, 5), (0, 0),
    ]  # fmt: skip
    assert [row["running_requests"] for row in rows] == [2, 2, 2, 3, 3, 2, 2, 2, 2, 0]
    assert [row["step_id"] for row in rows] == list(range(1, 11))
    unknown = {"cached_tokens", "waiting_requests", "logits_positions", "duration_us", "dumped"}
    assert all(row[name] is None for row in rows for name in unknown)


def test_paused_it_writes_the_batch_that_sees_it_and_no_other(tmp_path: Path) -> None:
    recorded, batches = Recorded(tmp_path), Batches()
    batches.put(recorded.ring, batch_of({"a": 1}))
    assert recorded.ring.path is not None
    set_active(recorded.ring.path, False)
    for _ in range(3):
        batches.put(recorded.ring, batch_of({"a": 1}))
    set_active(recorded.ring.path, True)
    batches.put(recorded.ring, batch_of({"a": 1, "b": 1}, outputs={"b": 0}))
    rows = [row for _, row in recorded.rows()]
    assert [row["step_id"] for row in rows] == [1, 2, 3]
    assert [row["prefill_tokens"] for row in rows] == [0, 0, 1], "who began meanwhile is in its prompt"
