"""Printed times to microseconds since 1970 in UTC, with how far they are to be trusted."""

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import cache, lru_cache

ASSUMED_YEAR = 2000
"""For stamps without a year where nothing in the log names one: fixed, so that a file reads alike every year, and leap."""

_FULL = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\s*(Z|[+-]\d\d:?\d\d)?",
)
_SHORT = re.compile(r"(\d\d)[-/](\d\d) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")

_ZONED = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)")
_EPOCHAL = re.compile(r"(?<![\w.])(1\d{9})(?:\.(\d{1,9})|(\d{3}|\d{6}|\d{9}))?(?![\w.])")
"""Seconds with a fraction, or milli-, micro- or nanoseconds, since 1970: 2001 to 2033."""
_MONTHS = {
    "Jan": 1, "Feb": 2, "Mar": 3, "Apr": 4, "May": 5, "Jun": 6,
    "Jul": 7, "Aug": 8, "Sep": 9, "Oct": 10, "Nov": 11, "Dec": 12,
}  # fmt: skip
_SYSLOG = re.compile(rf"\b({'|'.join(_MONTHS)}) ([ \d]?\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{{1,9}}))?(?: (\d{{4}})\b)?")
_KLOG = re.compile(r"\b[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6})\b")
_AMERICAN = re.compile(r"(\d\d)/(\d\d)/(\d{4})-(\d\d):(\d\d):(\d\d)")

_PLAIN_MINUTE = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):", re.ASCII)
_SECONDS = {f"{second:02}": second * 1_000_000 for second in range(60)}
MAX_MINUTES = 4096

Stamp = tuple[int, str]
"""Microseconds, and ts_quality: exact or local."""


def parse_full(text: str) -> Stamp | None:
    """A stamp with a year: exact if it names its zone, else local (taken as UTC)."""
    plain = _plain(text) if len(text) == len("2026-05-02 10:00:00") else None
    if plain is not None:
        return plain
    match = _FULL.search(text)
    if match is None:
        american = _AMERICAN.search(text)
        if american is None:
            return None
        month, day, year, *clock = (int(part) for part in american.groups())
        moment = _moment([year, month, day, *clock], 0, UTC)
        return None if moment is None else (moment, "local")
    *numbers, fraction, zone = match.groups()
    offset = UTC
    if zone and zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[-2:])
        delta = timedelta(hours=hours, minutes=minutes)
        if delta >= timedelta(hours=24):
            return None
        offset = timezone(-delta if zone[0] == "-" else delta)
    micros = int((fraction or "0").ljust(6, "0")[:6])
    moment = _moment(list(map(int, numbers)), micros, offset)
    return None if moment is None else (moment, "exact" if zone else "local")


def _plain(text: str) -> Stamp | None:
    """A stamp of the plainest form, as most lines of a log have it; the lines of one minute share all but the second."""
    second = _SECONDS.get(text[-2:])
    minute = _minute(text[:-2]) if second is not None else None
    return None if minute is None or second is None else (minute + second, "local")


@lru_cache(MAX_MINUTES)
def _minute(text: str) -> int | None:
    """Microseconds since 1970 at the beginning of a minute such as "2026-05-02 10:00:"; None where it is none."""
    match = _PLAIN_MINUTE.fullmatch(text)
    return None if match is None else _moment([*map(int, match.groups()), 0], 0, UTC)


def parse_outer(text: str, year: int | None) -> Stamp | None:
    """The time in an envelope or an outer prefix: the last stamp with a zone, seconds since 1970, else a local one."""
    zoned = _ZONED.findall(text)
    if zoned:
        return parse_full(zoned[-1])
    epoch = _EPOCHAL.search(text)
    if epoch is not None:
        fraction = epoch[2] or epoch[3] or ""
        return int(epoch[1]) * 1_000_000 + int(fraction.ljust(6, "0")[:6]), "exact"
    syslog = _SYSLOG.search(text)
    if syslog is not None:
        day = [int(syslog[7] or year or ASSUMED_YEAR), _MONTHS[syslog[1]], int(syslog[2])]
        return _local([*day, *(int(syslog[n]) for n in (3, 4, 5))], syslog[6])
    klog = _KLOG.search(text)
    if klog is not None:
        return _local([year or ASSUMED_YEAR, *(int(klog[n]) for n in range(1, 6))], klog[6])
    return parse_full(text)


def outer_in(prefix: str) -> str | None:
    """The prefix itself if it tells a time, and the last of its stamps with a zone where it has one."""
    zoned = _ZONED.findall(prefix)
    if zoned:
        return str(zoned[-1])
    return prefix if any(pattern.search(prefix) for pattern in (_EPOCHAL, _SYSLOG, _KLOG, _FULL)) else None


def is_zoned(stamp: str) -> bool:
    """Whether a text is a stamp with its zone, and nothing else."""
    return _ZONED.fullmatch(stamp) is not None


def year_of(stamp: Stamp) -> int:
    """In which year a moment lies, in UTC."""
    return (_EPOCH + timedelta(microseconds=stamp[0])).year


def _local(parts: list[int], fraction: str | None) -> Stamp | None:
    moment = _moment(parts, int((fraction or "0").ljust(6, "0")[:6]), UTC)
    return None if moment is None else (moment, "local")


def parse_short(text: str, year: int | None) -> Stamp | None:
    """A stamp such as vLLM's "11-21 08:30:01": no year, no zone."""
    plain = _plain(f"{year or ASSUMED_YEAR}-{text}") if len(text) == len("11-21 08:30:01") else None
    if plain is not None:
        return plain
    match = _SHORT.search(text)
    if match is None:
        return None
    *numbers, fraction = match.groups()
    return _local([year or ASSUMED_YEAR, *map(int, numbers)], fraction)


def _moment(parts: list[int], micros: int, zone: timezone) -> int | None:
    year, month, day, hour, minute, second = parts
    midnight = _midnight(year, month, day, zone)
    if midnight is None or hour > 23 or minute > 59 or second > 60:
        return None
    return midnight + ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros


@cache
def _midnight(year: int, month: int, day: int, zone: timezone) -> int | None:
    """Microseconds since 1970 at the beginning of a day; a log has few days and very many lines."""
    try:
        moment = datetime(year, month, day, tzinfo=zone)
    except (ValueError, OverflowError):
        return None
    return (moment - _EPOCH) // timedelta(microseconds=1)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
