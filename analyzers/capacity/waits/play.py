"""Decisions at work: pauses of many sessions beside each other, and one link that they wait for."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, log
from typing import Protocol

from oomctl.analyzers.capacity.waits.rule import Choice, Rule
from oomctl.analyzers.capacity.waits.waste import Costs, Pauses

ALIKE = 1.05
"""Contexts within 5% in length are given the same time: it is worked out once for them."""
ACT, RETURN = 0, 1


@dataclass(slots=True)
class Played:
    """What the decisions wasted.

    Attributes:
        waste: Token-seconds.
        preserved, recomputed, offloaded: Pauses, by how they ended.
        link_wait_s: Longest wait for the link.
    """

    waste: float = 0.0
    preserved: int = 0
    recomputed: int = 0
    offloaded: int = 0
    link_wait_s: float = 0.0


class Decider(Protocol):
    """Decides about one pause."""

    def choose(self, which: int, link_wait_s: float, held_s: float) -> Choice:
        """How long to hold it from its begin on, and what then.

        Args:
            which: Its place.
            link_wait_s: Until the link out is free.
            held_s: How long it has been held already.
        """


class ByRule:
    """Decides by the pauses that were seen before.

    Args:
        pauses: What to decide about.
        rules: By session.
        costs: Speeds.
        with_link: Whether contexts can be moved to the host.
    """

    def __init__(self, pauses: Pauses, rules: Mapping[int, Rule], costs: Costs, *, with_link: bool) -> None:
        self._rules = [rules[session] for session in pauses.session.tolist()]
        self._again_s = costs.recompute_s(pauses.tokens).tolist()
        self._moved_s = costs.transfer_s(pauses.tokens).tolist() if with_link else None
        self._first: dict[tuple[int, int, int], Choice] = {}

    def choose(self, which: int, link_wait_s: float, held_s: float) -> Choice:
        """By expected waste."""
        moved_s = None if self._moved_s is None else self._moved_s[which]
        again_s, rule = self._again_s[which], self._rules[which]
        if held_s:
            return rule.choose(again_s, moved_s, link_wait_s, held_s)
        key = (id(rule), round(log(max(again_s, 1e-9)) / log(ALIKE)), 0 if moved_s is None else round(link_wait_s))
        if key not in self._first:
            self._first[key] = rule.choose(again_s, moved_s, link_wait_s)
        return self._first[key]


class ByOracle:
    """Knows how long each pause is, and what the link is like when it begins; not who will want it later."""

    def __init__(self, pauses: Pauses, costs: Costs) -> None:
        self._seconds = pauses.seconds.tolist()
        self._again_s = costs.recompute_s(pauses.tokens).tolist()
        self._moved_s = costs.transfer_s(pauses.tokens).tolist()

    def choose(self, which: int, link_wait_s: float, held_s: float) -> Choice:
        """The least of the three."""
        seconds, again_s = self._seconds[which], self._again_s[which]
        out_s = link_wait_s + self._moved_s[which]
        away_s = out_s + self._moved_s[which] if out_s < seconds else inf
        least = min(seconds, again_s, away_s)
        if least == seconds:
            return Choice(inf, "preserve", least)
        return Choice(0.0, "offload" if least == away_s else "recompute", least)


def play(pauses: Pauses, decider: Decider, costs: Costs) -> Played:
    """Let somebody decide every pause.

    A context that cannot have the link at once is held meanwhile, on its way out and on its way back. If the tool answers
    before it is out, it was held to no avail. Whoever decides is asked again when the time to act has come, since the
    link may have become busy.

    Args:
        pauses: In the order of their begin.
        decider: Who decides.
        costs: Speeds.
    """
    return _Play(pauses, decider, costs).run()


class _Play:
    def __init__(self, pauses: Pauses, decider: Decider, costs: Costs) -> None:
        self._begin_s, self._seconds = pauses.begin_s.tolist(), pauses.seconds.tolist()
        self._tokens = pauses.tokens.tolist()
        self._again_s = costs.recompute_s(pauses.tokens).tolist()
        self._moved_s = costs.transfer_s(pauses.tokens).tolist()
        self._decider = decider
        self._out_free_s = self._back_free_s = -inf
        self._due: list[tuple[float, int, int]] = []
        self._played = Played()

    def run(self) -> Played:
        for which, begin_s in enumerate(self._begin_s):
            self._until(begin_s)
            self._plan(which, self._decider.choose(which, self._link_wait_s(begin_s), 0.0))
        self._until(inf)
        return self._played

    def _link_wait_s(self, now_s: float) -> float:
        return max(0.0, self._out_free_s - now_s)

    def _until(self, to_s: float) -> None:
        while self._due and self._due[0][0] <= to_s:
            now_s, what, which = heapq.heappop(self._due)
            if what == RETURN:
                self._return(which, now_s)
            else:
                self._act(which, now_s)

    def _plan(self, which: int, choice: Choice) -> None:
        if self._seconds[which] <= choice.keep_s:
            self._played.waste += self._seconds[which] * self._tokens[which]
            self._played.preserved += 1
        else:
            heapq.heappush(self._due, (self._begin_s[which] + choice.keep_s, ACT, which))

    def _act(self, which: int, now_s: float) -> None:
        played, tokens = self._played, self._tokens[which]
        held_s = now_s - self._begin_s[which]
        wait_s = self._link_wait_s(now_s)
        choice = self._decider.choose(which, wait_s, held_s)
        if choice.keep_s > held_s + 1e-6:
            self._plan(which, choice)
        elif choice.then == "recompute":
            played.waste += (held_s + self._again_s[which]) * tokens
            played.recomputed += 1
        else:
            self._move(which, now_s, held_s, wait_s)

    def _move(self, which: int, now_s: float, held_s: float, wait_s: float) -> None:
        played, moved_s = self._played, self._moved_s[which]
        played.link_wait_s = max(played.link_wait_s, wait_s)
        self._out_free_s = now_s + wait_s + moved_s
        if held_s + wait_s + moved_s >= self._seconds[which]:
            played.waste += self._seconds[which] * self._tokens[which]
            played.preserved += 1
            return
        played.waste += (held_s + wait_s + moved_s) * self._tokens[which]
        played.offloaded += 1
        heapq.heappush(self._due, (self._begin_s[which] + self._seconds[which], RETURN, which))

    def _return(self, which: int, now_s: float) -> None:
        moved_s = self._moved_s[which]
        self._back_free_s = max(self._back_free_s, now_s) + moved_s
        self._played.waste += (self._back_free_s - now_s) * self._tokens[which]
