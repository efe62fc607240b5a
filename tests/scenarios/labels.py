"""Labels: what triage should say of an incident, known by construction."""

from typing import TypedDict


class Label(TypedDict):
    """What triage should say of the root incident.

    `incident` is False where there is none (a healthy server); all else is None then. `cause` is the first cause, None
    where none is asserted; `also_causes` and `also_classes` are right as well, where the record alone does not decide.
    `survived` is None where the log ends before it shows whether the worker went on.
    """

    incident: bool
    verdict: str | None
    oom_class: str | None
    resource: str | None
    cause: str | None
    survived: bool | None
    also_causes: tuple[str, ...]
    also_classes: tuple[str | None, ...]


def label(
    verdict: str | None,
    oom_class: str | None,
    resource: str | None,
    cause: str | None = None,
    *,
    survived: bool | None = False,
    also_causes: tuple[str, ...] = (),
    also_classes: tuple[str | None, ...] = (),
) -> Label:
    """The label of an incident."""
    return Label(
        incident=True,
        verdict=verdict,
        oom_class=oom_class,
        resource=resource,
        cause=cause,
        survived=survived,
        also_causes=also_causes,
        also_classes=also_classes,
    )


NOTHING = Label(
    incident=False,
    verdict=None,
    oom_class=None,
    resource=None,
    cause=None,
    survived=None,
    also_causes=(),
    also_classes=(),
)
"""The label of a log without an incident."""


def device(oom_class: str, cause: str | None = None, *also_causes: str, survived: bool | None = False) -> Label:
    """Device memory ran out."""
    return label("oom", oom_class, "device", cause, survived=survived, also_causes=also_causes)


def blocks(oom_class: str, cause: str | None = None, *also_causes: str, survived: bool | None = False) -> Label:
    """KV blocks ran out."""
    return label("oom", oom_class, "kv_blocks", cause, survived=survived, also_causes=also_causes)
