"""What the agent records of a real engine, against what the load generator did and what the engine itself counts."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engine import load
from tests.engine.recording import Recording
from tests.engine.server import BLOCK_TOKENS, Server

PROMPT_TOKENS = 84
KV_BLOCKS = 24


@dataclass
class Run:
    """One engine's life: a load without cancels, then one with, then an orderly end."""

    calm: list[load.Outcome]
    calm_recording: Recording
    calm_metrics: dict[str, float]
    rough: list[load.Outcome]
    recording: Recording
    metrics: dict[str, float]


def quiet_metrics(server: Server) -> dict[str, float]:
    """The engine's own counters once nothing runs and they stand still: its stat logger lags."""
    before: dict[str, float] = {}
    for _ in range(100):
        now = server.metrics()
        busy = now["vllm:num_requests_running"] + now["vllm:num_requests_waiting"]
        names = [name for name in now if name.startswith("vllm:") and name.endswith("_total")]
        if not busy and before and all(before.get(name) == now[name] for name in names):
            return now
        before = now
        time.sleep(0.3)
    raise AssertionError("the engine did not come to rest")


@pytest.fixture(scope="module")
def run(engine: Path, model: Path, agent_site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("agent")
    rings = folder / "rings"
    rings.mkdir()
    environment = {"OOMCTL_RING": str(rings), "OOMCTL_TRACKED_REQUESTS": "0", "PYTHONPATH": str(agent_site)}
    with Server(engine, model, folder / "server.log", kv_blocks=KV_BLOCKS, environment=environment) as server:
        calm = load.run(server.port, load.wishes(16, 100, seed=1))
        calm_metrics = quiet_metrics(server)
        calm_recording = Recording.read(rings, final=False)
        rough = load.run(server.port, load.wishes(24, 60, seed=2, hang_up_ratio=0.6))
        metrics = quiet_metrics(server)
    yield Run(calm, calm_recording, calm_metrics, rough, Recording.read(rings), metrics)


def test_nothing_was_lost(run: Run) -> None:
    assert run.recording.losses() == {"overwritten": 0, "torn": 0, "unknown": 0, "dropped": 0, "errors": 0}
    states = {record["state"] for role in ("core", "worker") for record in run.recording.of(role, "collector")}
    assert states == {"ok"}


def test_at_every_step_allocated_minus_freed_is_the_pools_own_count(run: Run) -> None:
    steps = [step["step_id"] for step in run.recording.of("core", "step")]
    pools = list(run.recording.of("core", "kv_pool"))
    assert steps == list(range(1, len(steps) + 1))
    assert len(pools) == len(steps) > 100
    assert all(pool["allocated_blocks"] - pool["freed_blocks"] == pool["used_blocks"] for pool in pools)
    assert all(pool["free_blocks"] + pool["used_blocks"] == pool["total_blocks"] == KV_BLOCKS - 1 for pool in pools)
    assert max(pool["used_blocks"] for pool in pools) >= KV_BLOCKS - 3, "the load was to fill the pool"
    assert pools[-1]["used_blocks"] == 0


def test_every_request_begins_and_gives_all_its_blocks_back(run: Run) -> None:
    requests = run.recording.requests()
    assert len(requests) == len(run.calm) + len(run.rough)
    for events in requests.values():
        names = [event["event"] for event in events]
        assert names[0] == "queued"
        assert names[-2] in ("finished", "cancelled")
        assert names[-1] == "blocks_freed"
        assert sum(event["kv_blocks_delta"] for event in events) == 0
        assert events[-1]["kv_blocks"] == 0
        held = 0
        for event in events:
            held += event["kv_blocks_delta"]
            assert event["kv_blocks"] == held >= 0
            if event["event"] in ("admitted", "blocks_changed", "resumed", "first_token"):
                room = held * BLOCK_TOKENS
                assert room - BLOCK_TOKENS < event["computed_tokens"] <= room, "no block is seen late"
        took = [event["event"] for event in events if event["kv_blocks_delta"] > 0]
        assert took[:1] in ([], ["admitted"]), "its blocks begin at its admission"
        if "preempted" in names and names[-2] == "finished":
            assert names.count("resumed") == names.count("preempted")


def test_requests_are_those_of_the_load_generator(run: Run) -> None:
    requests = run.recording.requests()
    lost_races = 0
    for outcome in run.calm + run.rough:
        (events,) = [found for name, found in requests.items() if f"{outcome.wish.name}-" in name]
        ends = {event["event"] for event in events} & {"finished", "cancelled"}
        assert {event["prompt_tokens"] for event in events} == {PROMPT_TOKENS}
        assert {event["max_output_tokens"] for event in events} == {outcome.wish.output_tokens}
        if outcome.state == "finished":
            assert ends == {"finished"}
            assert events[-1]["output_tokens"] == outcome.output_tokens == outcome.wish.output_tokens
        else:
            assert outcome.state == "hung_up"
            # A client can hang up when the last token is already made.
            lost_races += ends == {"finished"}
            assert len(ends) == 1
    hung_up = sum(outcome.state == "hung_up" for outcome in run.rough)
    names = [event["event"] for events in requests.values() for event in events]
    assert hung_up > 5
    assert names.count("cancelled") == hung_up - lost_races
    assert names.count("finished") == len(requests) - hung_up + lost_races


def test_totals_are_the_engines_own(run: Run) -> None:
    pool = list(run.calm_recording.of("core", "kv_pool"))[-1]
    ours, own = run.calm_recording.requests(), run.calm_metrics
    events = [event for events in ours.values() for event in events]
    preempted = [event for event in events if event["event"] == "preempted"]
    assert pool["preempted_requests"] == own["vllm:num_preemptions_total"] == len(preempted) > 0
    assert pool["prefix_hit_tokens"] == own["vllm:prefix_cache_hits_total"] > 0
    admitted = [event for event in events if event["event"] == "admitted"]
    assert sum(event["cached_tokens"] for event in admitted) == pool["prefix_hit_tokens"]
    finished = [event for event in events if event["event"] == "finished"]
    assert len(finished) == own["vllm:request_success_total"] == len(run.calm)
    assert sum(event["output_tokens"] for event in finished) == own["vllm:generation_tokens_total"]
    assert 0 < pool["recomputed_tokens"] <= pool["preempted_tokens"]
    # The engine does not count what was aborted as an end of any kind.
    ends = [event["event"] for events in run.recording.requests().values() for event in events]
    assert run.metrics["vllm:request_success_total"] == ends.count("finished")


def test_steps_add_up_to_what_was_computed(run: Run) -> None:
    steps = list(run.calm_recording.of("core", "step"))
    pool = list(run.calm_recording.of("core", "kv_pool"))[-1]
    prompts = PROMPT_TOKENS * len(run.calm) - pool["prefix_hit_tokens"]
    outputs = sum(outcome.wish.output_tokens - 1 for outcome in run.calm)  # the last one is never fed back
    computed = sum(step["prefill_tokens"] + step["decode_tokens"] for step in steps)
    assert computed == prompts + outputs + pool["recomputed_tokens"]
    assert sum(step["cached_tokens"] for step in steps) == pool["prefix_hit_tokens"]
    assert max(step["running_requests"] for step in steps) > 2
    assert all(step["duration_us"] > 0 for step in steps)
    seen_by_worker = list(run.calm_recording.of("worker", "step"))
    assert sum(step["prefill_tokens"] for step in seen_by_worker) == sum(step["prefill_tokens"] for step in steps)


def test_the_delay_of_a_cancel_is_on_record(run: Run) -> None:
    asked = {event["request_id"]: event["monotonic_ns"] for event in run.recording.of("api_server", "request")}
    delays_ms = []
    for name, events in run.recording.requests().items():
        if events[-2]["event"] == "cancelled":
            (key,) = [key for key in asked if name.startswith(key)]
            assert asked[key] <= events[-2]["monotonic_ns"] <= events[-1]["monotonic_ns"]
            delays_ms.append((events[-1]["monotonic_ns"] - asked[key]) / 1e6)
    assert delays_ms
    print(f"from hang-up seen to blocks back: {min(delays_ms):.1f} to {max(delays_ms):.1f} ms, {len(delays_ms)} cancels")


def test_the_workers_life_is_on_record(run: Run) -> None:
    phases = [record["phase"] for record in run.recording.of("worker", "lifecycle")]
    assert phases[:5] == ["spawned", "loading", "weights_loaded", "profiling", "kv_allocated"]
    assert phases[5:8] == ["compiling", "ready", "serving"]
    (pool,) = (memory for memory in run.recording.of("worker", "memory") if memory["component"] == "kv_pool")
    assert pool["bytes"] == KV_BLOCKS * 32 * 1024
    assert [graph["mode"] for graph in run.recording.of("worker", "graph")] == ["eager"]
    assert all(host["rss_bytes"] > 10**7 for host in run.recording.of("worker", "host"))
    arguments = {row["key"]: row["value"] for row in run.recording.of("core", "manifest")}
    assert (arguments["max_num_seqs"], arguments["enforce_eager"], arguments["name"]) == ("16", "True", "vllm")


def test_an_orderly_end_is_told_from_a_death(run: Run) -> None:
    headers = [header for header, _ in run.recording.rings.values()]
    assert {header.role for header in headers} == {"api_server", "core", "worker"}
    assert len({header.incarnation for header in headers}) == 1
    assert not any(header.is_alive() for header in headers)
    # The API server kills the others before they could close theirs, and says so first.
    assert all(header.closed for header in run.recording.headers("api_server"))
    phases = [record["phase"] for record in run.recording.of("api_server", "lifecycle")]
    assert phases == ["spawned", "draining", "stopped"]
    assert [fault for role in ("api_server", "core", "worker") for fault in run.recording.of(role, "fault")] == []
