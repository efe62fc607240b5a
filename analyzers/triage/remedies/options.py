"""The memory options of an engine: what each moves, in which direction, since when."""

from typing import Literal

import msgspec

from oomctl.analyzers.triage.remedies.versions import Version, parse, within
from oomctl.schemas.kinds_memory import COMPONENTS

Direction = Literal["less", "more"]
Kind = Literal["share", "count", "requests", "devices", "bytes", "gib", "switch", "choice", "json"]
"""What an option's value is; `requests` are those at once, a `switch` is on or off, a `choice` is a word."""
Formula = Literal["share_of_total", "bytes", "gib", "proportional"]
"""share_of_total: bytes = value x device; bytes and gib: bytes = value; proportional: bytes / value is constant."""

PLACES = (*COMPONENTS, "host")
"""Where an option moves bytes: a component of device memory, or the host's memory (the event table's kind of that name)."""
PARTS: dict[str, tuple[str, ...]] = {
    "activation": ("encoder", "profiled_encoder"),
    "logits": ("prompt",),
    "weights": ("staging", "layers", "models"),
    "kv_pool": ("use", "admission", "request", "swap"),
}
"""What of a component an option moves; `profiled_encoder` is what only the profiling run encodes; of kv_pool, `use` is what
running requests take, `admission` how many of them there are, `request` what one may take, `swap` where those sent back
are kept."""


class Spelling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an option is typed, in a range of versions; its ends are versions that were looked at and have it."""

    cli: str | None = None
    env: str | None = None
    config: str | None = None
    python: str | None = None
    since: str | None = None
    until: str | None = None

    @property
    def name(self) -> str:
        """The form that remedies use: configuration file, command line, environment, Python, in this order."""
        return self.config or self.cli or self.env or self.python or ""

    def typed(self, value: str | None) -> str:
        """The setting as typed; without a value, a switch."""
        if value is None:
            return self.name
        assigned = self.name in (self.env, self.python) and value not in ("lower", "higher")
        joint = "=" if assigned else " "
        return f"{self.name}{joint}{value}"


class Default(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The value where nothing is set, in a range of versions."""

    value: str
    since: str | None = None
    until: str | None = None


class Move(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an option does to one component.

    Attributes:
        component: Which (PLACES).
        part: What of it (PARTS); the component as a whole where absent.
        raised: What raising the value does to it.
        gives: What `set` does to it, for options whose values have no order.
        set: The value that does so; a switch needs none.
        formula: Where the bytes follow from the value exactly.
        holds: Components beside this one that the same share pays for.
        arithmetic: What a remedy says of its bytes, where nothing better is known.
        less: The sentence of a remedy that makes the component smaller by this option; without it none is proposed.
        more: The same for larger.
    """

    component: str
    part: str | None = None
    raised: Direction | None = None
    gives: Direction | None = None
    set: str | None = None
    formula: Formula | None = None
    holds: tuple[str, ...] = ()
    arithmetic: str = ""
    less: str | None = None
    more: str | None = None
    since: str | None = None
    until: str | None = None

    def sentence(self, direction: Direction) -> str | None:
        """What a remedy in this direction says."""
        return self.less if direction == "less" else self.more


class Option(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One option of an engine.

    Attributes:
        name: As the engine's log prints it among its arguments.
        also: Other names there.
        kind: What its value is.
        spellings: How it is typed; of those that a version has, the last one counts.
        defaults: Its value where nothing is set; absent where it depends on the model or the device.
        moves: What it does.
        minimum: The smallest value that it can be lowered to; where absent, nothing for a share and 1 for the others.
        suggest: A value to start with where the present one means "no limit".
        overridden_by: Options that, where set, leave this one without effect.
        only_where_set: Propose it only to those who use it.
        side_effect: What else it does, in one clause.
        source: Where this was read.
    """

    name: str
    kind: Kind
    spellings: tuple[Spelling, ...]
    moves: tuple[Move, ...]
    source: str
    also: tuple[str, ...] = ()
    defaults: tuple[Default, ...] = ()
    minimum: float | None = None
    suggest: str | None = None
    overridden_by: tuple[str, ...] = ()
    only_where_set: bool = False
    side_effect: str = ""

    @property
    def lowest(self) -> float:
        """The smallest value that it can be lowered to."""
        return self.minimum if self.minimum is not None else 0 if self.kind == "share" else 1

    @property
    def keys(self) -> tuple[str, ...]:
        """Its names in a log's arguments."""
        return (self.name, *self.also)

    def spelling(self, version: Version | None, printed: str | None = None) -> Spelling | None:
        """How this version spells it; None where it has no such option.

        Args:
            version: None stands for the newest.
            printed: The name under which the log printed it, which tells where no version does.
        """
        if version is None and printed is not None:
            for spelling in self.spellings:
                if spelling.name.lstrip("-").replace("-", "_") == printed:
                    return spelling
        return next((item for item in reversed(self.spellings) if within(version, item.since, item.until)), None)

    def default(self, version: Version | None) -> str | None:
        """Its value in this version where nothing is set, where that is fixed."""
        return next((item.value for item in self.defaults if within(version, item.since, item.until)), None)


class Engine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An engine's memory options, the most effective first of those that move the same component.

    Attributes:
        engine: Its name in the event table.
        title: As its makers write it.
        checked: Versions that were looked at, oldest first; none where their sources tell no version.
        options: Its options.
        sizes_pool_last: Whether its KV pool takes what the warm-up left, so that a smaller pool cannot help the warm-up.
    """

    engine: str
    title: str
    checked: tuple[str, ...]
    options: tuple[Option, ...]
    sizes_pool_last: bool = False

    @property
    def newest(self) -> str:
        """The newest version that was looked at, as in "vLLM 0.33.0"."""
        return " ".join((self.title, *self.checked[-1:]))

    @property
    def budget(self) -> str | None:
        """The option that gives the engine its share of the device, as typed; None where there is none."""
        budgets = [option for option in self.options if any(move.formula == "share_of_total" for move in option.moves)]
        spelling = budgets[0].spelling(None) if budgets else None
        return None if spelling is None else spelling.name

    def same_everywhere(self, option: Option) -> bool:
        """Whether every version that was looked at spells the option the same way."""
        spelled = {item and item.name for item in (option.spelling(parse(version)) for version in self.checked)}
        return len(spelled) <= 1
