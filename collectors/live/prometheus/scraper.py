"""One endpoint, scraped again and again: pace, restarts, and figures that are no longer true."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from oomctl.collectors.live.background import Call
from oomctl.collectors.live.batch import Batch, Standing
from oomctl.collectors.live.heap import give_back
from oomctl.collectors.live.http import FetchError, Reply, get
from oomctl.collectors.live.prometheus.changes import Seen, labels_of
from oomctl.collectors.live.prometheus.facts import Fact, read
from oomctl.collectors.live.prometheus.mapping import Engine, engines
from oomctl.collectors.live.prometheus.page import Page, Sample, parse
from oomctl.collectors.live.prometheus.trtllm_json import is_json
from oomctl.collectors.live.prometheus.trtllm_json import read as read_iterations
from oomctl.collectors.live.stream import Stream
from oomctl.schemas.rows import Row

PAGE = "metrics "
"""A scraper is named so, and its page."""
PERIOD_S = 5.0
SHORTEST_S = 1.0
DEADLINE_S = 3.0
COST_RATIO = 0.01
"""Of the time between two scrapes, what one may cost; a page that costs more is scraped less often."""
REPEAT_S = 600.0
"""A `metric` row is written when its value changes, and all of them this often."""
LARGE_BYTES = 2 << 20
"""A page of sixteen engines has about one MiB; what a larger one took is given back, for it is not meant to be there."""
FROZEN_SCRAPES = 3
"""So many equal pages while requests run, and the engine is asked whether it lives."""

SLACK_S = 0.05
"""By which a scrape may begin early: the loop that asks comes round about once a second, not to the millisecond."""

Get = Callable[[str, float], Reply]


@dataclass(frozen=True)
class _Fetched:
    """What a scrape brought: the page, unless it is JSON or an error; and what reading it cost."""

    reply: Reply
    page: Page | None
    alive: bool
    cost_us: int


class Scraper(Standing):
    """Scrapes one page.

    Args:
        url: Of the page.
        common: The common columns: worker, node, incarnation. Without an incarnation the page's own lives are counted.
        clock: `monotonic_s()`, `wall_us()` and `thread_us()`.
        period_s: Between two scrapes; at least SHORTEST_S.
        fetch: Gets a page; injected by tests.

    Attributes:
        engine: Whose page it is, once known.
        state: "", then ok, failed, stale or unmapped.
    """

    def __init__(self, url: str, common: dict[str, Any], clock: Any, period_s: float = PERIOD_S, fetch: Get = get) -> None:
        super().__init__()
        self.url = url
        self.name = PAGE + url
        self.engine: Engine | None = None
        self.stream = Stream(url, "prometheus", common)
        self._worker = common.get("worker", url)
        self._counts_lives = not common.get("incarnation")
        self._clock = clock
        self._period_s = max(SHORTEST_S, period_s)
        self._fetch = fetch
        self._life = 1
        self._next_s = clock.monotonic_s()
        self._begun_s = self._next_s
        self._running: Call[_Fetched] | None = None
        self._was_large = False
        self._seen = Seen()
        self._manifest: dict[tuple[Any, ...], str] = {}
        self._repeat_s = 0.0
        self._frozen = 0
        self._good_us: int | None = None

    def poll(self) -> Batch:
        """What came since the last call; begins a scrape when one is due. Never waits."""
        batch = Batch()
        if self._was_large:  # its rows were written since
            self._was_large = False
            give_back()
        if self._running is not None and self._running.done:
            running, self._running = self._running, None
            try:
                fetched = running.result()
                self._was_large = len(fetched.reply.body) > LARGE_BYTES
                self._take(fetched, batch)
            except FetchError as error:
                self._turn("failed", f"{self.url}: {error}{self._last()}", batch)
        if self._running is None and self._clock.monotonic_s() >= self._next_s - SLACK_S:
            self._begun_s = self._clock.monotonic_s()
            self._next_s = self._begun_s + self._period_s
            self._running = Call(partial(self._get, self._suspicious), "oomctl-scrape")
        return batch

    def close(self) -> None:
        """A scrape that runs ends by itself, within its deadline."""

    @property
    def _suspicious(self) -> bool:
        return self._frozen >= FROZEN_SCRAPES and self.engine is not None and bool(self.engine.health)

    def _get(self, suspicious: bool) -> _Fetched:
        """In the thread: the page, parsed, and whether the engine behind it lives where that is in doubt."""
        alive = True
        if suspicious and self.engine is not None:
            base = self.url.split("?")[0].rsplit("/", 1)[0]
            try:
                alive = self._fetch(base + self.engine.health, DEADLINE_S).status < 500
            except FetchError:
                alive = False
        reply, begun_us = self._fetch(self.url, DEADLINE_S), self._clock.thread_us()
        is_page = reply.status == 200 and not is_json(reply.body, reply.content_type)
        page = parse(reply.body.decode("utf-8", "replace")) if is_page else None
        return _Fetched(reply, page, alive, self._clock.thread_us() - begun_us)

    def _take(self, fetched: _Fetched, batch: Batch) -> None:
        begun_us, reply, page = self._clock.thread_us(), fetched.reply, fetched.page
        if reply.status != 200:
            self._turn("failed", f"{self.url}: status {reply.status}{self._last()}", batch)
            return
        if page is None:
            self._take_iterations(reply, batch)
            return
        self._note(reply, page, batch)
        self.engine = self.engine or engine_of(page.samples)
        if self.engine is None:
            self._turn("failed", f"{self.url}: no series of an engine that is known here", batch)
            return
        ts = self._clock.wall_us()
        if not fetched.alive:
            self._turn("stale", f"{self.url}: the page answers, the engine behind it does not{self._last()}", batch)
            return
        facts = read(self.engine, page.samples)
        if facts.facts:
            self._turn("ok", f"{self.url}: {self.engine.engine}", batch)
        else:
            why = "none of its series has the labels that are known here; they are kept as `metric` rows"
            self._turn("unmapped", f"{self.url}: {self.engine.engine}: {why}", batch)
        own = {sample.name for sample in page.samples if self.engine.bare(sample.name) is not None}
        change = self._seen.take(page.samples, own)
        self._frozen = self._frozen + 1 if change.same and change.busy else 0
        if change.restarted is not None:
            self._life += 1
            batch.restarts.append(f"{self.url}: {change.restarted}, so it is another process")
            self._manifest.clear()
        if facts.refused:
            batch.losses.append(("figure that its field cannot have", facts.refused, self.url))
        again = self._clock.monotonic_s() >= self._repeat_s
        if again:
            self._repeat_s = self._clock.monotonic_s() + REPEAT_S
        batch.rows += [self._row(fact, ts) for fact in facts.facts if self._is_news(fact)]
        batch.rows += [self._metric(sample, ts) for sample in facts.rest if again or self._seen.is_new(sample)]
        self._good_us = ts
        cost_s = (self._clock.thread_us() - begun_us + fetched.cost_us) / 1e6
        self._next_s = max(self._next_s, self._begun_s + cost_s / COST_RATIO)

    def _take_iterations(self, reply: Reply, batch: Batch) -> None:
        """TensorRT-LLM's JSON in place of a page."""
        try:
            facts, skipped = read_iterations(reply.body)
        except ValueError as error:
            self._turn("failed", f"{self.url}: {error}{self._last()}"[:300], batch)
            return
        self._turn("ok", f"{self.url}: trtllm, iteration statistics", batch)
        if skipped:
            batch.losses.append(("iteration that was not read", skipped, self.url))
        self._good_us = self._clock.wall_us()
        batch.rows += [self._row(fact, self._good_us) for fact in facts]

    def _is_news(self, fact: Fact) -> bool:
        """Whether a manifest row says something new; figures always do."""
        if fact.kind != "manifest":
            return True
        key = (fact.whose, fact.fields["section"], fact.fields["key"])
        if self._manifest.get(key) == fact.fields["value"]:
            return False
        self._manifest[key] = fact.fields["value"]
        return True

    def _row(self, fact: Fact, ts: int) -> Row:
        whose = {"rank_name": fact.whose.rank_name, "quality": fact.quality}
        if fact.whose.part:
            whose["worker"] = f"{self._worker}/{fact.whose.part}"
        return self.stream.row(ts, fact.kind, fact.fields, {**whose, **self._life_of()})

    def _metric(self, sample: Sample, ts: int) -> Row:
        fields = {"name": sample.name, "labels": labels_of(sample), "value": sample.value}
        return self.stream.row(ts, "metric", fields, self._life_of())

    def _life_of(self) -> dict[str, str]:
        return {"incarnation": f"{self.url}#{self._life}"} if self._counts_lives else {}

    def _note(self, reply: Reply, page: Page, batch: Batch) -> None:
        if reply.cut:
            batch.losses.append(("page of metrics cut", 1, f"{self.url}: {len(reply.body)} bytes were read"))
        batch.losses += [(f"line of a page of metrics: {why}", count, self.url) for why, count in page.skipped.items()]

    def _last(self) -> str:
        return (
            ""
            if self._good_us is None
            else f"; its last figures are {(self._clock.wall_us() - self._good_us) / 1e6:.0f} s old"
        )


def engine_of(samples: list[Sample]) -> Engine | None:
    """The engine with the most series on a page, or None; Dynamo passes its engine's own through."""
    counts = [(sum(engine.bare(sample.name) is not None for sample in samples), engine) for engine in engines()]
    best = max(counts, key=lambda pair: pair[0])
    return best[1] if best[0] else None
