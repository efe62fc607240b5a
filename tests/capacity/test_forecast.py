"""The forecast: what it sees that a quantile does not, and that what it does not work out would have changed nothing."""

from hypothesis import given, settings
from hypothesis import strategies as st

from oomctl.analyzers.capacity.admission import Forecast, Outputs, Quantile, Request, State, decide


def test_a_forecast_sees_that_requests_end_before_others_have_grown() -> None:
    # Each of 20 ends within 100 tokens: all at their ends together would not fit, and never are.
    outputs = list(range(1, 101))
    taken = {}
    for policy in (Quantile(Outputs(outputs), 0.95), Forecast(Outputs(outputs))):
        state = State(150, policy)
        for number in range(20):
            state.enter(Request(str(number), 64, 100))
            state.produce(str(number), 5 * number)
        taken[policy.name] = decide(state, Request("new", 64, 100)).reservation.peak_blocks
    assert taken["forecast"] < taken["quantile"]


REQUESTS = st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 2000), st.integers(0, 400), st.sampled_from((1, 1, 3))))


class _EveryMoment(Forecast):
    """Looks at each moment by itself, so that none is passed over."""

    def outlook(self, state: State, request: Request, found_blocks: int) -> tuple[float, int]:
        every, outlooks = self._stretches, []
        for each in every:
            self._stretches = [each]
            outlooks.append(super().outlook(state, request, found_blocks))
        self._stretches = every
        return max(peak for peak, _ in outlooks), outlooks[0][1]


@settings(max_examples=60, deadline=None)
@given(REQUESTS, st.integers(1, 9000), st.integers(1, 2000), st.sampled_from((1, 3)), st.sampled_from((20, 200, 600)))
def test_moments_that_are_passed_over_are_not_the_worst(
    running: list[tuple[int, int, int, int]], prompt: int, most: int, branches: int, longest: int
) -> None:
    states = [State(20_000, make(Outputs(range(1, longest)))) for make in (Forecast, _EveryMoment)]
    for state in states:
        for number, (prompt_tokens, output_tokens, generated, several) in enumerate(running):
            state.enter(Request(str(number), prompt_tokens, output_tokens, branches=several))
            state.produce(str(number), min(generated, output_tokens))
    quick, whole = (decide(state, Request("new", prompt, most, branches=branches)) for state in states)
    assert quick == whole
