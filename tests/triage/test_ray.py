"""Ray's memory monitor ends a worker before the kernel would: no allocation failed, and the node is what was full."""

# ruff: noqa: E501  a line of a log is one line

import pytest

from oomctl.schemas.verdict import Incident
from tests.triage.logs import first, triaged
from tests.triage.test_silent import RUNNING

GIB = 2**30
RAYLET = "(raylet) [2026-06-11 04:00:00,111 E 98 98] (raylet) node_manager.cc:3069: {count} Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: 5c, IP: 10.8.0.4) over the last time period.\n"
ERROR = "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
NODE = "Memory on the node (IP: 10.8.0.4, ID: 5c) where the {what} ({what} ID: 31, name={name}, pid=7210, memory used=88.00GB) was running was 240.50GB / 250.00GB (0.962), which exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: 4d) because it was the most recently scheduled task; to see more information about memory usage on this node, use `ray logs raylet.out -ip 10.8.0.4`.\n"
TOP = "Top 10 memory users:\nPID\tMEM(GB)\tCOMMAND\n{rows}"
ROWS = "7210\t88.00\tray::{name}\n6001\t{other}\tray::Trainer.step\n"


def killed(what: str = "task", name: str = "Rollout.step", other: str = "") -> str:
    table = TOP.format(rows=ROWS.format(name=name, other=other)) if other else ""
    return RAYLET.format(count=1) + ERROR + NODE.format(what=what, name=name) + table


def settings(found: Incident) -> list[str]:
    return [remedy.setting or "" for remedy in found.remedies]


@pytest.mark.parametrize("what", ["task", "actor", "lease"])
@pytest.mark.parametrize(
    "traceback", ["", 'Traceback (most recent call last):\n  File "/srv/a.py", line 1, in get\n    x()\n']
)
def test_who_was_killed_and_what_the_node_held(what: str, traceback: str) -> None:
    log = killed(what)
    found = first(log.replace(ERROR, traceback + ERROR))
    assert (found.verdict, found.resource) == ("oom", "host")
    assert (found.causes[0].cause, found.causes[0].bytes) == ("ray_memory_monitor", round(240.5 * GIB))
    assert "ray::Rollout.step (88.00 GiB)" in found.summary and "240.50 GiB of 250.00 GiB" in found.summary
    assert not any("allocation of host memory failed" in item.says for item in found.evidence)


def test_what_to_change_is_of_ray_and_of_the_node() -> None:
    found = first(killed())
    assert [setting.partition("=")[0] for setting in settings(found)] == [
        "@ray.remote(memory", "ray start --object-store-memory BYTES", "RAY_memory_usage_threshold", "RAY_memory_monitor_refresh_ms",
    ]  # fmt: skip
    assert found.remedies[0].short_bytes == round(240.5 * GIB) - round(0.95 * 250 * GIB)
    assert found.remedies[2].frees_bytes == round(0.03 * 250 * GIB)
    assert not any("limits.memory" in setting for setting in settings(found))


@pytest.mark.parametrize(("other", "cause"), [("120.00", "host_neighbour"), ("12.00", "ray_memory_monitor")])
def test_who_held_most(other: str, cause: str) -> None:
    found = first(killed(other=other))
    assert found.causes[0].cause == cause
    assert "ray_memory_monitor" in [link.cause for link in found.causes]


def test_an_actor_that_was_killed_does_not_go_on_and_a_task_may() -> None:
    assert first(killed("actor")).survived is False
    assert first(killed("task")).survived is None


def test_the_raylets_line_alone() -> None:
    found = first(RAYLET.format(count=2))
    assert (found.verdict, found.resource, found.causes[0].bytes) == ("oom", "host", None)
    assert triaged(RAYLET.format(count=0)) == []


def test_a_worker_of_any_name_is_rays_beside_an_engine() -> None:
    found = first(RUNNING + killed(name="acme"))
    assert (found.verdict, found.resource) == ("oom", "host")


ADVICE = "Refer to the documentation on how to address the out of memory issue: https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html.\n"


@pytest.mark.parametrize(
    "header",
    [
        "ray.exceptions.RayActorError: The actor died because its node has run low on memory.\n",
        "ray.exceptions.ActorDiedError: ",
    ],
)
def test_the_sentence_counts_whatever_stands_above_it(header: str) -> None:
    """Ray's advice quotes a command before it speaks of the out of memory issue; neither makes it somebody's text."""
    trace = 'Traceback (most recent call last):\n  File "/srv/a.py", line 1, in get\n    x()\n'
    kill = NODE.format(what="actor", name="Rollout.step") + TOP.format(rows=ROWS.format(name="Rollout.step", other="1.00"))
    found = first(trace + header + kill + ADVICE)
    assert (found.verdict, found.resource, found.survived) == ("oom", "host", False)
    assert "ray::Rollout.step (88.00 GiB)" in found.summary


def test_the_sentence_in_a_prompt_is_text() -> None:
    sentence = NODE.format(what="actor", name="a").strip()
    assert triaged(RUNNING + f"ERROR 06-11 04:00:00 [serving.py:1] Error in parsing the prompt: {sentence}\n") == []


def test_one_kill_that_is_told_three_times_is_one_failure() -> None:
    assert first(killed()).cascade is None
