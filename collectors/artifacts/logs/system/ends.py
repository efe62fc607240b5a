"""How a process ended, from its exit status: one way to say it, whoever prints the number."""

from oomctl.collectors.artifacts.logs.fact import Fact

MAX_DETAIL = 500
SIGKILL = 9
CRASHES = {4: "illegal_instruction", 6: "abort", 7: "bus_error", 8: "arithmetic_fault", 11: "segfault"}
"""Signals of a process that broke, and the fault's code."""


def killed(detail: str, exit_code: int | None = None) -> Fact:
    """A process that somebody ended with SIGKILL; the line does not say who."""
    fields: dict[str, object] = {"phase": "killed", "signal": SIGKILL}
    if exit_code is not None:
        fields["exit_code"] = exit_code
    return Fact("lifecycle", {**fields, "detail": detail[:MAX_DETAIL]})


def vanished(detail: str) -> Fact:
    """A process that is gone; the line does not say how."""
    return Fact("lifecycle", {"phase": "killed", "detail": detail[:MAX_DETAIL]})


def crashed(code: str, detail: str, *, fatal: bool | None = True) -> Fact:
    """A process that broke: a segmentation fault, a bus error, an abort; or one of which it is not told that it did."""
    return Fact("fault", {"code": code, "detail": detail[:MAX_DETAIL], "fatal": fatal})


def status(code: int, detail: str) -> Fact:
    """What an exit status means: a shell's 128 + signal, or Python's negative signal."""
    signal = -code if code < 0 else code - 128 if 128 < code < 160 else None
    if signal == SIGKILL:
        return killed(detail, code)
    if signal in CRASHES:
        return crashed(CRASHES[signal], detail)
    fields: dict[str, object] = {"phase": "stopped", "exit_code": code, "detail": detail[:MAX_DETAIL]}
    if signal is not None:
        fields["signal"] = signal
    return Fact("lifecycle", fields)


def oom_kill(api: str, message: str, **fields: object) -> Fact:
    """A kill for want of host memory, by the word of whoever knows: the kernel, or who asked it.

    Args:
        api: Who says so.
        message: As printed.
        fields: More of the oom row, such as victim and victim_pid.
    """
    known = {name: value for name, value in fields.items() if value is not None}
    return Fact(
        "oom",
        {"resource": "host", "api": api, "error_type": "oom_kill", "message": message[:2000], "fatal": True, **known},
    )
