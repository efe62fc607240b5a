"""What every entry is computed from: one pipeline stage of a deployment, and the entries that are made of it."""

from collections.abc import Iterator

import msgspec

from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.estimates import Estimate
from oomctl.analyzers.ledger.shape import Layer, ModelShape
from oomctl.schemas.ledger import Component, Entry, KvLayout, Lifetime, Place


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """The first rank of a pipeline stage; the tensor-parallel others are alike."""

    shape: ModelShape
    engine: Engine
    stage: int
    stages: int
    layers: tuple[Layer, ...]
    """Of this stage, with a draft model's on the last one."""
    kv: KvLayout
    max_model_len: int

    @property
    def number(self) -> int:
        """Its global rank."""
        return rank_of(self.stage, self.engine)

    @property
    def last(self) -> bool:
        """Whether it makes the logits."""
        return self.stage == self.stages - 1

    @property
    def element_bytes(self) -> int:
        """Of the model's type."""
        return self.engine.dtype_bytes or self.shape.element_bytes

    def exact(
        self,
        component: Component,
        lifetime: Lifetime,
        owner: str,
        size: int,
        formula: str,
        source: str,
        *,
        place: Place = "device",
        within: str = "",
    ) -> Entry:
        """An entry of exact arithmetic."""
        return Entry(
            component=component,
            lifetime=lifetime,
            owner=owner,
            rank=self.number,
            bytes=size,
            quality="predicted",
            formula=formula,
            source=source,
            place=place,
            within=within,
        )

    def unknown(
        self,
        component: Component,
        lifetime: Lifetime,
        owner: str,
        reason: str,
        *,
        place: Place = "device",
        within: str = "",
    ) -> Entry:
        """An entry that is there, and of which nobody knows how large it is."""
        return Entry(
            component=component,
            lifetime=lifetime,
            owner=owner,
            rank=self.number,
            bytes=None,
            quality=None,
            reason=reason,
            place=place,
            within=within,
        )

    def estimated(self, component: Component, lifetime: Lifetime, owner: str, figure: Estimate) -> Entry:
        """An entry of a fitted figure, with its interval."""
        return Entry(
            component=component,
            lifetime=lifetime,
            owner=owner,
            rank=self.number,
            bytes=figure.bytes,
            quality=None if figure.bytes is None else "estimated",
            formula=figure.formula,
            source="fitted on vLLM 0.19 on H100" if figure.bytes is not None else "",
            low_bytes=figure.low_bytes,
            high_bytes=figure.high_bytes,
            reason=figure.reason,
        )


def rank_of(stage: int, engine: Engine) -> int:
    """The first global rank of a pipeline stage."""
    return stage * engine.tensor_parallel


Entries = Iterator[Entry]
