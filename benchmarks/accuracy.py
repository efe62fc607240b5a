"""`make accuracy`: is what triage says with confidence 0.9 right nine times in ten?

Over the labelled scenarios, as event tables and as rendered logs, and over the labelled logs of OOMCTL_SHARED where they
are there. Prints a reliability table: per band of confidence how many verdicts, how many right, and the share.
"""

import argparse
import io
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from oomctl.analyzers.triage import triage
from oomctl.collectors.artifacts.logs import read_log
from oomctl.schemas import storage
from oomctl.schemas.verdict import Incident
from tests.scenarios import Label, build_arrow, catalogue, render_log

BANDS = ((0.9, 1.01), (0.8, 0.9), (0.7, 0.8), (0.6, 0.7), (0.0, 0.6))


@dataclass(frozen=True)
class Outcome:
    """A verdict beside its label.

    Attributes:
        name: Of the case.
        confidence: Of the root incident; None where none was found.
        right: Verdict, class, resource and survival are right.
        cause_right: So is the first cause, where one is asserted.
        said: What was said, for a miss.
    """

    name: str
    confidence: float | None
    right: bool
    cause_right: bool
    said: str


def judge(name: str, label: Label, incidents: list[Incident]) -> Outcome:
    """Compare the root incident with a label."""
    if not incidents:
        return Outcome(name, None, not label["incident"], True, "no incident")
    root = incidents[0]
    cause = root.causes[0].cause if root.causes else None
    said = f"{root.verdict}/{root.oom_class}/{root.resource} {root.confidence} survived={root.survived} {cause}"
    right = (
        label["incident"]
        and root.verdict == label["verdict"]
        and root.oom_class in (label["oom_class"], *label["also_classes"])
        and root.resource == label["resource"]
        and root.survived in (label["survived"], None)
    )
    cause_right = label["cause"] is None or cause in (label["cause"], *label["also_causes"])
    return Outcome(name, root.confidence, right, cause_right, said)


def outcomes(seeds: int, ranks: tuple[int, ...]) -> Iterator[Outcome]:
    """Every scenario as a table and, per engine, as a log."""
    for scenario in catalogue():
        for seed in range(seeds):
            for count in ranks:
                for engine in scenario.engines:
                    name = f"{scenario.name} seed={seed} ranks={count} {engine}"
                    with storage.connect() as connection:
                        frame = build_arrow(scenario.name, seed=seed, ranks=count, engine=engine)
                        connection.register("frame", frame)
                        connection.execute("INSERT INTO events BY NAME SELECT * FROM frame")
                        connection.unregister("frame")
                        yield judge(f"table {name}", scenario.label, triage(connection))
                    text = render_log(scenario.name, seed=seed, ranks=count, engine=engine)
                    with storage.connect() as connection:
                        storage.load_rows(connection, read_log(io.BytesIO(text.encode()), "log").rows)
                        yield judge(f"log {name}", scenario.label, triage(connection))


def reliability(found: list[Outcome]) -> list[tuple[str, int, int]]:
    """(band, verdicts, right) per band of confidence."""
    table = []
    for low, high in BANDS:
        band = [item for item in found if item.confidence is not None and low <= item.confidence < high]
        table.append((f"{low:.1f} to {min(high, 1.0):.1f}", len(band), sum(item.right for item in band)))
    return table


def main() -> int:
    """Print the table; 1 if what is said with confidence 0.9 is right less than nine times in ten."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--misses", action="store_true", help="print every miss")
    args = parser.parse_args()
    found = list(outcomes(args.seeds, (1, 2)))
    if args.misses:
        for item in found:
            if not (item.right and item.cause_right):
                print(f"{'WRONG' if not item.right else 'cause'} {item.name}: {item.said}")
    print(f"{'confidence':<14}{'verdicts':>9}{'right':>7}{'share':>8}")
    failed = False
    for band, verdicts, right in reliability(found):
        share = f"{right / verdicts:.3f}" if verdicts else "-"
        print(f"{band:<14}{verdicts:>9}{right:>7}{share:>8}")
        failed = failed or (band.startswith("0.9") and verdicts > 0 and right < 0.9 * verdicts)
    silent = [item for item in found if item.confidence is None]
    print(f"{'no incident':<14}{len(silent):>9}{sum(item.right for item in silent):>7}")
    kinds = Counter(item.right for item in found)
    print(
        f"in all {kinds[True]} of {len(found)} right, first cause right in {sum(i.right and i.cause_right for i in found)}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
