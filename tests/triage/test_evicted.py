"""Pods that the kubelet ends to relieve the node: only where memory ran out is it a matter of memory."""

# ruff: noqa: E501  a line of a log is one line

import pytest

from tests.triage.logs import first, triaged
from tests.triage.test_silent import DEAD, OOM, REPORT, RUNNING

DESCRIBED = """\
Name:             otter-0
Status:           Failed
Reason:           Evicted
Message:          {message}
Containers:
  otter:
    State:          Terminated
      Reason:       Error
      Exit Code:    137
"""
OTHERS = {
    "disk": ("The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 2Gi. Container otter was using 91Gi, request is 0, has larger consumption of ephemeral-storage.", "ephemeral-storage"),
    "pids": ("The node was low on resource: pids. Threshold quantity: 1638, available: 1600.", "pids"),
    "inodes": ("The node was low on resource: inodes.", "inodes"),
    "images": ("The node was low on resource: imagefs.available. Threshold: 15%.", "imagefs.available"),
    "condition": ("The node had condition: [DiskPressure].", "ephemeral-storage"),
    "limit": ("Pod ephemeral local storage usage exceeds the total limit of containers 20Gi.", "ephemeral-storage"),
    "a container's limit": ('Container otter exceeded its local ephemeral storage limit "20Gi".', "ephemeral-storage"),
    "volume": ('Usage of EmptyDir volume "cache-dir" exceeds the limit "50Gi".', "volume cache-dir"),
}  # fmt: skip
MEMORY = {
    "memory": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 40Mi. Container otter was using 60Gi, request is 0, has larger consumption of memory.",
    "condition": "The node had condition: [MemoryPressure].",
    "shared memory": 'Usage of EmptyDir volume "dshm" exceeds the limit "16Gi".',
}  # fmt: skip


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.parametrize("form", [DESCRIBED, "Warning  Evicted  3m  kubelet  {message}\n", "message: '{message}'\n"])
def test_another_resource_is_no_matter_of_memory(what: str, form: str) -> None:
    message, resource = OTHERS[what]
    (found,) = triaged(form.format(message=message))
    assert (found.verdict, found.resource, found.survived) == ("not_oom", None, False)
    assert resource in found.summary
    assert "Do not change memory settings" in found.remedies[0].action


@pytest.mark.parametrize("what", MEMORY)
def test_memory_is(what: str) -> None:
    (found,) = triaged(DESCRIBED.format(message=MEMORY[what]))
    assert (found.verdict, found.resource) == ("oom", "host")


@pytest.mark.parametrize("place", ["below", "above", "own file"])
def test_an_eviction_tells_of_the_engines_silent_end(place: str) -> None:
    engine, pod = RUNNING + REPORT + "Killed\n", DESCRIBED.format(message=OTHERS["disk"][0])
    logs = {"below": (engine + pod,), "above": (pod + engine,), "own file": (engine, pod)}[place]
    assert [item.verdict for item in triaged(*logs)] == ["not_oom"]


def test_the_order_in_which_yaml_tells_it() -> None:
    yaml = "status:\n  containerStatuses:\n  - state:\n      terminated:\n        exitCode: 137\n  message: '{}'\n  reason: Evicted\n"
    (found,) = triaged(yaml.format(OTHERS["disk"][0]))
    assert found.verdict == "not_oom"


def test_an_eviction_does_not_hide_a_failure_of_memory_before_it() -> None:
    found = first(RUNNING + REPORT + OOM + DEAD + DESCRIBED.format(message=OTHERS["disk"][0]))
    assert (found.verdict, found.resource) == ("oom", "device")
