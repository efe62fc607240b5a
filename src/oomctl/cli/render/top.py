"""One frame of `oomctl top`: plain lines of a given width, so that it works over ssh and in a test."""

import textwrap
from collections.abc import Iterator

from oomctl.analyzers.picture.outlook import STALE_US, alerts, is_over, seconds_to_full
from oomctl.analyzers.picture.state import Device, Picture, Pool, Worker, used_share
from oomctl.cli.render.words import human

BAR = 30
LETTERS = {"weights": "w", "kv_pool": "k", "graph_pool": "g", "adapter": "a", "non_torch": "n"}


def frame(picture: Picture, now_us: int, width: int, title: str) -> list[str]:
    """Draw all workers.

    Args:
        picture: Their state.
        now_us: The present, or the instant that is replayed.
        width: Characters of a line; 80 is enough for all that matters.
        title: Of the first line.

    Returns:
        Lines without their ends; no character in them moves a cursor.
    """
    lines = [title]
    for worker in picture.shown():
        lines.append("")
        lines += _worker(worker, now_us, width)
    if len(lines) == 1:
        lines += ["", "nothing was told yet"]
    return [_clean(line)[:width] for line in lines]


def _worker(worker: Worker, now_us: int, width: int) -> Iterator[str]:
    load = [
        worker.phase or "",
        f"running {_count(worker.running)}",
        f"waiting {_count(worker.waiting)}",
        f"preempted {_count(worker.preempted)}",
    ]
    yield f"{worker.name}  {'  '.join(part for part in load if part)}{_age(worker.load_ts, now_us)}"
    for number, device in sorted(worker.devices.items(), key=lambda pair: str(pair[0])):
        yield _device(number, device, worker)
    for name, figures in sorted(worker.allocator.items()):
        allocated, reserved = (human(figures.get(part)) for part in ("allocated_bytes", "reserved_bytes"))
        yield f"  {'alloc ' + name:10.10} {allocated} allocated, {reserved} reserved"
    for name, components in sorted(worker.memory.items()):
        held = ", ".join(f"{component} {human(size)}" for component, size in sorted(components.items()) if size)
        if held:
            yield f"  {'holds ' + name:10.10} {held}"
    for name, pool in sorted(worker.pools.items()):
        yield _pool(name, pool, now_us, ended=is_over(worker))
    for alert in alerts(worker, now_us):
        # Whole: what is cut off at the end is how old the figures are.
        yield from textwrap.wrap(_clean(alert), width, initial_indent="  ! ", subsequent_indent="    ")


def _device(number: int | None, device: Device, worker: Worker) -> str:
    total, used, free = (device.figures.get(name) for name in ("total_bytes", "used_bytes", "free_bytes"))
    text = f"{human(free)} free of {human(total)}"
    name = f"device {number if number is not None else '?'}"
    if not total or used is None:
        return f"  {name:10.10} {text}"
    return f"  {name:10.10} [{_components(total, used, worker)}] {text}"


def _components(total: int, used: int, worker: Worker) -> str:
    """A device's bar: a letter for each component that is known, `#` for the rest of what is used."""
    bar = ""
    if len(worker.memory) == 1 and len(worker.devices) == 1:
        (components,) = worker.memory.values()
        for component, letter in LETTERS.items():
            bar += letter * round(BAR * components.get(component, 0) / total)
    bar = bar[: round(BAR * used / total)]
    return (bar + "#" * (round(BAR * used / total) - len(bar))).ljust(BAR, ".")


def _pool(name: str, pool: Pool, now_us: int, ended: bool) -> str:
    used = used_share(pool.figures)
    label = f"KV {name}".rstrip()
    if used is None:
        return f"  {label:10.10} use unknown"
    evictable = next(
        (
            pool.figures[part] / pool.figures[whole]
            for part, whole in (("evictable_blocks", "total_blocks"), ("evictable_tokens", "total_tokens"))
            if part in pool.figures and pool.figures.get(whole)
        ),
        None,
    )
    filled, kept = round(BAR * min(used, 1.0)), round(BAR * (evictable or 0.0))
    bar = ("#" * filled + "+" * kept)[:BAR].ljust(BAR, ".")
    parts = [f"used {used:.0%}{_age(pool.ts, now_us)}"]
    seconds = None if ended else seconds_to_full(pool)
    if seconds is not None and seconds < 3600:
        parts.append(f"full in {seconds:.0f} s")
    if evictable is not None:
        parts += [f"evictable {evictable:.0%}", f"free {max(0.0, 1 - used - evictable):.0%}"]
    else:
        parts.append("evictable ?")
    return f"  {label:10.10} [{bar}] {', '.join(parts)}"


def _age(ts: int, now_us: int) -> str:
    """Set behind figures that are old."""
    return f" ({(now_us - ts) / 1e6:.0f} s ago)" if ts and now_us - ts > STALE_US else ""


def _count(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _clean(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)
