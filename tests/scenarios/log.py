"""A scenario as the log that the engine would have written."""

from tests.scenarios.entries import Entry
from tests.scenarios.filler import CYCLE_US, value
from tests.scenarios.stage import perform
from tests.scenarios.writer import Writer

LINES_PER_CYCLE = 3


def render_log(
    name: str,
    *,
    seed: int = 0,
    ranks: int = 1,
    device_bytes: int = 80 * 2**30,
    engine: str | None = None,
    filler_lines: int | None = None,
) -> str:
    r"""Render a scenario as an engine's log.

    Args:
        name: Of the catalogue.
        seed: As for `build`.
        ranks: 1 to 8.
        device_bytes: Capacity of a device.
        engine: vllm or sglang; None, or one whose logs cannot show the scenario, gives its usual engine.
        filler_lines: How many unrelated lines stand before the deciding ones; None lets the seed choose.

    Returns:
        The whole text, lines ended by `\n`.
    """
    writer = perform(name, seed=seed, ranks=ranks, device_bytes=device_bytes, engine=engine)
    script, figures = writer.script, writer.figures
    count = 5 + figures.line_shift % 56 if filler_lines is None else filler_lines
    fill_us = script.entries[script.fill_at - 1].at_us if script.fill_at else 0
    shift_us = -(-count // LINES_PER_CYCLE) * CYCLE_US
    lines = [writer.line(entry, figures.start_us + entry.at_us) for entry in script.entries[: script.fill_at]]
    for entry in filler_entries(writer, count, fill_us):
        lines.append(writer.line(entry, figures.start_us + entry.at_us))
    for entry in script.entries[script.fill_at :]:
        lines.append(writer.line(entry, figures.start_us + entry.at_us + shift_us))
    return "\n".join(lines) + "\n"


def filler_entries(writer: Writer, count: int, fill_us: int) -> list[Entry]:
    """Lines of the background: reports and requests of a serving engine, chatter of a starting one."""
    background, figures = writer.script.background, writer.figures
    scratch = type(writer)(figures)
    scratch.incarnation = writer.script.entries[max(0, writer.script.fill_at - 1)].incarnation
    for cycle in range(-(-count // LINES_PER_CYCLE)):
        scratch.now_us = fill_us + cycle * CYCLE_US + 1_000
        if background.serving:
            waiting = value(background.waiting, cycle, 3)
            usage, running = value(background.usage_tenths, cycle, 1), value(background.running, cycle, 2)
            scratch.report(usage, running, waiting, prompt=value((40, 400), cycle, 4))
        else:
            rank = cycle % figures.ranks
            text = f"Waiting for rank {rank} to finish; {cycle} polls so far."
            scratch.say(text, process="worker", level="DEBUG", where="shm_broadcast.py:501", rank=rank)
        for number in range(LINES_PER_CYCLE - 1):
            port = 33_000 + value((0, 20_000), cycle, 5 + number)
            path = "POST /v1/chat/completions" if background.serving else "GET /health"
            status = "200 OK" if background.serving else "503 Service Unavailable"
            text = f'INFO:     127.0.0.1:{port} - "{path} HTTP/1.1" {status}'
            scratch.say(text, process="api", level="")
    return scratch.script.entries[:count]
