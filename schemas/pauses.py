"""What `oomctl capacity pauses` says, declared once. Waste is in token-seconds. All of it is simulated."""

import msgspec

SCHEMA = "oomctl.pauses/0"


class Waste(msgspec.Struct, frozen=True, kw_only=True):
    """Of all pauses, each for itself, none waiting for the link."""

    preserve: float
    recompute: float
    offload: float
    """Preserving where two transfers take longer than the pause."""
    offloaded: int
    """Pauses that then go over the link."""
    oracle: float
    """The least of the three, pause by pause."""
    oracle_without_link: float
    """The least of preserve and recompute."""
    oracle_recomputed: int
    """Pauses that the latter recomputes."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What decisions wasted, on one link that all sessions share."""

    waste: float
    times_oracle: float | None
    preserved: int
    recomputed: int
    offloaded: int
    longest_link_wait_s: float


class Threshold(msgspec.Struct, frozen=True, kw_only=True):
    """What to configure for contexts of a length, on an idle link."""

    context_tokens: int
    keep_s: float
    then: str
    """offload or recompute."""
    keep_without_link_s: float
    """And then recompute."""


class PauseReport(msgspec.Struct, frozen=True, kw_only=True):
    """Keep, move or drop: the waits for tools of a trace."""

    schema: str = SCHEMA
    trace: str
    quality: str = "simulated"
    pauses: int
    sessions: int
    waste: Waste
    rule_without_link: Outcome
    """Beside the oracle without a link."""
    rule: Outcome
    """Beside the oracle on the same link."""
    oracle_on_the_link: Outcome
    thresholds: list[Threshold]
