"""`make accuracy`: is what triage says with confidence 0.9 right nine times in ten, in every class and engine family?

Over the labelled scenarios of vLLM and SGLang, as event tables and as rendered logs, and over the labelled logs of the
engine families, these two among them. Prints, per family and class, how many fixtures there are and how many verdicts are
right, wrong or undetermined; wrong verdicts that were sure of themselves, by name; and a reliability table: per band of
confidence how many verdicts, how many right, and the share.
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
from oomctl.schemas.verdict import CODES, Incident
from tests.scenarios import Label, build_arrow, catalogue, families, render_log

BANDS = ((0.9, 1.01), (0.8, 0.9), (0.7, 0.8), (0.6, 0.7), (0.0, 0.6))
SURE = 0.8
"""A wrong verdict of at least this confidence is listed by name."""


@dataclass(frozen=True)
class Outcome:
    """A verdict beside its label.

    Attributes:
        name: Of the case.
        confidence: Of the root incident; None where none was found.
        right: Verdict, class, resource and survival are right.
        undetermined: Not right, but no wrong answer either: no incident was found, or no verdict, or no class
            of the right resource, was given.
        cause_right: So is the first cause, where one is asserted.
        said: What was said, for a miss.
        family: Of engines.
        kind: The class that is right, or the verdict where there is none.
        fixture: The fixture that the case was made of; a scenario with one or several ranks are two.
    """

    name: str
    confidence: float | None
    right: bool
    undetermined: bool
    cause_right: bool
    said: str
    family: str = ""
    kind: str = ""
    fixture: str = ""


def judge(name: str, label: Label, incidents: list[Incident], family: str = "", fixture: str = "") -> Outcome:
    """Compare the root incident with a label."""
    kind = label["oom_class"] or label["verdict"] or ("undetermined" if label["incident"] else "no incident")
    if not incidents:
        miss = label["incident"]
        return Outcome(name, None, not miss, miss, True, "no incident", family, kind, fixture)
    root = incidents[0]
    cause = root.causes[0].cause if root.causes else None
    said = f"{root.verdict}/{root.oom_class}/{root.resource} {root.confidence} survived={root.survived} {cause}"
    right = (
        label["incident"]
        and root.verdict == label["verdict"]
        and root.oom_class in (label["oom_class"], *label["also_classes"])
        and root.resource == label["resource"]
        and (label["survived"] is None or root.survived in (label["survived"], None))
    )
    open_class = root.verdict == "oom" and root.oom_class is None and root.resource in (label["resource"], None)
    undetermined = not right and (root.verdict is None or open_class)
    cause_right = label["cause"] is None or cause in (label["cause"], *label["also_causes"])
    return Outcome(name, root.confidence, right, undetermined, cause_right, said, family, kind, fixture)


def _of_text(text: str) -> list[Incident]:
    with storage.connect() as connection:
        storage.load_rows(connection, read_log(io.BytesIO(text.encode()), "log").rows)
        return triage(connection)


def outcomes(seeds: int, ranks: tuple[int, ...]) -> Iterator[Outcome]:
    """Every scenario as a table and, per engine, as a log."""
    for scenario in catalogue():
        for seed in range(seeds):
            for count in ranks:
                for engine in scenario.engines:
                    name = f"{scenario.name} seed={seed} ranks={count} {engine}"
                    shape = f"{scenario.name} {min(count, 2)}"
                    with storage.connect() as connection:
                        frame = build_arrow(scenario.name, seed=seed, ranks=count, engine=engine)
                        connection.register("frame", frame)
                        storage.load_relation(connection, "frame")
                        connection.unregister("frame")
                        yield judge(f"table {name}", scenario.label, triage(connection), engine, shape)
                    text = render_log(scenario.name, seed=seed, ranks=count, engine=engine)
                    yield judge(f"log {name}", scenario.label, _of_text(text), engine, shape)


def family_outcomes(seeds: int, only: str = "") -> Iterator[Outcome]:
    """Every labelled log of the engine families; those alone whose name holds `only`."""
    for fixture in families.fixtures():
        for seed in range(seeds) if only in fixture.name else ():
            incidents = _of_text(families.render(fixture, seed))
            name = f"{fixture.name} seed={seed}"
            yield judge(name, families.label_of(fixture), incidents, fixture.family, fixture.name)


def reliability(found: list[Outcome]) -> list[tuple[str, int, int]]:
    """(band, verdicts, right) per band of confidence."""
    table = []
    for low, high in BANDS:
        band = [item for item in found if item.confidence is not None and low <= item.confidence < high]
        table.append((f"{low:.1f} to {min(high, 1.0):.1f}", len(band), sum(item.right for item in band)))
    return table


def by_family(found: list[Outcome]) -> Iterator[str]:
    """A line per family and class: fixtures, and how many verdicts of them are right, wrong and undetermined."""
    yield f"{'family':<14}{'class':<16}{'fixtures':>9}{'right':>7}{'wrong':>7}{'undetermined':>14}"
    kinds = [*CODES, *sorted({item.kind for item in found} - set(CODES))]
    for family in dict.fromkeys(item.family for item in found):
        for kind in kinds:
            group = [item for item in found if (item.family, item.kind) == (family, kind)]
            if not group:
                if (family, kind) in families.CANNOT:
                    yield f"{family:<14}{kind:<16}{'-':>9}  {families.CANNOT[family, kind]}"
                continue
            unsure = sum(item.undetermined for item in group)
            right = sum(item.right for item in group)
            count = len({item.fixture for item in group})
            yield f"{family:<14}{kind:<16}{count:>9}{right:>7}{len(group) - right - unsure:>7}{unsure:>14}"


def main() -> int:
    """Print the tables; 1 if what is said with confidence 0.9 is right less than nine times in ten."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--misses", action="store_true", help="print every miss")
    parser.add_argument(
        "--families", metavar="NAME", help="only the families' logs whose name holds NAME, such as tgi/load"
    )
    args = parser.parse_args()
    found = list(family_outcomes(args.seeds, args.families or ""))
    if args.families is None:
        found = [*outcomes(args.seeds, (1, 2)), *found]
    if args.misses:
        for item in found:
            if not (item.right and item.cause_right):
                kind = "cause" if item.right else "UNDETERMINED" if item.undetermined else "WRONG"
                print(f"{kind} {item.name}: {item.said}")
    print("\n".join(by_family(found)))
    sure = [item for item in found if not item.right and not item.undetermined and (item.confidence or 0) >= SURE]
    print(f"wrong with a confidence of {SURE} and more: {len(sure)}")
    for item in sure:
        print(f"  {item.name}: {item.said}")
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
