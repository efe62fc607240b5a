"""The ledger that the KV pool is held against: one that was given, or one of the model and arguments that run."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from oomctl.experiment.recorded import recording
from oomctl.schemas.errors import OomctlError

if TYPE_CHECKING:
    from oomctl.schemas.ledger import Ledger


def ledger_of(given: Path | None, launch: str | None, recorded: Path) -> "tuple[Ledger | None, str]":
    """The ledger, and why there is none.

    Args:
        given: What `ledger predict --json` printed.
        launch: The command line, which may name a model's folder.
        recorded: The recording, which tells engine and arguments.
    """
    if given is not None:
        from oomctl.cli.kept import read_ledger

        return read_ledger(given), ""
    model = _model_folder(launch)
    if model is None:
        return None, "no --ledger, and the command names no folder of a model"
    try:
        return _predict(model, recorded), ""
    except OomctlError as error:
        return None, f"no --ledger, and none can be predicted: {error.what}"


def _predict(model: Path, recorded: Path) -> "Ledger":
    from oomctl.analyzers.ledger.arguments import parse_engine
    from oomctl.analyzers.ledger.checkpoint import read_checkpoint
    from oomctl.analyzers.ledger.manifest import read_manifest
    from oomctl.analyzers.ledger.predict import predict
    from oomctl.analyzers.ledger.shape import ModelShape

    with recording(recorded) as connection:
        if connection is None:
            raise OomctlError("nothing is recorded yet")
        told = read_manifest(connection)
    engine, notes = parse_engine(told.engine, told.line, told.device_bytes)
    weights = read_checkpoint(model) if next(model.glob("*.safetensors"), None) is not None else None
    found = predict(ModelShape.from_config(model), engine, told.device_bytes, weights, None)
    found.notes += notes
    return found


def _model_folder(launch: str | None) -> Path | None:
    """A word of the command that is a folder with a config.json."""
    for word in shlex.split(launch or ""):
        path = Path(word.partition("=")[2] if word.startswith("--") and "=" in word else word)
        if (path / "config.json").is_file():
            return path
    return None
