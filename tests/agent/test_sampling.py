"""Which requests are followed: about as many as wanted, with weights that make sums right."""

import random
from dataclasses import dataclass

from oomctl.collectors.agent.requests import Sampler


@dataclass
class Request:
    request_id: str
    num_prompt_tokens: int
    num_output_tokens: int = 0
    num_computed_tokens: int = 0
    max_tokens: int = 10


def test_few_are_all_followed() -> None:
    sampler = Sampler(target=8)
    followed = [sampler.draw(Request(str(n), 5), alive=n) for n in range(1, 9)]
    assert all(one is not None and (one.weight, one.sampled_by) == (1.0, 0) for one in followed)


def test_zero_means_all() -> None:
    assert Sampler(target=0).draw(Request("a", 5), alive=10_000) is not None


def test_of_many_a_share_is_followed_and_the_sums_stay_right() -> None:
    rng = random.Random(3)
    sampler = Sampler(target=16, seed=4)
    total = estimate = kept = 0.0
    for number in range(20_000):
        request = Request(str(number), rng.randrange(1, 4000))
        # A load that swells and ebbs: from 20 to 400 alive.
        alive = 20 + abs(number // 50 % 760 - 380)
        total += request.num_prompt_tokens
        followed = sampler.draw(request, alive)
        if followed is not None:
            kept += 1
            assert 1 <= followed.weight <= 400 / 16
            estimate += followed.weight * followed.prompt_tokens
    assert 0.08 < kept / 20_000 < 0.17
    assert abs(estimate / total - 1) < 0.08
