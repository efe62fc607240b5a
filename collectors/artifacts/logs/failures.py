"""From a traceback, or a line that reports a failure, to oom, refusal, fault and stack rows."""

from dataclasses import replace

from oomctl.collectors.artifacts.logs import nccl, system, torch_message
from oomctl.collectors.artifacts.logs.echo import repeats
from oomctl.collectors.artifacts.logs.fact import Fact
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.redact import redact
from oomctl.collectors.artifacts.logs.registry import READERS
from oomctl.collectors.artifacts.logs.tracebacks import Traceback

_PINNED = frozenset(
    {"pin_memory", "_pin_memory", "cudaHostAlloc", "cudaHostRegister", "pin", "alloc_pinned_ptr", "alloc_pinned_numa_ptr"}
)
_PINS = Pattern(r"pin_memory=True|\.pin_memory\(|cuda\w*Host(?:Alloc|Register)|alloc_pinned|Malloc(?:Managed)?Host\w*\(")
"""Source that asks for host memory which the driver pins, and which it reports in the words of the device."""
_LONE = Pattern(
    r"^(?:\w+\.)*(\w*(?:Error|Exception|OutOfMemory\w*)\b|what\(\)|(?:ERROR|FATAL|Fatal)\b"
    r"|terminate called after throwing an instance of):? *(.*)$"
)
_BEGINS = Pattern(
    r"(?:CUDA|HIP|ROCm|XPU|NPU|MUSA|MPS|MLU)(?: [Ee]rror:| backend)? "
    r"(?:out of memory|an illegal|the resource allocation failed)"
    r"|\[\w+\.(?:cpp|cc|cu|h)\] (?i:cu|hip)\w+ ?error|EL0004\b"
    r"|\[E\d{3,4} [\d:.]{5,20} [^\]\n]{1,100}\][^\n]{0,300}\bNPU function error\b"
)
"""A line without a level that begins with the failure itself."""


def of_traceback(traceback: Traceback) -> Fact | None:
    """What a traceback's exception is; None where it is no failure that anybody need know of."""
    functions = frozenset(frame.function for frame in traceback.frames)
    if any(_PINS.search(frame.code) for frame in traceback.frames[-3:]):
        functions |= {"pin_memory"}
    fact = _classify(traceback.error_type, redact(traceback.message), functions)
    if fact is None:
        code = "exception"
        return Fact("fault", {"code": code, "detail": f"{traceback.error_type}: {traceback.message}"[:1000]})
    return fact


def of_line(record: Record) -> Fact | None:
    """What a line that is no part of a traceback reports: an exception line that lost its traceback, or a log record.

    A line below WARNING may advise about memory at any length; only an exception at its very beginning counts.
    """
    text = record.text.strip()
    ordinary = record.headed and record.level is not None and not record.serious
    if ordinary and nccl.WARNS not in text and _BEGINS.match(text) is None:
        return None
    if not record.serious and not _suspect(text):
        return None
    text = redact(text)
    lone = _LONE.match(text)
    if lone is not None and not ordinary:
        fact = _classify(text.partition(":")[0], lone[2] or text, frozenset())
        if fact is not None:
            return fact
    if record.serious or nccl.WARNS in text or _BEGINS.match(text) is not None:
        return _classify("", text, frozenset())
    return None


def _suspect(text: str) -> bool:
    """A cheap first look at a line without a level of its own."""
    return "rror" in text or nccl.WARNS in text or torch_message.looks_like(text) or system.looks_like(text)


def stack_rows(traceback: Traceback, stack_id: str) -> list[tuple[Record, Fact]]:
    """A stack fact per frame, each with the line that prints it."""
    return [
        (
            frame.record,
            Fact(
                "stack",
                {
                    "stack_id": stack_id,
                    "depth": depth,
                    "file": frame.file,
                    "line": frame.line,
                    "function": frame.function,
                    "code": frame.code,
                },
            ),
        )
        for depth, frame in enumerate(traceback.frames)
    ]


def _classify(error_type: str, message: str, functions: frozenset[str]) -> Fact | None:
    for reader in READERS:
        fact = reader.exception(error_type, message, functions)
        if fact is not None:
            return _with_figures(fact, message)
    full = f"{error_type}: {message}" if error_type else message
    if repeats(full):
        return None
    collective = nccl.reason(error_type, message)
    if collective is not None:
        return nccl.shortage(error_type, collective, message) or system.peer_lost(error_type, message)
    host = system.host_failure(error_type, message)
    if host is not None:
        return Fact("oom", {**host, "message": message[:2000]})
    if not torch_message.looks_like(full):
        return system.peer_lost(error_type, message)
    parsed = torch_message.parse(full)
    if parsed is None:
        if error_type.rpartition(".")[2] in ("OutOfMemoryError", "OutOfMemoryException"):
            return Fact("oom", {"resource": "device", "api": "torch", "error_type": error_type, "message": message[:2000]})
        return system.peer_lost(error_type, message)
    resource = "host" if functions & _PINNED else "device"
    fields = {"resource": resource, "api": parsed.api, "message": message[:2000], **parsed.fields}
    if error_type:
        fields["error_type"] = error_type
    common = {"device_id": parsed.device} if parsed.device is not None else {}
    return Fact("oom", fields, common)


def _with_figures(fact: Fact, message: str) -> Fact:
    """An engine's own word of device memory, with the figures of the framework's message that it stands below."""
    if fact.kind != "oom" or fact.fields.get("resource") != "device" or not torch_message.looks_like(message):
        return fact
    parsed = torch_message.parse(message)
    if parsed is None:
        return fact
    common = {"device_id": parsed.device} if parsed.device is not None else {}
    return replace(fact, fields={**parsed.fields, **fact.fields}, common={**common, **fact.common})


def neighbours(message: str) -> list[Fact]:
    """A process row per `Process N has` clause of a message."""
    parsed = torch_message.parse(message) if "Process " in message else None
    if parsed is None:
        return []
    rows = [Fact("process", {"pid": pid, "used_bytes": amount, "own": False}) for pid, amount in parsed.processes]
    if parsed.own_process is not None:
        pid, amount = parsed.own_process
        rows.append(Fact("process", {"pid": pid, "used_bytes": amount, "own": True}))
    return [replace(row, common={"device_id": parsed.device} if parsed.device is not None else {}) for row in rows]
