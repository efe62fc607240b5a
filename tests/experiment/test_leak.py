"""Leaks under a steady load: in bytes per request, and only what goes on."""

import math

import numpy as np
import pytest

from oomctl.analyzers.capacity.experiment.leak import leaks
from oomctl.schemas import storage
from oomctl.schemas.experiment import Leak
from oomctl.schemas.rows import Row, make_row

START_US = 1_780_000_000_000_000
SECONDS = 300
RATE = 4.0
LEAK = 2048.0
ENDS_US = [START_US + round(s * 1e6) for s in np.random.default_rng(4).uniform(0, SECONDS, round(RATE * SECONDS))]
"""Of a Poisson process: they come in bursts, and what each leaves behind does too."""


def ended(second: float) -> int:
    return sum(end <= START_US + second * 1e6 for end in ENDS_US)


def resident(stream: str, values: list[float]) -> list[Row]:
    """What an agent tells of its process, each second."""
    return [
        make_row(
            "host",
            {"rss_bytes": round(value)},
            {
                "stream": stream, "seq": number, "worker": "w", "incarnation": "1", "source": "agent",
                "ts": START_US + number * 1_000_000,
            },
        )
        for number, value in enumerate(values)
    ]  # fmt: skip


def found(*rows: list[Row]) -> dict[str, Leak]:
    connection = storage.connect()
    try:
        storage.load_rows(connection, [row for each in rows for row in each])
        span = leaks(connection, START_US, START_US + SECONDS * 1_000_000, ENDS_US)
        return {one.whose: one for one in span}
    finally:
        connection.close()


def test_bytes_per_request_are_found_with_their_interval_and_what_settles_is_no_leak() -> None:
    draw = np.random.default_rng(5)
    noise = draw.normal(0, 20_000, (3, SECONDS))
    told = found(
        resident("leaks", [1e9 + LEAK * ended(second) + noise[0, second] for second in range(SECONDS)]),
        resident("steady", [1e9 + noise[1, second] for second in range(SECONDS)]),
        # An arena that fills within a minute and a half, and then stays.
        # A heap that takes an arena more, once, and late.
        resident("jumps", [1e9 + 2e6 * (second > 210) + noise[1, second] for second in range(SECONDS)]),
        resident("fills", [1e9 + 4e6 * (1 - math.exp(-second / 15)) + noise[2, second] for second in range(SECONDS)]),
    )
    assert {name: one.grows for name, one in told.items()} == {
        "leaks": True,
        "steady": False,
        "jumps": False,
        "fills": False,
    }
    leak = told["leaks"]
    assert leak.low_bytes_per_request is not None
    assert leak.high_bytes_per_request is not None
    assert leak.low_bytes_per_request < LEAK < leak.high_bytes_per_request
    assert leak.slope_bytes_per_request == pytest.approx(LEAK, rel=0.05)
    assert leak.high_bytes_per_request - leak.low_bytes_per_request < LEAK / 4
    # Its first fifth is left out.
    assert leak.points == pytest.approx(SECONDS * 0.8, abs=2)


def test_too_few_readings_tell_nothing() -> None:
    told = found(resident("few", [1e9 + 1e6 * number for number in range(SECONDS)][-4:]))
    assert all(one.grows is None for one in told.values())
