"""A drawing of a long series has every extreme that the series has."""

from hypothesis import given
from hypothesis import strategies as st

from oomctl.report.thin import POINTS, SERIES, thin


@given(st.lists(st.floats(0, 1), min_size=1, max_size=3 * POINTS), st.integers(1, 3))
def test_no_extreme_is_lost(figures: list[float], lines: int) -> None:
    rows = [{"t": t, "s": t % lines, "v": v} for t, v in enumerate(figures)]
    kept = thin(rows, "s", "v")
    for line in range(lines):
        before = [row for row in rows if row["s"] == line]
        after = [row for row in kept if row["s"] == line]
        assert len(after) <= POINTS
        if before:
            assert (after[0], after[-1]) == (before[0], before[-1])
            assert {min(r["v"] for r in before), max(r["v"] for r in before)} <= {r["v"] for r in after}
        if len(before) <= POINTS:
            assert after == before


def test_more_lines_than_can_be_told_apart_are_left_out() -> None:
    assert len(thin([{"s": n, "v": 1} for n in range(SERIES + 5)], "s", "v")) == SERIES
