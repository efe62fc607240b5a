"""The memory ledger: predict every byte per rank, reconcile it with what was measured, compare two of them."""

from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.predict import predict
from oomctl.analyzers.ledger.shape import ModelShape

__all__ = ["Engine", "ModelShape", "predict"]
