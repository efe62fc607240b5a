"""What is set, and by what: flags over the environment over a file over what the commands declare.

The result goes to typer as a `default_map`, which counts less than a flag and more than a default.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from oomctl.cli.options import closest
from oomctl.config import FILE, FILE_VARIABLE, PREFIX, file
from oomctl.config.settings import ACTING, SHORT, Setting, settings
from oomctl.schemas.errors import ExitCode, OomctlError

_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", list: "a list"}
_TRUTHS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@dataclass(frozen=True)
class Set:
    """A value that something other than a flag set.

    Attributes:
        setting: Of what.
        value: Checked against the option's own type.
        origin: File and line, or the variable.
    """

    setting: Setting
    value: Any
    origin: str


def resolve(command: Any, words: Sequence[str], named: Path | None) -> dict[str, Set]:
    """What is set outside the command line, by the name of the setting.

    Args:
        command: The whole of oomctl.
        words: The command line; only the variables of its first word are looked at, all of them where it is empty.
        named: The file that --config names, or None.

    Raises:
        OomctlError: If a file cannot be read, or something unknown, or of a wrong type, is set.
    """
    known = {setting.name: setting for setting in settings(command)}
    found = {entry.setting.name: entry for entry in _from_file(known, named)}
    found |= {entry.setting.name: entry for entry in _from_environment(known, words)}
    return found


def default_map(found: Mapping[str, Set], words: Sequence[str]) -> dict[str, Any]:
    """The same as typer takes it; what a flag contradicts is left out."""
    made: dict[str, Any] = {}
    for entry in found.values():
        if entry.setting.key == "format" and f"--{SHORT}" in words:
            continue
        table = made
        for word in entry.setting.command:
            table = table.setdefault(word, {})
        table[entry.setting.parameter.name] = entry.value
    return made


def blamed(found: Mapping[str, Set], words: Sequence[str], error: OomctlError) -> OomctlError:
    """The same error with the place of what caused it, where a command did not like a value that no flag gave."""
    flag = error.what.partition(" ")[0]
    if any(word.partition("=")[0] == flag for word in words):
        return error
    for entry in found.values():
        if f"--{entry.setting.key}" == flag and entry.setting.command == tuple(words[: len(entry.setting.command)]):
            return OomctlError(f"{error.what} ({entry.origin})", error.hint, error.exit_code)
    return error


def _from_file(known: Mapping[str, Setting], named: Path | None) -> Iterator[Set]:
    path = named or (Path(os.environ[FILE_VARIABLE]) if os.environ.get(FILE_VARIABLE) else None)
    if path is None and not FILE.is_file():
        return
    for entry in file.read(path or FILE):
        name = ".".join(entry.path)
        setting = known.get(name) if not any("." in word for word in entry.path) else None
        if setting is None:
            if entry.value != {} or not any(other.startswith(f"{name}.") for other in known):
                raise _unknown_key(entry.path, [other.split(".") for other in known], entry.place)
            continue  # a table of ours that holds nothing
        if path is None and setting.key in ACTING:
            hint = f"name the file with --config or {FILE_VARIABLE}; one that lies there may not run, call, write or delete"
            raise OomctlError(f"{name} may only stand in a file that is named ({entry.place})", hint, ExitCode.USAGE)
        _check(setting, entry.value, entry.place)
        yield Set(setting, entry.value, entry.place)


def _from_environment(known: Mapping[str, Setting], words: Sequence[str]) -> Iterator[Set]:
    wanted = [setting for setting in known.values() if not words or setting.command[0] == words[0]]
    variables = {setting.variable: setting for setting in wanted}
    begins = tuple({f"{PREFIX}{setting.command[0].upper()}_" for setting in wanted})
    for name, text in sorted(os.environ.items()):
        if not name.startswith(begins):
            continue
        if (setting := variables.get(name)) is None:
            near = (
                closest(name, list(variables))
                .partition(" known:")[0]
                .removeprefix("did you mean ")
                .upper()
                .replace(" OR ", " or ")
            )
            hint = f"did you mean {near}" if near else "`oomctl config show` lists what may be set"
            raise OomctlError(f"unknown variable {name[:80]!r} (environment)", hint, ExitCode.USAGE)
        if not text:
            continue  # as good as not set: what a template left empty
        value = [_read(setting, part, name) for part in text.split()] if setting.many else _read(setting, text, name)
        _check(setting, value, name)
        yield Set(setting, value, name)


def _read(setting: Setting, text: str, name: str) -> Any:
    """A text of the environment as a file would have it."""
    kind = _kind(setting)
    try:
        return _TRUTHS[text.strip().lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        raise _wrong(setting, kind, text, name) from None


def _check(setting: Setting, value: Any, place: str) -> None:
    kind = _kind(setting)
    values = value if setting.many and isinstance(value, list) else [value]
    if setting.many and not isinstance(value, list):
        raise _wrong(setting, list, value, place)
    for one in values:
        whole = isinstance(one, int) and not isinstance(one, bool)
        if not (isinstance(one, kind) and (kind is bool or not isinstance(one, bool))) and not (kind is float and whole):
            raise _wrong(setting, kind, one, place)
        if isinstance(one, float) and not isfinite(one):
            raise _wrong(setting, kind, one, place)
        choices, low, high = (setting.one.get(word) for word in ("enum", "minimum", "maximum"))
        if choices and one not in choices:
            raise OomctlError(f"{setting.name} cannot be {one!r:.60} ({place})", closest(str(one), choices), ExitCode.USAGE)
        if (low is not None and one < low) or (high is not None and one > high):
            bounds = " and ".join([f"at least {low}"] * (low is not None) + [f"at most {high}"] * (high is not None))
            raise OomctlError(f"{setting.name} is {bounds}, not {one} ({place})", None, ExitCode.USAGE)


def _kind(setting: Setting) -> type:
    return {"boolean": bool, "integer": int, "number": float}.get(setting.one.get("type", "string"), str)


def _wrong(setting: Setting, kind: type, value: Any, place: str) -> OomctlError:
    return OomctlError(f"{setting.name} takes {_WORDS[kind]}, not {value!r:.60} ({place})", None, ExitCode.USAGE)


def _unknown_key(path: Sequence[str], known: list[list[str]], place: str) -> OomctlError:
    """Told by the first of its words that stands nowhere there."""
    for depth, word in enumerate(path):
        beside = {other[depth] for other in known if other[:depth] == [*path[:depth]] and len(other) > depth}
        if word not in beside and beside:
            table = f" of [{'.'.join(path[:depth])}]" if depth else ""
            hint = closest(word, sorted(beside)) or "`oomctl config show` lists them"
            return OomctlError(f"unknown key {word[:60]!r}{table} ({place})", hint, ExitCode.USAGE)
        if not beside:
            return OomctlError(f"{'.'.join(path[:depth])} takes no table ({place})", None, ExitCode.USAGE)
    return OomctlError(f"{'.'.join(path)} takes a table ({place})", None, ExitCode.USAGE)
