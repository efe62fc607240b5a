"""`oomctl ledger`: the memory of a deployment, before it runs."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from oomctl.cli.options import Format, FormatOption, JsonOption, chosen_format
from oomctl.schemas.errors import ExitCode, OomctlError

ledger = typer.Typer(
    name="ledger",
    help="Predict the device memory of a deployment, entry by entry.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@ledger.command("predict")
def predict(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="A model's config.json, or its folder; never a download.")
    ],
    engine_args: Annotated[
        str, typer.Option("--engine-args", metavar="LINE", help='As typed: "vllm serve MODEL --tp 4 ...".')
    ] = "",
    engine: Annotated[
        str, typer.Option("--engine", metavar="NAME==VERSION", help="Such as vllm==0.19.0.")
    ] = "vllm==0.19.0",
    device: Annotated[
        str | None, typer.Option("--device", metavar="NAME|SIZE", help="H100-80GB, or its total as 80GiB or in bytes.")
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

    read, notes = parse_engine(engine, engine_args)
    found = run(ModelShape.from_config(config), read, _device(device))
    found.notes += notes
    if chosen is Format.JSON:
        import msgspec

        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n")
        return
    from oomctl.cli.render.ledger import ledger_text

    sys.stdout.write(ledger_text(found))


def _device(text: str | None) -> int | None:
    if text is None:
        return None
    if text[:1].isdigit():
        from oomctl.cli.units import parse_size

        return parse_size(text, "--device")
    from oomctl.analyzers.ledger.devices import device_bytes

    return device_bytes(text)
