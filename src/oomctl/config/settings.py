"""What may be set: every option of every command, as the commands declare them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

SHORT = "json"
"""--json where there is --format: an abbreviation, which is typed and not kept."""
ACTING = frozenset(
    {
        "hook", "launch",
        "otlp-endpoint", "url", "metrics", "kv-events", "address",
        "listen", "token-file",
        "output", "force", "emit", "html", "findings",
        "budget", "age",
    }
)  # fmt: skip
"""What runs; whom it calls; what lets in; what writes; what deletes: taken from a file that was named, never from one that
lay there."""


@dataclass(frozen=True)
class Setting:
    """One option of one command.

    Attributes:
        command: Its words: ("capacity", "replay").
        key: How a file names it: its flag without the dashes.
        parameter: As the command declares it.
    """

    command: tuple[str, ...]
    key: str
    parameter: Any

    @property
    def name(self) -> str:
        """As a person would say it: capacity.replay.policy."""
        return ".".join((*self.command, self.key))

    @property
    def variable(self) -> str:
        """Of the environment: OOMCTL_CAPACITY_REPLAY_POLICY."""
        return "_".join(("oomctl", *self.command, self.key)).replace("-", "_").upper()

    @property
    def many(self) -> bool:
        """Whether it may be given several times."""
        return bool(self.parameter.multiple)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of its value in a file."""
        made = {"description": self.parameter.help or ""} | (
            {"type": "array", "items": self.one} if self.many else self.one
        )
        if (default := self.default) not in (None, ""):
            made["default"] = default
        return made

    @property
    def default(self) -> Any:
        """What counts where nothing is set."""
        return getattr(self.parameter.default, "value", self.parameter.default)

    @cached_property
    def one(self) -> dict[str, Any]:
        """JSON Schema of a value, where it may be given several times: of one of them."""
        kind = self.parameter.type
        if self.parameter.is_flag:
            return {"type": "boolean"}
        if choices := getattr(kind, "choices", None):
            return {"enum": [getattr(choice, "value", choice) for choice in choices]}
        word = kind.name.partition(" ")[0]
        made: dict[str, Any] = {"type": {"int": "integer", "float": "number"}.get(word, "string")}
        bounds = {"minimum": getattr(kind, "min", None), "maximum": getattr(kind, "max", None)}
        return made | {name: bound for name, bound in bounds.items() if bound is not None}


def settings(command: Any, words: tuple[str, ...] = ()) -> Iterator[Setting]:
    """All that may be set of a command and of those below it.

    Args:
        command: Of typer.
        words: Its name, below oomctl.
    """
    for name, below in getattr(command, "commands", {}).items():
        yield from settings(below, (*words, name))
    if not words:
        return  # --version, --debug and --config are of one run
    found = [(_key(parameter), parameter) for parameter in command.params if parameter.param_type_name == "option"]
    keys = {key for key, _ in found}
    for key, parameter in found:
        if key != "help" and not (key == SHORT and "format" in keys):
            yield Setting(words, key, parameter)


def schema(command: Any) -> dict[str, Any]:
    """JSON Schema (2020-12) of oomctl.toml."""
    document = _table("oomctl.toml")
    for setting in settings(command):
        table = document
        for depth, word in enumerate(setting.command, 1):
            named = " ".join(setting.command[:depth])
            table = table["properties"].setdefault(word, _table(f"oomctl {named}"))
        table["properties"][setting.key] = setting.schema
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "oomctl.config/1",
        "title": "Options of oomctl's commands, as oomctl.toml sets them",
        **document,
    }


def _table(what: str) -> dict[str, Any]:
    return {"description": what, "type": "object", "properties": {}, "additionalProperties": False}


def _key(parameter: Any) -> str:
    """The first long flag, without its dashes."""
    (flag, *_) = (flag for flag in parameter.opts if flag.startswith("--"))
    return str(flag).removeprefix("--")
