"""What every entry is computed from: one pipeline stage of a deployment, and the entries that are made of it."""

from collections.abc import Iterator
from typing import TypedDict, TypeVar, Unpack

import msgspec

from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.estimates import Estimate
from oomctl.analyzers.ledger.shape import Attention, Layer, Mla, Mlp, ModelShape, Moe
from oomctl.analyzers.ledger.weights import Tensor
from oomctl.schemas.ledger import Component, Entry, KvLayout, Lifetime, Place

Mixer = TypeVar("Mixer", Attention, Mla)
Feed = TypeVar("Feed", Mlp, Moe)


class Where(TypedDict, total=False):
    """Where an entry lies, if not on the device beside the others."""

    place: Place
    within: str


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """The first rank of a pipeline stage; the tensor-parallel others are alike."""

    shape: ModelShape
    engine: Engine
    stage: int
    stages: int
    layers: tuple[Layer, ...]
    """Of this stage, with those that draft on the last one."""
    tensors: tuple[Tensor, ...]
    """Every one that the rank's device holds once loading is done."""
    offloaded_bytes: int = 0
    """Of those that lie on the host instead."""
    kv: KvLayout
    max_model_len: int

    @property
    def number(self) -> int:
        """Its global rank: the first of the stage."""
        return self.stage * self.engine.tensor_parallel

    def layers_of(self, kind: type[Mixer]) -> list[Mixer]:
        """The mixers of this kind."""
        return [layer.mixer for layer in self.layers if isinstance(layer.mixer, kind)]

    def feeds_of(self, kind: type[Feed]) -> list[Feed]:
        """The feed-forward parts of this kind."""
        return [layer.feed_forward for layer in self.layers if isinstance(layer.feed_forward, kind)]

    @property
    def last(self) -> bool:
        """Whether it makes the logits."""
        return self.stage == self.stages - 1

    @property
    def element_bytes(self) -> int:
        """Of the model's type."""
        return self.engine.dtype_bytes or self.shape.element_bytes

    def exact(
        self, component: Component, lifetime: Lifetime, owner: str, size: int, formula: str, source: str,
        **where: Unpack[Where],
    ) -> Entry:  # fmt: skip
        """An entry of exact arithmetic."""
        return Entry(
            component=component, lifetime=lifetime, owner=owner, rank=self.number, bytes=size, quality="predicted",
            formula=formula, source=source, **where,
        )  # fmt: skip

    def unknown(self, component: Component, lifetime: Lifetime, owner: str, reason: str, **where: Unpack[Where]) -> Entry:
        """An entry that is there, and of which nobody knows how large it is."""
        return Entry(
            component=component, lifetime=lifetime, owner=owner, rank=self.number, bytes=None, quality=None, reason=reason,
            **where,
        )  # fmt: skip

    def estimated(
        self, component: Component, lifetime: Lifetime, owner: str, figure: Estimate, **where: Unpack[Where]
    ) -> Entry:
        """An entry of a fitted figure, with its interval; unknown where the fit does not hold."""
        if figure.bytes is None:
            return self.unknown(component, lifetime, owner, figure.reason, **where)
        return Entry(
            component=component, lifetime=lifetime, owner=owner, rank=self.number, bytes=figure.bytes, quality="estimated",
            formula=figure.formula, source=figure.source, low_bytes=figure.low_bytes, high_bytes=figure.high_bytes, **where,
        )  # fmt: skip


Entries = Iterator[Entry]
