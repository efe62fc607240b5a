"""What the summary says of findings, on tables of which the answer is known."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oomctl.analyzers.fleet.rates import at_least, ratio, share
from oomctl.analyzers.fleet.summary import summary
from oomctl.cli.render.fleet import fleet_md, fleet_text
from oomctl.fleet.findings import Asked
from oomctl.schemas.fleet import Fleet

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
ESCAPES = "\x1b[31mnode`|"


def hours(
    version: str, clean: int, hit: int, workers: int = 4, print_: str = "aaaa", node: str | None = None, **more: Any
) -> Iterable[dict[str, Any]]:
    """Worker-hours of a version, the first `hit` of them with an incident."""
    for n in range(clean + hit):
        worker = f"w{n % workers}"
        common = {
            "unit": f"{version}/{print_}/{n}", "identity": "1", "analyzer": "a", "engine": "vllm",
            "engine_version": version, "model": "m", "node": node or f"node-{worker}", "worker": worker,
            "hour": BEGIN + timedelta(hours=n), "rows": 10,
        }  # fmt: skip
        incident = {
            "outcome": "incident", "incident": str(n), "verdict": "oom", "class": "warm_up", "cause": "graph_capture",
            "summary": "It ran out.", "ts": BEGIN + timedelta(hours=n, minutes=5), "repeats": 0, "fingerprint_version": 1,
            "fingerprint": print_, "fingerprint_parts": '{"class":"warm_up","frames":["vllm/a.py:f"],"verdict":"oom"}',
        }  # fmt: skip
        yield common | (incident if n < hit else {"outcome": "clean"}) | more


def told(*rows: Iterable[dict[str, Any]]) -> Fleet:
    asked = Asked()
    for some in rows:
        asked.add(list(some))
    asked.flush()
    with asked.connection as connection:
        return summary(connection)


def test_counts_and_rates() -> None:
    broken = {"unit": "x", "identity": "1", "analyzer": "a", "outcome": "unreadable", "problem": "cannot read (x)"}
    found = told(hours("0.11.0", 18, 2), [broken], hours("0.9.0", 10, 0))
    assert (found.worker_hours, found.unreadable, found.incidents, found.hit_hours) == (30, 1, 2, 2)
    (version,) = found.by_engine_version
    assert (version.value, version.hit_hours, version.worker_hours, version.rate) == ("vllm 0.11.0", 2, 20, 0.1)
    assert (version.rate_low, version.rate_high) == pytest.approx((0.01235, 0.31698), abs=1e-4)
    assert [(one.value, one.incidents) for one in found.by_class] == [("warm_up", 2)]
    assert [one.value for one in found.by_hour] == ["2026-03-01T00:00:00Z", "2026-03-01T01:00:00Z"]
    assert [(one.problem, one.units) for one in found.problems] == [("cannot read (...)", 1)]


def test_a_regression_is_named_with_its_interval() -> None:
    found = told(hours("0.9.1", 99, 1), hours("0.10.0", 88, 12))
    (one,) = found.regressions
    assert (one.old_version, one.new_version) == ("0.9.1", "0.10.0")
    assert one.ratio == pytest.approx(12)
    assert one.ratio_low > 1
    assert (found.compared, one.confidence) == (1, 0.95)
    assert "vllm 0.9.1 to 0.10.0, m: in 12 of 100 worker-hours, of 4 workers; before in 1 of 100" in fleet_text(
        found, 200, False
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (hours("0.9.1", 98, 2), hours("0.10.0", 95, 5)),  # too few
        (hours("0.9.1", 88, 12), hours("0.10.0", 88, 12)),  # as often
        (hours("0.9.1", 1, 0), hours("0.10.0", 988, 12)),  # one hour before tells nothing
        (hours("0.9.1", 100, 0), hours("0.10.0", 88, 12, workers=1)),  # a single worker
        (hours("0.9.1", 100, 0), hours("0.10.0", 88, 12, model="another")),  # on another model
        (hours("0.9.1", 88, 12), hours("0.10.0", 100, 0)),  # mended
    ],
    ids=["few", "equal", "no-before", "one-worker", "other-model", "mended"],
)
def test_what_the_evidence_does_not_bear_is_not_named(old: Any, new: Any) -> None:
    assert told(old, new).regressions == ()


def test_many_comparisons_need_more_evidence() -> None:
    pair = [hours("0.9.1", 100, 0), hours("0.10.0", 94, 6)]
    others = [hours("0.9.1", 0, 1, print_=f"p{n}") for n in range(20)]
    assert [one.ratio for one in told(*pair).regressions] == [None]
    assert told(*[hours("0.9.1", 100, 0), hours("0.10.0", 94, 6)], *others).regressions == ()


def test_repeats_say_why_they_are_the_same() -> None:
    found = told(hours("0.11.0", 5, 3), hours("0.12.0", 5, 2), hours("0.11.0", 0, 1, print_="bbbb"))
    (one,) = found.repeats
    assert (one.fingerprint, one.incidents, one.workers, one.engine_versions) == ("aaaa", 5, 3, ("0.11.0", "0.12.0"))
    assert one.parts["frames"] == ["vllm/a.py:f"]
    assert "Same: warm_up · oom · in vllm/a.py:f [aaaa]" in fleet_text(found, 400, False)


def test_a_crash_loop_is_a_repeat_and_counts_once_in_a_rate() -> None:
    found = told(hours("0.11.0", 9, 1, repeats=50))
    assert [(one.incidents, one.hit_hours) for one in found.repeats] == [(51, 1)]
    assert found.by_node[0].hit_hours == 1


def test_worst_offenders() -> None:
    found = told(hours("0.11.0", 90, 2), hours("0.11.0", 10, 5, workers=1, print_="bbbb", node="bad"))
    assert [(one.what, one.name, one.hit_hours, one.most) for one in found.offenders] == [
        ("worker", "w0", 5, "warm_up"),
        ("node", "bad", 5, "warm_up"),
    ]


def test_names_do_not_steer_a_terminal_or_a_page() -> None:
    found = told(hours("0.11.0", 5, 3, node=ESCAPES))
    assert "\x1b" not in fleet_text(found, 100, False) + fleet_md(found)
    assert "\\x1b\\[31mnode\\`\\|" in fleet_md(found)


def test_nothing_at_all() -> None:
    assert fleet_text(told([]), 100, False) == "0 worker-hours · 0 incidents in 0 worker-hours\n"


def test_intervals_are_those_of_the_tables() -> None:
    assert at_least(3, 10, 0.2) == pytest.approx(0.3222, abs=1e-4)
    assert at_least(0, 10, 0.2) == at_least(5, 5, 1) == 1
    assert share(0, 10) == pytest.approx((0, 0.3085), abs=1e-4)
    assert share(5, 10) == pytest.approx((0.1871, 0.8129), abs=1e-4)
    assert share(10, 10) == pytest.approx((0.6915, 1), abs=1e-4)
    assert share(3, 1_000_000)[1] == pytest.approx(8.767e-6, rel=1e-3)
    low, high = ratio(10, 100, 0, 100, 0.95)
    assert low == pytest.approx(0.6915 / 0.3085, abs=1e-2) and high is None
