"""The harness itself: a server that serves, a load that knows what it asked for."""

from pathlib import Path

from tests.engine import load
from tests.engine.server import Server


def test_a_server_serves_and_ends(engine: Path, model: Path, tmp_path: Path) -> None:
    with Server(engine, model, tmp_path / "server.log") as server:
        outcomes = load.run(server.port, load.wishes(12, 30, seed=1, hang_up_ratio=0.3))
        assert server.pid_of("EngineCore") != server.pid_of("Worker")
        metrics = server.metrics()
    states = [outcome.state for outcome in outcomes]
    assert states == ["finished" if outcome.wish.hang_up_after is None else "hung_up" for outcome in outcomes]
    assert "hung_up" in states
    for outcome in outcomes:
        if outcome.state == "finished":
            assert (outcome.output_tokens, outcome.prompt_tokens) == (30, 84)
    assert metrics["vllm:prompt_tokens_total"] >= 84 * states.count("finished")
    assert server.process.returncode == 0
