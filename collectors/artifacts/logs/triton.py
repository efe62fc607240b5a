"""Triton's own lines, whatever backend runs in it.

Source of the formats: triton-inference-server/core (model_lifecycle.cc, backend_model.cc, server.cc) and server (main.cc,
grpc_server.cc, http_server.cc): glog lines, tables of models, and messages of main without a header.
"""

import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs import torch_message
from oomctl.collectors.artifacts.logs.fact import Fact, Rules, phase
from oomctl.collectors.artifacts.logs.headers import HeaderPattern
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.record import Record

name = "triton"
sources = ""
rules = Rules()

HEADERS = (
    HeaderPattern(
        engine=name,
        pattern=re.compile(
            r"\b(?P<level>[IWEF])\d{4} \d\d:\d\d:\d\d\.\d{6} +\d{1,8} (?P<logger>[\w/.]{1,80}\.(?:cc|h|cpp):\d+)\] ?"
        ),
        anchor=re.compile(r"\.(?:cc|h|cpp):\d+\] "),
        year=False,
    ),
)

_INSTANCE = Pattern(r"creating modelInstanceState|[Ff]ailed to (?:create|initialize) (?:model )?instance")


@rules.on("loading: ", r"\bloading: \S+:\d+$")
def _loading(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("loading", match[0])


@rules.on("Started GRPCInferenceService")
@rules.on("Started HTTPService")
def _serving(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield phase("serving", match[0])


@rules.on("UNAVAILABLE: ", r"\| *UNAVAILABLE: (.*)")
def _unavailable(match: re.Match[str], record: Record) -> Iterator[Fact]:
    """A row of the table of models, cut off at the table's edge."""
    found = exception("", match[1], frozenset())
    if found is not None:
        yield found


@rules.on("failed to load all models", r"creating server: .{0,40}failed to load all models")
def _dead(match: re.Match[str], _: Record) -> Iterator[Fact]:
    yield Fact("fault", {"code": "engine_dead", "detail": match[0], "fatal": True})


def exception(error_type: str, message: str, functions: frozenset[str]) -> Fact | None:
    """A model's instance that could not be made for want of device memory."""
    if _INSTANCE.search(message) is None:
        return None
    parsed = torch_message.parse(message) if torch_message.looks_like(message) else None
    if parsed is None:
        return None
    fields = {"resource": "device", "api": parsed.api, "error_type": "model_instance", "message": message[:2000]}
    return Fact("oom", fields | parsed.fields, {"device_id": parsed.device} if parsed.device is not None else {})
