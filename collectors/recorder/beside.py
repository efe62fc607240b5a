"""The live sources of a worker, as the settings name them, in the recorder's rounds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from oomctl.collectors.live.processes import sees_all, tree
from oomctl.collectors.recorder.live import State
from oomctl.collectors.recorder.own import Note
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
        common: The common columns: node, worker, incarnation where it is known; `stream` is what their streams begin with.
        clock: The recorder's.
        state: What an earlier recorder knew.
        proc: The process file system.

    Raises:
        OomctlError: If a port to listen on is taken.
    """

    def __init__(self, settings: Settings, common: dict[str, Any], clock: Any, state: State, proc: Path) -> None:
        self._notes: list[Note] = []
        self._sources = _make(settings, common, clock, proc, self._notes)
        for source in self._sources:
            source.stream.resume(state.get(KEY + source.name))

    def gather(self, into: Gathered) -> None:
        """Add one round of all sources."""
        notes, self._notes = self._notes, []
        into.notes += notes
        for source in self._sources:
            batch = source.poll()
            into.rows += batch.rows
            into.losses += batch.losses
            into.notes += [Note(source.name, *note) for note in batch.notes]
            into.notes += [Note(source.name, "ok", f"restarted: {why}") for why in batch.restarts]
            into.at[KEY + source.name] = source.stream.at()

    def close(self) -> None:
        """Let go of all."""
        for source in self._sources:
            source.close()


def _make(settings: Settings, common: dict[str, Any], clock: Any, proc: Path, notes: list[Note]) -> list[LiveSource]:
    """Only what is used is imported: each costs the recorder megabytes. What cannot be is told in `notes`."""
    made: list[LiveSource] = []

    for url in settings.metrics:
        from oomctl.collectors.live.prometheus.scraper import Scraper

        made.append(Scraper(url, common, clock, settings.scrape_s))
    for endpoint, replay in settings.kv_events:
        if endpoint.startswith("http"):
            from oomctl.collectors.live.kv_events.polled import Polled

            made.append(Polled(endpoint, common, clock))
        else:
            from oomctl.collectors.live.kv_events.subscriber import Subscriber

            made.append(Subscriber(endpoint, common, clock, replay))
    if settings.devices:
        import pynvml

        from oomctl.collectors.live.nvml.poller import NvmlPoller

        own = _own(settings, common, proc)
        made.append(NvmlPoller(pynvml, common, clock, settings.visible_devices, own))
        if (amd := _amdsmi(notes)) is not None:
            from oomctl.collectors.live.amdsmi import AmdSmiPoller

            made.append(AmdSmiPoller(amd, common, clock))
    if settings.otlp_ports is not None:
        from oomctl.collectors.live.otlp.receiver import OtlpReceiver

        made.append(OtlpReceiver(common, clock, *settings.otlp_ports, settings.access))
    return made


def _amdsmi(notes: list[Note]) -> Any:
    """The package, where it is installed and finds ROCm's library; without that it raises whatever its loader does."""
    try:
        import amdsmi
    except ImportError:
        return None
    except Exception as error:
        notes.append(Note("amdsmi", "absent", f"amdsmi is installed and cannot be used: {error!r}"[:300]))
        return None
    return amdsmi


def _own(settings: Settings, common: dict[str, Any], proc: Path) -> Callable[[], Own] | None:
    """Tells the worker's own processes; None where the driver counts processes in another namespace."""
    pid = settings.pid
    if pid is None or not sees_all(proc):
        return None
    return lambda: dict.fromkeys(tree(pid, proc), common.get("incarnation"))
