"""Of which container, and of which pod, a kill is told: the engine's sidecars and neighbours are none of it."""

import pytest

from oomctl.schemas.verdict import Incident
from tests.logs.reading import of_kind, read
from tests.triage.logs import triaged

CONTAINER = """\
  {name}:
    Image:         {image}
    Command:
      {command}
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       {reason}
      Exit Code:    {status}
    Restart Count:  5
    Limits:
      memory:          48Gi
"""
NAMES = {
    "vllm": (
        "vllm/vllm-openai:v0.14.0",
        "vllm\n      serve\n      /m\n      --swap-space=16\n      --max-num-seqs\n      64",
    ),
    "main": ("registry/llm:7", "python\n      -m\n      sglang.launch_server"),
    "fluent-bit": ("fluent/fluent-bit:3.1", "/fluent-bit/bin/fluent-bit"),
    "server": ("registry/inference:1", "/entrypoint.sh"),
}


def pod(**reasons: str) -> str:
    parts = "".join(
        CONTAINER.format(
            name=name.replace("_", "-"), image=NAMES[name.replace("_", "-")][0], command=NAMES[name.replace("_", "-")][1],
            reason=reason, status=137 if reason == "OOMKilled" else 0,
        )
        for name, reason in reasons.items()
    )  # fmt: skip
    return f"Name:             llm-0\nNamespace:        prod\nContainers:\n{parts}Conditions:\n  Type  Status\n"


def verdict(found: list[Incident]) -> list[tuple[str | None, str | None]]:
    return [(item.verdict, item.resource) for item in found]


@pytest.mark.parametrize("indented", [True, False])
@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ({"vllm": "OOMKilled", "fluent_bit": "Completed"}, [("oom", "host")]),
        ({"fluent_bit": "OOMKilled", "vllm": "Completed"}, [("not_oom", None)]),
        ({"vllm": "Completed", "fluent_bit": "OOMKilled"}, [("not_oom", None)]),
        ({"fluent_bit": "OOMKilled", "main": "Completed"}, [("not_oom", None)]),
        ({"fluent_bit": "OOMKilled", "vllm": "OOMKilled"}, [("oom", "host")]),
        ({"server": "OOMKilled"}, [("oom", "host")]),
    ],
)
def test_whose_container_was_killed(reasons: dict[str, str], expected: list[object], indented: bool) -> None:
    text = pod(**reasons)
    found = triaged(text if indented else "".join(line.lstrip() for line in text.splitlines(keepends=True)))
    assert verdict(found) == expected
    if expected[0] == ("oom", "host"):
        assert found[0].confidence > 0.8
    else:
        assert found[0].summary.startswith("The container fluent-bit (fluent/fluent-bit:3.1")


def test_the_command_of_a_description_gives_arguments() -> None:
    arguments = {
        row["key"]: row["value"] for row in of_kind(read(pod(vllm="OOMKilled")), "manifest") if row["section"] == "argument"
    }
    assert arguments == {"swap_space": "16", "max_num_seqs": "64"}


PODS = "NAME        READY   STATUS      RESTARTS      AGE\n{rows}"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("vllm-0      0/1     OOMKilled   3 (2m ago)    19m\nredis-0     1/1     Running   0   2d\n", [("oom", "host")]),
        ("vllm-0      1/1     Running     0    19m\nredis-0     0/1     OOMKilled   7   2d\n", [("not_oom", None)]),
        ("llm-0       0/1     OOMKilled   3             19m\n", [("oom", "host")]),
        ("prod   vllm-0   1/1   Running   0   19m\nprod   redis-0   0/1   OOMKilled   7   2d\n", [("not_oom", None)]),
    ],
)  # fmt: skip
def test_whose_pod_was_killed(rows: str, expected: list[object]) -> None:
    head = "NAMESPACE  " if rows.startswith("prod") else ""
    assert verdict(triaged(head + PODS.format(rows=rows))) == expected
