"""The state of workers, row by row; what it means; and how it is drawn at 80 columns."""

from typing import Any

import pytest

from oomctl.analyzers.picture.outlook import alerts, seconds_to_full
from oomctl.analyzers.picture.state import Picture
from oomctl.cli.render.top import frame
from oomctl.schemas.rows import make_row

GIB = 1 << 30
START = 1_700_000_000_000_000


def take(picture: Picture, at_s: float, kind: str, fields: dict[str, Any], **common: Any) -> None:
    known = {"ts": START + int(at_s * 1e6), "worker": "w", "incarnation": "1", "stream": "s", **common}
    picture.take(make_row(kind, fields, known))


def pools(picture: Picture, *shares: float, every_s: float = 5.0, **common: Any) -> None:
    for number, share in enumerate(shares):
        take(picture, number * every_s, "kv_pool", {"used_blocks": int(share * 1000), "total_blocks": 1000}, **common)


def drawn(picture: Picture, at_s: float = 0.0, width: int = 80) -> str:
    return "\n".join(frame(picture, START + int(at_s * 1e6), width, "top"))


def test_two_workers_and_their_ranks_are_never_mixed() -> None:
    picture = Picture()
    pools(picture, 0.5, rank_name="DP0")
    pools(picture, 0.99, rank_name="DP1")
    pools(picture, 0.1, worker="other")
    assert {name: sorted(worker.pools) for name, worker in picture.workers.items()} == {"w": ["DP0", "DP1"], "other": [""]}
    text = drawn(picture)
    assert "used 50%" in text and "used 99%" in text and "used 10%" in text and "149%" not in text


def test_a_page_of_several_workers_is_none_itself() -> None:
    picture = Picture()
    take(picture, 0, "collector", {"name": "metrics http://h/metrics", "state": "ok"}, worker="page", incarnation=None)
    assert [worker.name for worker in picture.shown()] == ["page"], "nothing else is known yet"
    pools(picture, 0.5, worker="page/1")
    pools(picture, 0.6, worker="page/2")
    assert [worker.name for worker in picture.shown()] == ["page/1", "page/2"]
    assert "running ?" not in drawn(picture).split("page/1")[0]


def test_nothing_fills_up_after_the_end() -> None:
    picture = Picture()
    pools(picture, 0.1, 0.2, 0.3, 0.4, 0.5)
    assert "full in" in drawn(picture, 20)
    take(picture, 20, "collector", {"name": "metrics http://h/metrics", "state": "degraded", "detail": "refused"})
    assert "full in" not in drawn(picture, 20)
    take(picture, 21, "collector", {"name": "metrics http://h/metrics", "state": "ok"})
    assert "full in" in drawn(picture, 21)
    take(picture, 22, "lifecycle", {"phase": "killed"})
    assert "full in" not in drawn(picture, 22)


def test_a_new_life_holds_nothing_of_the_last() -> None:
    picture = Picture()
    pools(picture, 0.9)
    take(picture, 60, "throughput", {"running_requests": 0}, incarnation="2")
    assert not picture.workers["w"].pools


def test_figures_of_several_rows_complete_each_other() -> None:
    picture = Picture()
    take(picture, 0, "kv_pool", {"usage_ratio": 0.4, "total_blocks": 101})
    take(picture, 0, "kv_pool", {"used_blocks": 40, "free_blocks": 60})
    take(picture, 0, "kv_pool", {"used_blocks": 7, "total_blocks": 9, "tier": "host"})
    assert picture.workers["w"].pools[""].figures["used_blocks"] == 40


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ((0.1, 0.2, 0.3, 0.4, 0.5), 25.0),
        ((0.5, 0.5, 0.5, 0.5), None),
        ((0.5, 0.4, 0.3, 0.2), None),
        ((0.50, 0.60, 0.48, 0.61, 0.50, 0.60), None),
        ((0.1, 0.9), None),
    ],
    ids=["grows", "stands", "shrinks", "scatters", "too few"],
)
def test_time_to_exhaustion(shares: tuple[float, ...], expected: float | None) -> None:
    picture = Picture()
    pools(picture, *shares)
    seconds = seconds_to_full(picture.workers["w"].pools[""])
    assert seconds == (None if expected is None else pytest.approx(expected, abs=0.5))


def told(picture: Picture, at_s: float) -> list[str]:
    return list(alerts(picture.workers["w"], START + int(at_s * 1e6)))


def test_a_quiet_worker_has_no_alert() -> None:
    picture = Picture()
    pools(picture, 0.5, 0.5)
    take(picture, 5, "kv_pool", {"preempted_requests": 7})
    take(picture, 10, "kv_pool", {"preempted_requests": 7})
    take(picture, 10, "device", {"total_bytes": 80 * GIB, "used_bytes": 60 * GIB, "free_bytes": 20 * GIB}, device_id=0)
    assert told(picture, 11) == []


def test_alerts() -> None:
    picture = Picture()
    pools(picture, 0.97)
    take(picture, 1, "kv_pool", {"preempted_requests": 7})
    take(picture, 9, "kv_pool", {"preempted_requests": 10})
    take(picture, 9, "allocator", {"num_alloc_retries": 1})
    take(picture, 10, "allocator", {"num_alloc_retries": 3})
    take(picture, 10, "device", {"total_bytes": 80 * GIB, "used_bytes": 79 * GIB, "free_bytes": GIB}, device_id=0)
    take(picture, 10, "oom", {"resource": "kv_blocks", "error_type": "preemption"})
    take(picture, 10, "collector", {"name": "recorder", "state": "degraded", "detail": "refused"}, stream="r")
    assert told(picture, 12) == [
        "preemption, 2 s ago",
        "refused",
        "3 preempted in the last minute",
        "2 allocation retries in the last minute",
        "KV pool 97% used",
        "device 0: 1.2% free",
    ]
    take(picture, 13, "collector", {"name": "recorder", "state": "ok", "detail": "again"}, stream="r")
    assert "refused" not in told(picture, 13)


def test_old_figures_are_said_to_be_old() -> None:
    picture = Picture()
    pools(picture, 0.5)
    assert told(picture, 100) == ["no news for 100 s: the figures are old"]
    # Another source that goes on telling, and one that says how it is, make them no younger.
    take(picture, 100, "collector", {"name": "metrics", "state": "degraded", "detail": "its last figures are 99 s old"})
    assert "no news for 100 s: the figures are old" in told(picture, 100)
    take(picture, 100, "device", {"total_bytes": GIB, "used_bytes": 0, "free_bytes": GIB}, device_id=0)
    assert told(picture, 100) == ["its last figures are 99 s old"]
    assert "used 50% (100 s ago)" in drawn(picture, 100)


def test_one_source_that_is_well_says_nothing_of_another() -> None:
    picture = Picture()
    take(picture, 1, "collector", {"name": "metrics", "state": "degraded", "detail": "refused"})
    take(picture, 2, "collector", {"name": "recorder", "state": "ok", "detail": "records"})
    assert told(picture, 2) == ["refused"]
    take(picture, 3, "collector", {"name": "metrics", "state": "ok", "detail": "vllm"})
    assert told(picture, 3) == []


def test_evictable_is_a_question_where_nobody_tells() -> None:
    picture = Picture()
    pools(picture, 0.5)
    assert "used 50%, evictable ?" in drawn(picture)


def test_old_figures_of_a_worker_that_died() -> None:
    picture = Picture()
    pools(picture, 0.5)
    take(picture, 101, "lifecycle", {"phase": "killed"})
    assert told(picture, 500) == ["killed"]


def test_eighty_columns() -> None:
    picture = Picture()
    name = "node-with-a-long-name.example.com:12345"
    take(picture, 0, "lifecycle", {"phase": "serving"}, worker=name)
    take(picture, 0, "throughput", {"running_requests": 12, "waiting_requests": 4}, worker=name)
    figures = {"total_bytes": 80 * GIB, "used_bytes": 76 * GIB, "free_bytes": 4 * GIB}
    take(picture, 0, "device", figures, worker=name, device_id=0)
    take(picture, 0, "memory", {"component": "weights", "lifetime": "worker", "bytes": 16 * GIB}, worker=name)
    take(picture, 0, "memory", {"component": "kv_pool", "lifetime": "worker", "bytes": 48 * GIB}, worker=name)
    pool = {"used_tokens": 600, "evictable_tokens": 150, "total_tokens": 1000}
    take(picture, 0, "kv_pool", pool, worker=name)
    lines = frame(picture, START, 80, "oomctl top")
    assert max(map(len, lines)) <= 80
    assert "  device 0   [wwwwwwkkkkkkkkkkkkkkkkkk####..] 4.00 GiB free of 80.00 GiB" in lines
    assert "  KV         [##################++++........] used 60%, evictable 15%, free 25%" in lines


def test_an_alert_is_shown_whole() -> None:
    picture = Picture()
    pools(picture, 0.5)
    detail = "http://node-with-a-long-name.example.com:12345/metrics: Connection refused; its last figures are 7 s old"
    take(picture, 1, "collector", {"name": "metrics", "state": "degraded", "detail": detail})
    assert "7 s old" in drawn(picture, 1)
    assert max(map(len, drawn(picture, 1).splitlines())) <= 80


def test_nothing_in_a_name_moves_a_cursor() -> None:
    picture = Picture()
    take(picture, 0, "throughput", {"running_requests": 1}, worker="\x1b[2Jw\n\u202e")
    text = drawn(picture)
    assert "\x1b" not in text and "\u202e" not in text
    assert len(text.splitlines()) == 3


def test_before_anything_is_told() -> None:
    assert "nothing was told yet" in drawn(Picture())


def test_rows_that_say_nothing_of_a_worker() -> None:
    picture = Picture()
    picture.take(make_row("kv_pool", {"used_blocks": 1}, {"ts": None, "worker": "w"}))
    picture.take(make_row("kv_pool", {"used_blocks": 1}, {"ts": START, "worker": None}))
    picture.take(make_row("metric", {"name": "x"}, {"ts": START, "worker": "w"}))
    assert not picture.workers
