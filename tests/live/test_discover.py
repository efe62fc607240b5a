"""Workers are found by their processes, grouped by their server, and told apart from those whose server is gone."""

import subprocess
import sys
from pathlib import Path

import pytest

from oomctl.collectors.live.discover.published import of_arguments
from oomctl.collectors.live.discover.signs import sign_of
from oomctl.collectors.live.discover.workers import workers
from tests.live.fakes import FakeHost

CONTAINER = "c" * 64


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    made = FakeHost(tmp_path)
    made.process(1, "/", "/sbin/init", parent=0, environment={})
    made.process(2, parent=0)
    return made


def test_a_server_and_what_belongs_to_it(host: FakeHost) -> None:
    environment = {"CUDA_VISIBLE_DEVICES": "2,3", "OOMCTL_RING": "/dev/shm/r", "HF_TOKEN": "hf_abcdefghijklmnopqrst"}
    group = f"/kubepods/burstable/pod0f0f0f0f-1111-2222-3333-444444444444/{CONTAINER}"
    command = ("/usr/bin/python3", "/usr/bin/vllm", "serve", "m", "--api-key", "sk-topsecret1234567890")
    host.process(100, group, *command, environment=environment, ports=(8000, 5555))
    host.process(101, "/", "VLLM::EngineCore", environment={}, parent=100)
    host.process(102, "/", "VLLM::Worker_TP0", environment={}, parent=101)
    host.process(103, "/", "VLLM::Worker_TP1", environment={}, parent=101)
    host.process(104, "/", "VLLM::Worker_TP9", environment={}, state="Z", parent=103)
    host.process(200, "/", "/usr/bin/postgres", environment={}, ports=(5432,))
    (worker,) = workers(host.proc)
    assert (worker.engine, worker.pid, worker.orphan) == ("vllm", 100, False)
    assert worker.members == {
        100: "/usr/bin/python3",
        101: "VLLM::EngineCore",
        102: "VLLM::Worker_TP0",
        103: "VLLM::Worker_TP1",
    }
    assert worker.ports == (8000,), "only where it listens"
    assert (worker.devices, worker.rings, worker.readable) == ("2,3", "/dev/shm/r", True)
    assert (worker.container, worker.pod) == (CONTAINER, "0f0f0f0f-1111-2222-3333-444444444444")
    assert "secret" not in worker.command and "vllm serve m" in worker.command


def test_two_engines_on_one_node_are_two(host: FakeHost) -> None:
    for base in (100, 200):
        host.process(base, "/", "vllm", "serve", f"model-{base}", environment={}, ports=(8000 + base,))
        host.process(base + 1, "/", "VLLM::EngineCore", environment={}, parent=base)
    found = workers(host.proc)
    assert [(worker.pid, worker.ports, set(worker.members)) for worker in found] == [
        (100, (8100,), {100, 101}),
        (200, (8200,), {200, 201}),
    ]


def test_a_part_without_its_server_is_an_orphan(host: FakeHost) -> None:
    host.process(300, "/", "VLLM::EngineCore", environment={})
    host.process(301, "/", "VLLM::Worker_TP0", environment={}, parent=300)
    host.process(400, "/", "sglang::scheduler_TP0", environment={})
    assert [(worker.engine, worker.pid, worker.orphan, len(worker.members)) for worker in workers(host.proc)] == [
        ("vllm", 300, True, 2),
        ("sglang", 400, True, 1),
    ]


def test_what_runs_inside_a_front_is_named_by_its_engine(host: FakeHost) -> None:
    host.process(500, "/", "/opt/tritonserver/bin/tritonserver", "--model-repository=/m", environment={})
    host.process(501, "/", "/opt/tritonserver/backends/python/triton_python_backend_stub", "x", environment={}, parent=500)
    host.process(502, "/", "VLLM::EngineCore", environment={}, parent=501)
    (worker,) = workers(host.proc)
    assert (worker.engine, worker.pid, worker.orphan) == ("vllm", 500, False)


def test_another_users_worker_is_seen_and_said_to_be_unreadable(host: FakeHost) -> None:
    host.process(600, "/", "/usr/local/bin/llama-server", "-m", "x.gguf")
    (worker,) = workers(host.proc)
    assert (worker.engine, worker.devices, worker.readable) == ("llamacpp", None, False)


@pytest.mark.parametrize(
    ("command", "engine", "part"),
    [
        ("/usr/bin/python3 -m vllm.entrypoints.openai.api_server --model m", "vllm", "server"),
        ("python -m sglang.launch_server --model-path m", "sglang", "server"),
        ("sglang::detokenizer", "sglang", "worker"),
        ("/usr/bin/python3 /usr/local/bin/trtllm-serve m", "trtllm", "server"),
        ("text-generation-launcher --model-id m", "tgi", "server"),
        ("/usr/bin/python3 /opt/bin/text-generation-server serve m", "tgi", "worker"),
        ("/usr/bin/python3 /usr/bin/lmdeploy serve api_server m", "lmdeploy", "server"),
        ("/usr/local/bin/ollama serve", "ollama", "server"),
        ("/usr/local/bin/ollama runner --model /m", "ollama", "worker"),
        ("python3 -m dynamo.vllm --model m", "dynamo", "server"),
        ("VLLM::APIServer_1", "vllm", "server"),
    ],
)
def test_signs(command: str, engine: str, part: str) -> None:
    sign = sign_of(command)
    assert sign is not None and (sign.engine, sign.part) == (engine, part)


@pytest.mark.parametrize(
    "command", ["vim vllm_notes.md", "/usr/bin/python3 train.py", "VLLM", "grep -r sglang", "ollama list", ""]
)
def test_what_is_none(command: str) -> None:
    assert sign_of(command) is None


def test_the_real_proc() -> None:
    code = "import time; print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, "vllm serve tiny"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            found = {worker.pid: worker for worker in workers()}
        finally:
            process.kill()
    assert found[process.pid].engine == "vllm" and found[process.pid].readable


CONFIG = (
    '{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://*:6000", "replay_endpoint": "tcp://*:6100"}'
)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("vllm", "serve", "m", "--kv-events-config", CONFIG), [("tcp://*:6000", "tcp://*:6100")]),
        (
            ("vllm", "serve", "m", f"--kv-events-config={CONFIG}", "--data-parallel-size", "2"),
            [("tcp://*:6000", "tcp://*:6100"), ("tcp://*:6001", "tcp://*:6101")],
        ),
        (
            ("python", "-m", "dynamo.vllm", "--kv_events_config", '{"enable_kv_cache_events": true}'),
            [("tcp://*:5557", None)],
        ),
        (("python", "-m", "sglang.launch_server", "--kv-events-config", '{"publisher": "zmq"}'), [("tcp://*:5557", None)]),
        (("python", "-m", "sglang.launch_server", "--kv-events-config", '{"topic": "t"}'), []),
        (("vllm", "serve", "m", "--kv-events-config", '{"enable_kv_cache_events": false, "publisher": "zmq"}'), []),
        (("vllm", "serve", "m", "--kv-events-config"), []),
        (("vllm", "serve", "m", "--kv-events-config", "[nonsense"), []),
        (("vllm", "serve", "m", "--kv-events-config", '{"publisher": "zmq", "endpoint": 5}'), []),
        (("vllm", "serve", "m"), []),
    ],
)
def test_where_kv_events_are_published_is_in_the_arguments(
    arguments: tuple[str, ...], expected: list[tuple[str, str | None]]
) -> None:
    assert of_arguments(arguments) == expected


def test_a_workers_arguments_tell_for_all_its_processes(host: FakeHost) -> None:
    host.process(700, "/", "python3", "-m", "dynamo.vllm", "--kv-events-config", CONFIG, environment={})
    host.process(701, "/", "VLLM::EngineCore", environment={}, parent=700)
    (worker,) = workers(host.proc)
    assert (worker.engine, worker.published) == ("vllm", (("tcp://*:6000", "tcp://*:6100"),))
