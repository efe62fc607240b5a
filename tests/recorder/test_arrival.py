"""Times of a followed log's lines, by when they came."""

from datetime import UTC, datetime

import pytest

from oomctl.collectors.recorder.arrival import Arrival
from oomctl.schemas.rows import Row


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1e6)


NOW = at("2026-11-30 09:00:30")


def told(arrival: Arrival, printed: str | None, quality: str, now: int = NOW, fresh: bool = True) -> tuple[int | None, str]:
    row: Row = {"ts": None if printed is None else at(printed), "ts_quality": quality}
    arrival.tell(row, now, fresh)
    return row["ts"], row["ts_quality"]


@pytest.mark.parametrize(
    "printed",
    [
        "2026-11-30 09:00:28",  # UTC
        "2026-11-30 18:00:28",  # Tokyo
        "2026-11-30 14:30:28",  # Delhi
        "2026-11-29 23:00:28",  # yesterday, west of the date
        "2000-11-30 01:00:28",  # without a year
    ],
)
def test_the_zone_and_the_year_are_found_out(printed: str) -> None:
    assert told(Arrival(), printed, "local") == (at("2026-11-30 09:00:28"), "exact")


def test_a_year_that_is_not_printed_turns() -> None:
    assert told(Arrival(), "2000-01-01 00:00:01", "local", at("2026-12-31 23:00:03")) == (
        at("2026-12-31 23:00:01"),
        "exact",
    )
    assert told(Arrival(), "2000-02-29 10:00:00", "local", at("2028-02-29 10:00:00"))[1] == "exact"


def test_a_line_without_a_time_has_the_one_at_which_it_came() -> None:
    assert told(Arrival(), None, "none") == (NOW, "exact")
    assert told(Arrival(), None, "none", fresh=False) == (None, "none")


def test_what_was_printed_while_no_recorder_ran_needs_a_known_zone() -> None:
    arrival = Arrival()
    assert told(arrival, "2026-11-30 17:20:00", "local", fresh=False)[1] == "local"
    told(arrival, "2026-11-30 18:00:28", "local")
    assert told(Arrival(arrival.zone_us), "2026-11-30 17:20:00", "local", fresh=False) == (
        at("2026-11-30 08:20:00"),
        "exact",
    )


@pytest.mark.parametrize("printed", ["2026-11-30 08:53:00", "2026-11-28 09:00:28", "2025-11-30 09:00:28"])
def test_a_time_that_is_not_now_is_left_as_it_is(printed: str) -> None:
    assert told(Arrival(), printed, "local") == (at(printed), "local")


def test_a_sure_time_is_left_as_it_is() -> None:
    assert told(Arrival(), "2026-11-30 03:00:00", "exact") == (at("2026-11-30 03:00:00"), "exact")
