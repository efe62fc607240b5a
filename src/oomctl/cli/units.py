"""Sizes, durations and instants as people type them."""

import re
from datetime import UTC, datetime

from oomctl.schemas.errors import ExitCode, OomctlError

_SIZES = {
    "": 1,
    "B": 1,
    "K": 2**10,
    "M": 2**20,
    "G": 2**30,
    "T": 2**40,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def parse_size(text: str, option: str) -> int:
    """Bytes: 2GiB, 500M, 1000000. KiB, MiB and K, M are powers of 1024; KB, MB powers of 1000."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?) ?([KMGT]?)(i?)(B?)", text.strip())
    if match is None or (match[3] and not match[2]):
        raise OomctlError(f"{option} is no size: {text!r}", "for instance 2GiB or 500MiB", ExitCode.USAGE)
    unit = match[2] if match[3] else match[2] + match[4]
    return int(float(match[1]) * _SIZES[unit])


def parse_duration(text: str, option: str) -> float:
    """Seconds: 80ms, 90s, 15m, 36h, 7d, 2w."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?) ?(ms|[smhdw])", text.strip())
    if match is None:
        raise OomctlError(f"{option} is no time: {text!r}", "for instance 36h or 7d", ExitCode.USAGE)
    return float(match[1]) * _SECONDS[match[2]]


def parse_instant(text: str, option: str, now_us: int) -> int:
    """Microseconds since 1970: `now`, `15m` (so long ago), or ISO 8601, in UTC where it names no zone."""
    if text == "now":
        return now_us
    if re.fullmatch(r"[\d.]+ ?(?:ms|[smhdw])", text):
        return now_us - int(parse_duration(text, option) * 1e6)
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise OomctlError(
            f"{option} is no instant: {text!r}", "for instance 2026-03-11T02:42:11Z, 15m (ago), or now", ExitCode.USAGE
        ) from None
    return round((instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)).timestamp() * 1e6)
