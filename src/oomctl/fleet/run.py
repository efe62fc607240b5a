"""A run over a fleet: what was judged before is taken as it is, the rest is judged, and each folder is kept when done."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from oomctl.fleet.engines import Judged
from oomctl.fleet.findings import Findings
from oomctl.fleet.judge import Finding, analyzer
from oomctl.fleet.units import Unit, folders
from oomctl.schemas.errors import ExitCode, OomctlError

Engine = Callable[[Iterable[Unit]], Judged]
Keep = Callable[[list[Finding]], None]


@dataclass
class Done:
    """What a run did.

    Attributes:
        units: All that were asked for.
        judged: Of these, now; the others were known.
    """

    units: int = 0
    judged: int = 0


@dataclass
class _Open:
    """A folder of which units are judged now."""

    units: list[Unit]
    found: list[Finding]
    waiting: set[str] = field(default_factory=set)


def run(found: Sequence[Unit], findings: Findings, engine: Engine, keep: Keep) -> Done:
    """Judge a fleet.

    Args:
        found: Its units.
        findings: The table, which is read and written.
        engine: Judges units.
        keep: Called with the findings of each unit asked for, new or known.

    Raises:
        OomctlError: If the store cannot be reached, or a node of a cluster judges by other rules than this oomctl.
    """
    done = Done(len(found))
    opened: dict[str, _Open] = {}
    try:
        for unit, rows in engine(_todo(found, findings, opened, keep)):
            if any(row["analyzer"] != analyzer() for row in rows):
                raise OomctlError(
                    f"a node of the cluster has another oomctl, {rows[0]['analyzer']}, not {analyzer()}",
                    "install the same version everywhere",
                    ExitCode.ENVIRONMENT,
                )
            done.judged += 1
            keep(rows)
            folder = opened[unit.folder]
            folder.found += rows
            folder.waiting.remove(unit.name)
            if not folder.waiting:
                findings.write(folder.units, folder.found)
                del opened[unit.folder]
    finally:
        # What was judged of folders that are not done is kept too, whatever ended the run.
        for folder in opened.values():
            if len(folder.waiting) < len(folder.units):
                findings.write(folder.units, folder.found)
    return done


def _todo(found: Sequence[Unit], findings: Findings, opened: dict[str, _Open], keep: Keep) -> Iterator[Unit]:
    """Units that are to be judged: those that are not known, have changed, or could not be read."""
    for units in folders(found):
        rows = findings.of(units)
        known = {
            (row["unit"], row["identity"])
            for row in rows
            if row["analyzer"] == analyzer() and row["outcome"] != "unreadable"
        }
        todo = [unit for unit in units if (unit.name, unit.identity) not in known]
        names = {unit.name for unit in todo}
        others = [row for row in rows if row["unit"] not in names]
        asked = {unit.name for unit in units} - names
        keep([row for row in others if row["unit"] in asked])
        if todo:
            opened[todo[0].folder] = _Open(todo, others, names.copy())
            yield from todo
