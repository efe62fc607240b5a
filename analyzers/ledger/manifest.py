"""The deployment that a log or a recording tells: engine, command line and device, from which `predict` starts."""

import shlex
from typing import TYPE_CHECKING

import msgspec

from oomctl import queries
from oomctl.analyzers.ledger.arguments import counted_options
from oomctl.schemas.errors import OomctlError

if TYPE_CHECKING:
    import duckdb

_SPELLINGS = {"max_seq_len": "max_model_len"}
"""Arguments that an engine prints under another name than that of its option."""
_UNSET = "None"
"""What engines in Python print where nothing was given; vLLM's page of metrics does so for each option of its cache."""


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """What was started; `line` holds the options that count, and no others."""

    engine: str
    """Such as "vllm==0.19.0"; without a version where none was printed."""
    line: str
    device_bytes: int | None


def read_manifest(connection: "duckdb.DuckDBPyConnection") -> Deployment:
    """The newest start of an event table's first worker.

    Args:
        connection: With the event table and its views.

    Raises:
        OomctlError: No engine is named.
    """
    rows = connection.execute(queries.load("evidence", "deployment").sql).fetchall()
    found = {(section, key): str(value) for _, _, section, key, value in rows}
    name, version = found.get(("engine", "name")), found.get(("engine", "version"))
    if name is None:
        raise OomctlError("no engine is named in it", "give --engine and --engine-args instead of --manifest")
    known = counted_options(name)
    words = []
    for (section, key), value in found.items():
        option = f"--{_SPELLINGS.get(key, key).replace('_', '-')}"
        if section != "argument" or value == _UNSET or (key in _SPELLINGS and ("argument", _SPELLINGS[key]) in found):
            continue
        if value in ("True", "False"):
            spelt = option if value == "True" else option.replace("--", "--no-", 1)
            words += [spelt] if spelt in known else []
        elif option in known:
            words += [option, shlex.quote(value.removeprefix("torch."))]
    total = found.get(("device", "total_bytes"))
    return Deployment(
        engine=name if version is None else f"{name}=={version}",
        line=" ".join(words),
        device_bytes=None if total is None else int(total),
    )
