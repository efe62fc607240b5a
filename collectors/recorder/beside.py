"""The live sources of a worker, as the settings name them, in the recorder's rounds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from oomctl.collectors.live.processes import sees_all, tree
from oomctl.collectors.recorder.live import State
from oomctl.collectors.recorder.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from oomctl.collectors.live.batch import LiveSource
    from oomctl.collectors.live.nvml.readings import Own
    from oomctl.collectors.recorder.sources import Gathered

KEY = "live:"


class Beside:
    """Polls the live sources of one worker.

    Args:
        settings: Which sources.
        common: The common columns: node, worker, and incarnation where it is known.
        clock: The recorder's.
        state: What an earlier recorder knew.
        proc: The process file system.

    Raises:
        OomctlError: If a port to listen on is taken.
    """

    def __init__(self, settings: Settings, common: dict[str, Any], clock: Any, state: State, proc: Path) -> None:
        self._notes: list[tuple[str, str]] = []
        self._sources = _make(settings, common, clock, state, proc, self._notes)

    def gather(self, into: Gathered) -> None:
        """Add one round of all sources."""
        notes, self._notes = self._notes, []
        into.notes += notes
        for source in self._sources:
            batch = source.poll()
            into.rows += batch.rows
            into.losses += batch.losses
            into.notes += batch.notes
            into.notes += [("ok", f"restarted: {why}") for why in batch.restarts]
            into.at[KEY + source.name] = source.stream.seq

    def close(self) -> None:
        """Let go of all."""
        for source in self._sources:
            source.close()


def _make(
    settings: Settings, common: dict[str, Any], clock: Any, state: State, proc: Path, notes: list[tuple[str, str]]
) -> list[LiveSource]:
    """Only what is used is imported: each costs the recorder megabytes. What cannot be is told in `notes`."""
    made: list[LiveSource] = []

    def first(name: str) -> int:
        return int(state.get(KEY + name, 0))

    for url in settings.metrics:
        from oomctl.collectors.live.prometheus.scraper import Scraper

        made.append(Scraper(url, common, clock, settings.scrape_s, first_seq=first(f"metrics {url}")))
    for endpoint, replay in settings.kv_events:
        from oomctl.collectors.live.kv_events.subscriber import Subscriber

        made.append(Subscriber(endpoint, common, clock, replay, first(f"kv_events {endpoint}")))
    if settings.devices:
        import pynvml

        from oomctl.collectors.live.nvml.poller import NvmlPoller

        own = _own(settings, common, proc)
        made.append(NvmlPoller(pynvml, common, clock, settings.visible_devices, own, first("nvml")))
        if (amd := _amdsmi(notes)) is not None:
            from oomctl.collectors.live.amdsmi import AmdSmiPoller

            made.append(AmdSmiPoller(amd, common, clock, first("amdsmi")))
    if settings.otlp_ports is not None:
        from oomctl.collectors.live.otlp.receiver import OtlpReceiver

        made.append(OtlpReceiver(common, clock, *settings.otlp_ports, first_seq=first("otlp")))
    return made


def _amdsmi(notes: list[tuple[str, str]]) -> Any:
    """The package, where it is installed and finds ROCm's library; without that it raises whatever its loader does."""
    try:
        import amdsmi
    except ImportError:
        return None
    except Exception as error:
        notes.append(("absent", f"amdsmi is installed and cannot be used: {error!r}"[:300]))
        return None
    return amdsmi


def _own(settings: Settings, common: dict[str, Any], proc: Path) -> Callable[[], Own] | None:
    """Tells the worker's own processes; None where the driver counts processes in another namespace."""
    pid = settings.pid
    if pid is None or not sees_all(proc):
        return None
    return lambda: dict.fromkeys(tree(pid, proc), common.get("incarnation"))
