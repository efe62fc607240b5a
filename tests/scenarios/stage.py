"""Puts a scenario on: from its name and arguments to the writer that holds its lines."""

from tests.scenarios.catalogue import find
from tests.scenarios.figures import Figures
from tests.scenarios.render_sglang import SglangWriter
from tests.scenarios.render_vllm import VllmWriter
from tests.scenarios.writer import Writer

WRITERS: dict[str, type[Writer]] = {"vllm": VllmWriter, "sglang": SglangWriter}
MAX_RANKS = 8


def perform(name: str, *, seed: int, ranks: int, device_bytes: int, engine: str | None) -> Writer:
    """Write a scenario.

    Args:
        name: Of the catalogue.
        seed: Varies figures, names and which corroborating facts are told, never the label.
        ranks: 1 to 8.
        device_bytes: Capacity of a device; all byte figures scale with it.
        engine: Whose words; None for the scenario's usual engine, which also steps in where the named one cannot show it.

    Raises:
        KeyError: If there is no such scenario or engine.
        ValueError: If ranks is out of range.
    """
    scenario = find(name)
    if not 1 <= ranks <= MAX_RANKS:
        raise ValueError(f"ranks must be 1 to {MAX_RANKS}, not {ranks}")
    if engine is not None and engine not in WRITERS:
        raise KeyError(f"no engine {engine!r}")
    chosen = engine if engine in scenario.engines else scenario.engines[0]
    writer = WRITERS[chosen](Figures(name, seed, ranks, device_bytes))
    scenario.plot(writer)
    return writer
