"""`oomctl ledger`: the memory of a deployment, before it runs."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oomctl.cli.kept import read_ledger
from oomctl.cli.options import Format, FormatOption, JsonOption, PathsArgument, chosen_format
from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from oomctl.analyzers.ledger.checkpoint import Checkpoint

DEFAULT_ENGINE = "vllm==0.19.0"
"""The version whose figures the estimates were fitted on."""

ledger = typer.Typer(
    name="ledger",
    help="Predict the device memory of a deployment, entry by entry, and compare.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

RevisionOption = Annotated[
    str | None, typer.Option("--model-revision", metavar="HASH", help="Kept in the ledger: the checkpoint's commit.")
]


@ledger.command("predict")
def predict(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="A model's config.json, or its folder; never a download.")
    ],
    engine_args: Annotated[
        str, typer.Option("--engine-args", metavar="LINE", help='As typed: "vllm serve MODEL --tp 4 ...".')
    ] = "",
    engine: Annotated[
        str | None, typer.Option("--engine", metavar="NAME==VERSION", help="Such as vllm==0.19.0, the default.")
    ] = None,
    manifest: Annotated[
        Path | None,
        typer.Option("--manifest", metavar="PATH", help="Take engine, arguments and device from a log or recording."),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", metavar="NAME|SIZE", help="H100-80GB, or its total as 80GiB or in bytes.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", metavar="PATH", help="Its safetensors (file, index, folder) or GGUF file."),
    ] = None,
    draft: Annotated[
        Path | None, typer.Option("--draft", metavar="CONFIG", help="Of the model that drafts, where it is another one.")
    ] = None,
    model_revision: RevisionOption = None,
    engine_revision: Annotated[
        str | None, typer.Option("--engine-revision", metavar="HASH", help="Kept in the ledger: the engine's commit.")
    ] = None,
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """Predict weights, KV blocks and what else a model takes per rank."""
    chosen = chosen_format(format, json)
    if chosen not in (Format.TABLE, Format.JSON):
        raise OomctlError(f"a ledger is not printed as {chosen.value}", "use table or json", ExitCode.USAGE)
    from oomctl.analyzers.ledger.arguments import parse_engine
    from oomctl.analyzers.ledger.predict import predict as run
    from oomctl.analyzers.ledger.shape import ModelShape

    total = _device(device)
    if manifest is not None:
        from oomctl.analyzers.ledger.manifest import read_manifest

        with _opened([str(manifest)]) as connection:
            told = read_manifest(connection)
        # What is asked for besides counts more than what was found.
        engine, engine_args = engine or told.engine, f"{told.line} {engine_args}"
        total = told.device_bytes if total is None else total
    read, notes = parse_engine(engine or DEFAULT_ENGINE, engine_args, total)
    drafts = None if draft is None else ModelShape.from_config(draft)
    found = run(ModelShape.from_config(config), read, total, _checkpoint(config, checkpoint), drafts)
    found.notes += notes
    found.model_revision, found.engine_revision = model_revision, engine_revision
    if chosen is Format.JSON:
        from oomctl.cli.render.text import document

        sys.stdout.write(document(found))
        return
    from oomctl.cli.render.ledger import ledger_text

    sys.stdout.write(ledger_text(found))


def _checkpoint(config: Path, given: Path | None) -> "Checkpoint | None":
    """What was named, else what lies in the model's folder."""
    from oomctl.analyzers.ledger.checkpoint import read_checkpoint

    if given is not None:
        return read_checkpoint(given)
    if config.is_dir() and any(
        next(config.glob(pattern), None) for pattern in ("*.safetensors", "*.safetensors.index.json")
    ):
        return read_checkpoint(config)
    return None


@contextmanager
def _opened(paths: list[str]) -> Iterator["DuckDBPyConnection"]:
    """The event table of these inputs."""
    from oomctl.cli.boundary import warn
    from oomctl.pipeline import open_inputs

    loaded = open_inputs(paths, warn)
    try:
        yield loaded.connection
    finally:
        loaded.connection.close()


def _device(text: str | None) -> int | None:
    if text is None:
        return None
    if text[:1].isdigit():
        from oomctl.cli.units import parse_size

        return parse_size(text, "--device")
    from oomctl.analyzers.ledger.devices import device_bytes

    return device_bytes(text)


LedgerArgument = Annotated[Path, typer.Argument(help="What `ledger predict --json` printed.")]


@ledger.command("diff")
def diff(
    before: LedgerArgument,
    after: LedgerArgument,
    json: JsonOption = False,
) -> None:
    """Say which entry moved between two ledgers, and what else differs."""
    from oomctl.analyzers.ledger.compare import diff as compare

    found = compare(read_ledger(before), read_ledger(after))
    if json:
        from oomctl.cli.render.text import document

        sys.stdout.write(document(found))
        return
    from oomctl.cli.render.ledger import diff_text

    sys.stdout.write(diff_text(found))


@ledger.command("check")
def check(
    before: LedgerArgument,
    after: LedgerArgument,
    tolerance: Annotated[float, typer.Option("--tolerance", min=0.0, help="Share by which an entry may grow.")] = 0.01,
    headroom: Annotated[
        str | None, typer.Option("--min-headroom", metavar="SIZE", help="Least headroom per rank, such as 2GiB.")
    ] = None,
) -> None:
    """Fail a build (status 1) when an entry grew past a tolerance or headroom is below a floor."""
    from oomctl.analyzers.ledger.compare import breaches
    from oomctl.cli.render.text import escape
    from oomctl.cli.units import parse_size

    floor = None if headroom is None else parse_size(headroom, "--min-headroom")
    found = breaches(read_ledger(before), read_ledger(after), tolerance, floor)
    for line in found:
        sys.stdout.write(escape(line) + "\n")
    if found:
        raise typer.Exit(ExitCode.FINDINGS)


@ledger.command("measure")
def measure(
    kept: LedgerArgument,
    paths: PathsArgument,
    latency: Annotated[
        list[str] | None,
        typer.Option("--latency", metavar="NAME=US", help="A latency of this configuration, kept beside the peak."),
    ] = None,
) -> None:
    """Print a ledger, as JSON, with what a log or recording measured of the deployment."""
    from oomctl.analyzers.ledger.measure import measure as run
    from oomctl.cli.render.text import document

    predicted, latencies = read_ledger(kept), dict(map(_latency, latency or []))
    with _opened(paths) as connection:
        found = run(predicted, connection, latencies)
    sys.stdout.write(document(found))


def _latency(text: str) -> tuple[str, float]:
    name, _, value = text.rpartition("=")
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if not name or not 0 <= found < 1e15:
        raise OomctlError(f'--latency "{text[:40]}" cannot be read', "such as --latency decode_p50=900", ExitCode.USAGE)
    return name, found


@ledger.command("reconcile")
def reconcile(
    kept: LedgerArgument,
    paths: PathsArgument,
    json: JsonOption = False,
) -> None:
    """Put what a log or recording measured beside a ledger, with what remains."""
    from oomctl.analyzers.ledger.reconcile import reconcile as run

    predicted = read_ledger(kept)
    with _opened(paths) as connection:
        found = run(predicted, connection)
    if json:
        from oomctl.cli.render.text import document

        sys.stdout.write(document(found))
        return
    from oomctl.cli.render.ledger import reconciled_text

    sys.stdout.write(reconciled_text(found))
