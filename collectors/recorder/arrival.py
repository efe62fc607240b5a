"""When a line of a followed log was written, by when it came: that relates it to rings, which know their times.

Engines print times without a zone, often without a year, or none at all. A line that has just come tells both: its printed
time is now, but for whole quarter hours, which are the zone, and for the year.
"""

import contextlib
from datetime import UTC, datetime, timedelta

from oomctl.collectors.artifacts.logs.times import ASSUMED_YEAR
from oomctl.schemas.rows import Row

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
QUARTER_US = 15 * 60 * 1_000_000
FARTHEST = 14 * 4
"""Quarter hours by which a zone may be off UTC."""
LATE_US = 60 * 1_000_000
"""By how much a line may come later than its printed time: buffers, and tracebacks that are held until they end."""


class Arrival:
    """Puts times right as lines come.

    Args:
        zone_us: What the log's clock is ahead of UTC, where an earlier recorder found out.

    Attributes:
        zone_us: The same as far as it is known now.
    """

    def __init__(self, zone_us: int | None = None) -> None:
        self.zone_us = zone_us

    def tell(self, row: Row, now_us: int, fresh: bool) -> None:
        """Give a row the time that it was written at, where it does not know it for sure.

        Args:
            row: From a log's reader; changed in place.
            now_us: The wall clock.
            fresh: Whether the line has come just now; a time that was not printed can be told only then.
        """
        printed = row.get("ts")
        if printed is None:
            if fresh:
                row["ts"], row["ts_quality"] = now_us, "exact"
        elif row.get("ts_quality") == "local":
            if fresh and (zone_us := _zone_us(printed, now_us)) is not None:
                self.zone_us = zone_us
            if self.zone_us is not None:
                at = min(_moments(printed - self.zone_us, now_us), key=lambda moment: abs(now_us - moment))
                if at - now_us <= LATE_US and (now_us - at <= LATE_US or not fresh):
                    row["ts"], row["ts_quality"] = at, "exact"


def _zone_us(printed_us: int, now_us: int) -> int | None:
    """By how much a clock that shows `printed_us` is ahead; None where the line is not of just now."""
    for at in _moments(printed_us, now_us):
        quarters = round((at - now_us) / QUARTER_US)
        if abs(quarters) <= FARTHEST and abs(at - now_us - quarters * QUARTER_US) <= LATE_US:
            return quarters * QUARTER_US
    return None


def _moments(printed_us: int, now_us: int) -> list[int]:
    """The printed time; where no year was printed, the same day in the years around now."""
    moment = _EPOCH + timedelta(microseconds=printed_us)
    if abs(moment.year - ASSUMED_YEAR) > 1:
        return [printed_us]
    found = []
    for year in range(-1, 2):
        with contextlib.suppress(ValueError):  # the 29th of February
            shifted = moment.replace(
                year=(_EPOCH + timedelta(microseconds=now_us)).year + year + moment.year - ASSUMED_YEAR
            )
            found.append((shifted - _EPOCH) // timedelta(microseconds=1))
    return found
