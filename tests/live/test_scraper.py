"""A page scraped again and again: pace, restarts, silence, and a page that outlives its engine."""

from typing import Any

import pytest

from oomctl.collectors.live.batch import Batch
from oomctl.collectors.live.heap import give_back
from oomctl.collectors.live.http import FetchError, Reply
from oomctl.collectors.live.prometheus import scraper as module
from oomctl.collectors.live.prometheus.scraper import FROZEN_SCRAPES, REPEAT_S, Scraper
from tests.live.clock import Time

URL = "http://127.0.0.1:8000/metrics"


def page(running: int = 1, usage: float = 0.5, preemptions: int = 0, other: float = 1.0) -> str:
    return f"""# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0"}} {running}
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{engine="0"}} {usage}
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{{engine="0"}} {preemptions}
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{{block_size="16",engine="0",num_gpu_blocks="11"}} 1
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total {other}
"""


class Peer:
    """Gives out what it is set to."""

    def __init__(self) -> None:
        self.body: str | FetchError = page()
        self.health = 200
        self.asked: list[str] = []

    def __call__(self, url: str, deadline_s: float) -> Reply:
        self.asked.append(url)
        if url.endswith("/health"):
            return Reply(self.health, b"", False, "")
        if isinstance(self.body, FetchError):
            raise self.body
        return Reply(200, self.body.encode(), False, "text/plain")


class Bench:
    """A scraper with its peer and clock."""

    def __init__(self, **settings: Any) -> None:
        self.time, self.peer = Time(), Peer()
        self.scraper = Scraper(URL, {"worker": "w", "node": "n"}, self.time, fetch=self.peer, **settings)

    def next(self, after_s: float = 5.0) -> Batch:
        """One scrape, begun and taken."""
        self.time.now_s += after_s
        first = self.scraper.poll()
        assert not first.rows
        running = self.scraper._running
        assert running is not None
        assert running.wait(10)
        taken = self.scraper.poll()
        return taken


def kinds(batch: Batch) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in batch.rows:
        counts[row["kind"]] = counts.get(row["kind"], 0) + 1
    return counts


def test_first_scrape_gives_all_later_ones_what_moved() -> None:
    bench = Bench()
    first = bench.next()
    assert kinds(first) == {"throughput": 1, "kv_pool": 2, "manifest": 2, "metric": 1}
    assert first.notes == [("ok", f"{URL}: vllm")]
    bench.peer.body = page(usage=0.6)
    later = bench.next()
    assert kinds(later) == {"throughput": 1, "kv_pool": 2}
    pool = next(row for row in later.rows if row["kind"] == "kv_pool" and row["quality"] == "measured")
    assert pool["kv_pool"]["usage_ratio"] == 0.6
    assert pool["worker"] == "w" and pool["source"] == "prometheus" and pool["stream"] == URL
    seqs = [row["seq"] for row in first.rows + later.rows]
    assert seqs == sorted(set(seqs))
    bench.peer.body = page(usage=0.6, other=2.0)
    assert kinds(bench.next())["metric"] == 1
    assert kinds(bench.next(REPEAT_S))["metric"] == 1


def test_never_faster_than_a_second_and_one_at_a_time() -> None:
    bench = Bench(period_s=0.001)
    bench.next()
    asked = len(bench.peer.asked)
    for _ in range(9):
        bench.time.now_s += 0.1
        bench.scraper.poll()
    assert len(bench.peer.asked) == asked


def test_a_second_is_a_second_where_the_loop_comes_round_once_a_second() -> None:
    bench = Bench(period_s=1.0)
    bench.time.thread_us = iter(range(0, 10**9, 2_000)).__next__  # type: ignore[method-assign]
    for _ in range(10):
        running = bench.scraper._running
        assert running is None or running.wait(10)
        bench.scraper.poll()
        bench.time.now_s += 0.999
    assert bench.peer.asked.count(URL) == 10


def test_a_page_whose_series_nobody_knows_says_so() -> None:
    bench = Bench()
    bench.peer.body = '# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{of="some"} 1\n'
    batch = bench.next()
    assert kinds(batch) == {"metric": 1}
    ((state, why),) = batch.notes
    assert state == "degraded" and "kept as `metric` rows" in why


def test_a_figure_that_cannot_be_is_lost_and_counted() -> None:
    bench = Bench()
    bench.peer.body = page(running=-1)
    batch = bench.next()
    assert "throughput" not in kinds(batch)
    assert batch.losses == [("figure that its field cannot have", 1, URL)]


def test_a_dear_page_is_scraped_less_often() -> None:
    bench = Bench()
    bench.time.thread_us = iter(range(0, 10**9, 100_000)).__next__  # type: ignore[method-assign]
    bench.next()
    asked = len(bench.peer.asked)
    bench.time.now_s += 15
    bench.scraper.poll()
    assert len(bench.peer.asked) == asked
    bench.time.now_s += 6
    bench.scraper.poll()
    running = bench.scraper._running
    assert running is not None


def test_a_counter_that_falls_is_a_restart() -> None:
    bench = Bench()
    bench.peer.body = page(preemptions=9)
    bench.next()
    bench.peer.body = page(preemptions=2)
    batch = bench.next()
    assert len(batch.restarts) == 1 and "vllm:num_preemptions_total" in batch.restarts[0]
    assert kinds(batch)["manifest"] == 2
    assert not bench.next().restarts


def test_another_start_is_a_restart_although_nothing_fell() -> None:
    bench = Bench()
    started = "\n# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {}\n"
    bench.peer.body = page(preemptions=1) + started.format(1.7e9)
    bench.next()
    bench.peer.body = page(preemptions=9) + started.format(1.7e9)
    assert not bench.next().restarts
    bench.peer.body = page(preemptions=10) + started.format(1.7e9 + 60)
    assert len(bench.next().restarts) == 1


def test_a_gauge_that_falls_is_none() -> None:
    bench = Bench()
    bench.peer.body = page(usage=0.9, running=9)
    bench.next()
    bench.peer.body = page(usage=0.1, running=0)
    assert not bench.next().restarts


def test_silence_is_told_once_and_gives_no_rows() -> None:
    bench = Bench()
    bench.next()
    bench.peer.body = FetchError("connection refused")
    batch = bench.next()
    assert not batch.rows
    assert batch.notes == [("degraded", f"{URL}: connection refused; its last figures are 5 s old")]
    assert bench.scraper.state == "failed"
    assert not bench.next().notes
    bench.peer.body = page()
    assert bench.next().notes == [("ok", f"{URL}: vllm")]


def test_a_page_that_outlives_its_engine_is_stale_not_current() -> None:
    bench = Bench()
    for _ in range(FROZEN_SCRAPES + 1):
        assert bench.next().rows
    assert not any(url.endswith("/health") for url in bench.peer.asked)
    bench.peer.health = 503
    batch = bench.next()
    assert bench.peer.asked[-2:] == ["http://127.0.0.1:8000/health", URL]
    assert not batch.rows
    assert bench.scraper.state == "stale"
    assert "engine behind it does not" in batch.notes[0][1]


def test_a_page_that_stands_still_while_its_engine_lives_is_current() -> None:
    bench = Bench()
    for _ in range(FROZEN_SCRAPES + 3):
        assert bench.next().rows
    assert any(url.endswith("/health") for url in bench.peer.asked)


def test_the_page_of_something_else() -> None:
    bench = Bench()
    bench.peer.body = "# TYPE go_goroutines gauge\ngo_goroutines 3\n"
    batch = bench.next()
    assert not batch.rows
    assert batch.notes == [("degraded", f"{URL}: no series of an engine that is known here")]


def test_what_could_not_be_read_is_counted() -> None:
    bench = Bench()
    bench.peer.body = page() + "nonsense {\nvllm:x{} NaN\n"
    batch = bench.next()
    assert kinds(batch)["kv_pool"] == 2
    assert {(reason, count) for reason, count, _ in batch.losses} == {
        ("line of a page of metrics: not a sample", 1),
        ("line of a page of metrics: not a finite number", 1),
    }


def test_what_a_huge_page_took_is_given_back_once_its_rows_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a page larger than any engine's WHEN the next round begins THEN memory is given back, once."""
    given: list[int] = []
    monkeypatch.setattr(module, "give_back", lambda: given.append(1))
    bench = Bench()
    bench.next()
    bench.peer.body = page() + "#" * module.LARGE_BYTES
    bench.next()
    assert not given
    bench.peer.body = page()
    bench.next(600)
    bench.next(600)
    assert given == [1]
    give_back()  # with whatever malloc this machine has
