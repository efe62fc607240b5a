"""Freezing: from the first sign of a cascade to one file that holds the minutes before it and all that followed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oomctl.collectors.recorder.clock import Clock
from oomctl.collectors.recorder.jobs import Hook, Jobs
from oomctl.collectors.recorder.live import State
from oomctl.collectors.recorder.settings import Settings
from oomctl.collectors.recorder.watch import Sign

KEY = "incidents"


class Incidents:
    """The incidents that are to be frozen, and the last ones that were.

    Args:
        settings: Of the recorder.
        clock: Time.
        jobs: Who freezes.
        hook: Who is told, or None.
        state: What an earlier recorder knew: what it had not frozen yet is frozen soon.
        told: Called with the task and the result of each freeze.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        jobs: Jobs,
        hook: Hook | None,
        state: State,
        told: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._jobs = jobs
        self._hook = hook
        due_s = clock.monotonic_s() + settings.settle_s
        self._waiting: dict[str, tuple[Sign, float]] = {
            sign.incident_id: (sign, due_s) for sign in (Sign(**plain) for plain in state.get(KEY, ()))
        }
        self._running: dict[str, Sign] = {}
        self._told = told

    @property
    def open(self) -> bool:
        """Whether any is still to be frozen."""
        return bool(self._waiting or self._running)

    def signs(self, signs: Sequence[Sign]) -> None:
        """Begin an incident for each; a hard one takes the place of soft ones of the same life that are not frozen yet."""
        now = self._clock.monotonic_s()
        for sign in signs:
            if sign.incident_id not in self._running:
                if sign.severity == "hard":
                    sign = replace(sign, since=self._absorbed(sign.incarnation))
                self._waiting.setdefault(sign.incident_id, (sign, now + self._settings.settle_s))

    def due(self) -> None:
        """Freeze those that had time to settle."""
        now = self._clock.monotonic_s()
        for name, (sign, due_s) in list(self._waiting.items()):
            if now >= due_s:
                self._freeze(name, sign)

    def freeze_now(self) -> None:
        """Freeze all: the recorder ends."""
        for name, (sign, _) in list(self._waiting.items()):
            self._freeze(name, sign)

    def at(self) -> State:
        """What is still to be frozen, for the next recorder."""
        return {KEY: [sign.plain() for sign in (*(sign for sign, _ in self._waiting.values()), *self._running.values())]}

    def _absorbed(self, incarnation: str) -> int | None:
        """Take back the soft incidents of a life that wait; returns when the first of their signs was."""
        soft = [sign for sign, _ in self._waiting.values() if (sign.severity, sign.incarnation) == ("soft", incarnation)]
        for sign in soft:
            del self._waiting[sign.incident_id]
        return min((sign.ts for sign in soft), default=None)

    def _freeze(self, name: str, sign: Sign) -> None:
        del self._waiting[name]
        self._running[name] = sign
        target = self._settings.root / "incidents" / f"{name}.parquet"
        since_us = min(sign.ts, sign.since or sign.ts) - int(self._settings.minutes * 60e6)

        def frozen(result: dict[str, Any]) -> None:
            del self._running[name]
            if "error" not in result:
                result |= {"incident": name, "file": str(target)}
                if self._hook is not None:
                    self._hook.tell(_for_the_hook(name, sign, target))
            self._told(f"freezing incident {name}", result)

        self._jobs.add("freeze", str(self._settings.root), name, str(target), str(since_us), then=frozen, first=True)


def _for_the_hook(name: str, sign: Sign, target: Path) -> dict[str, Any]:
    """What a hook gets."""
    return {
        "incident_id": name,
        "incident_file": str(target),
        "worker": sign.worker,
        "incarnation": sign.incarnation,
        "severity": sign.severity,
        "reason": sign.reason,
        "ts_us": sign.ts,
    }
