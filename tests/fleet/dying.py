"""Stand-ins for the judge; apart from the tests, so that a process that is started for them imports little."""

import os
import signal
from pathlib import Path

from oomctl.fleet.judge import Finding, analyzer
from oomctl.fleet.units import Unit


def clean(unit: Unit) -> list[Finding]:
    """Finds nothing."""
    return [{"unit": unit.name, "identity": unit.identity, "analyzer": analyzer(), "outcome": "clean"}]


def dies(unit: Unit) -> list[Finding]:
    """Kills its process: always at the poison, at the other one the first time only."""
    marker = Path(unit.root) / "marker"
    if unit.path == "poison" or (unit.path == "once" and not marker.exists()):
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return clean(unit)
