"""Real failures: recorded, frozen, and triaged from the incident file alone, without the engine's log."""

import json
import os
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cgroups import memory_cgroup
from tests.cli.run import oomctl
from tests.engine import load
from tests.engine.recorded import PHASE_S, Life, recorded, until, with_agent
from tests.engine.recording import Recording
from tests.engine.server import Server

pytestmark = pytest.mark.slow

MIB = 1 << 20


@pytest.fixture
def live(engine: Path, model: Path, agent_site: Path, tmp_path: Path) -> Any:
    """Starts an engine and its recorder."""

    def start(**options: Any) -> Any:
        return recorded(engine, model, agent_site, tmp_path, **options)

    return start


def shaped(**overrides: int) -> tuple[str, ...]:
    """Arguments for a model of another shape, with made-up weights."""
    return ("--load-format", "dummy", "--hf-overrides", json.dumps(overrides))


def assert_told(
    found: dict[str, Any], verdict: str | None, oom_class: str | None, resource: str | None, *, survived: bool | None
) -> None:
    said = found["verdict"], found["class"], found["resource"], found["survived"]
    assert said == (verdict, oom_class, resource, survived), found


def rows_of(recording: Path, sql: str) -> list[dict[str, Any]]:
    result = oomctl("query", str(recording), "-c", sql, "--json")
    assert result.code == 0, result.err
    return list(json.loads(result.out))


def ended(life: Life) -> None:
    until(lambda: life.server.process.poll() is not None, PHASE_S)


def test_weights_that_do_not_fit_are_load_time(live: Any) -> None:
    # 1.5 GiB of weights against 500 MiB.
    with live(arguments=shaped(intermediate_size=524_288)) as life:
        life.limit("worker", 500 * MIB, "spawned")
        ended(life)
        assert_told(life.verdict(), "oom", "load_time", "host", survived=False)


def test_a_warm_up_that_does_not_fit_is_warm_up(live: Any) -> None:
    # The weights and the queues between the processes fit into 800 MiB, the KV pool of 2 GiB does not.
    with live(kv_blocks=65_536) as life:
        life.limit("worker", 800 * MIB, "loading")
        ended(life)
        assert_told(life.verdict(), "oom", "warm_up", "host", survived=False)


def test_prompt_logprobs_of_a_long_prompt_are_a_prefill_spike(live: Any) -> None:
    # The logits of 900 positions over 200,000 words are 686 MiB.
    with live(arguments=(*shaped(vocab_size=200_000), "--max-num-batched-tokens", "1024")) as life:
        life.server.wait_ready()
        life.limit("worker", 300 * MIB, "ready")
        body = {
            "model": "tiny",
            "prompt": " ".join(f"w{n % 496}" for n in range(900)),
            "max_tokens": 4,
            "prompt_logprobs": 1,
        }
        request = urllib.request.Request(
            f"{life.server.url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with pytest.raises(OSError):
            urllib.request.urlopen(request, timeout=240).read()
        ended(life)
        assert_told(life.verdict(), "oom", "prefill_spike", "host", survived=False)


def test_a_small_pool_with_long_outputs_is_decode_growth(live: Any) -> None:
    with live(kv_blocks=24) as life:
        life.server.wait_ready()
        outcomes = load.run(life.server.port, load.wishes(16, 300, seed=4))
        assert {outcome.state for outcome in outcomes} == {"finished"}
        until(life.incidents)
        assert_told(life.verdict(), "oom", "decode_growth", "kv_blocks", survived=True)


def test_old_and_new_in_one_cgroup_until_the_kernel_kills_one_is_recovery(
    live: Any, engine: Path, model: Path, agent_site: Path, tmp_path: Path
) -> None:
    # 1.5 GiB of weights against 600 MiB; the old one stays, as when a server that is replaced does not end.
    with memory_cgroup(16 << 30) as cgroup:
        environment = with_agent(tmp_path, agent_site)
        old = Server(engine, model, tmp_path / "old.log", environment=environment, limits=cgroup.command)
        with old, live(arguments=shaped(intermediate_size=524_288), limits=cgroup.command) as life:
            life.wait_for("worker", "lifecycle", "phase", "loading")
            cgroup.limit(cgroup.used_bytes + 600 * MIB)
            ended(life)
            found = life.verdict()
            assert old.process.poll() is None, "the old one outlives it"
        assert_told(found, "oom", "recovery", "host", survived=False)
        assert "earlier_incarnation" in [cause["cause"] for cause in found["causes"]]
        told = {row["api"] for row in life.rows("SELECT api FROM oom WHERE error_type = 'oom_kill'")}
        assert told <= {"kernel", "kernel_cgroup", "cgroup"} and len(told) == 1, "one kill is told once"


def test_a_kill_without_the_kernels_word_stays_undetermined(live: Any) -> None:
    # A pool that holds the whole load: a preemption would be an incident of its own.
    with live(kv_blocks=512) as life:
        life.server.wait_ready()
        load.start(life.server.port, load.wishes(12, 900, seed=3))
        until(lambda: len(list(Recording.read(life.rings, final=False).of("core", "step"))) > 20)
        os.kill(life.server.pid_of("Worker"), signal.SIGKILL)
        ended(life)
        found = life.verdict()
        # Where the recorder could watch for a kill for memory, it saw none: then host memory is no guess either.
        looked = life.rows("SELECT 1 FROM collector WHERE name IN ('kernel_log', 'kill_count') AND state = 'ok'")
        assert_told(found, None, None, None if looked else "host", survived=False)
        assert found["confidence"] < 0.6
        assert found["missing"]


def test_a_start_that_fails_where_nothing_is_wrapped_is_an_incident(live: Any) -> None:
    # The worker looks for this class after the agent came, and before anything that the agent wraps is there.
    with live(arguments=("--worker-extension-cls", "nowhere.Nothing")) as life:
        ended(life)
        life.end()
        (incident,) = life.incidents()
        faults = rows_of(incident, "SELECT rank_name, code, detail, fatal FROM fault ORDER BY ts, seq")
        for process in ("VllmWorker-0", "EngineCore"):
            exception, dead = (fault for fault in faults if fault["rank_name"] == process)
            assert (exception["code"], dead["code"], dead["fatal"]) == ("exception", "engine_dead", True)
        assert "nowhere" in faults[0]["detail"]
        assert_told(life.verdict(), "not_oom", None, None, survived=False)


def test_an_orderly_end_is_no_incident(live: Any) -> None:
    with live() as life:
        life.server.wait_ready()
        assert {outcome.state for outcome in load.run(life.server.port, load.wishes(8, 30, seed=5))} == {"finished"}
        life.end()
        assert life.incidents() == []
