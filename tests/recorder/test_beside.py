"""A worker that nothing prepared: its page is scraped into the recording, and what is seen from outside is told."""

import contextlib
import http.server
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from oomctl.targets import find, kv_sources
from tests.cli.run import oomctl

PAGE = """# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{engine="0"}} {usage}
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0"}} 3
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{{engine="0"}} {preemptions}
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{{block_size="16",engine="0",num_gpu_blocks="101"}} 1
"""
SOURCES = {
    "0": {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": "tcp://*:5557",
        "replay_endpoint": "tcp://*:5558",
    },
    "1": {"enable_kv_cache_events": False, "publisher": "null", "endpoint": "tcp://*:5557"},
}


class Server(http.server.ThreadingHTTPServer):
    """A vLLM server's outside."""

    usage, preemptions, sources = 0.5, 0, "{}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        page = PAGE.format(usage=self.server.usage, preemptions=self.server.preemptions)
        body = (self.server.sources if self.path == "/kv_event_sources" else page).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def address(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


@contextlib.contextmanager
def attached(*words: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "oomctl", "attach", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def rows(folder: Path, sql: str) -> list[dict[str, object]]:
    ran = oomctl("query", str(folder), "-c", sql, "--json")
    found: list[dict[str, object]] = json.loads(ran.out) if ran.code == 0 and ran.out else []
    return found


def until(folder: Path, sql: str) -> list[dict[str, object]]:
    for _ in range(120):
        if (folder / "live").is_dir() and (found := rows(folder, sql)):
            return found
        time.sleep(0.2)
    raise AssertionError(f"never came: {sql}")


def test_attach_to_an_address(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "rec"
    with attached(address(server), "-o", str(folder), "--scrape", "1s") as process:
        (first,) = until(folder, "SELECT used_blocks, free_blocks, quality FROM kv_pool WHERE used_blocks = 50 LIMIT 1")
        assert first == {"used_blocks": 50, "free_blocks": 50, "quality": "derived"}
        server.usage, server.preemptions = 1.0, 7
        until(folder, "SELECT 1 FROM kv_pool WHERE usage_ratio = 1.0 AND preempted_requests = 7")
        server.preemptions = 0
        until(folder, "SELECT 1 FROM kv_pool WHERE incarnation LIKE '%#2'")
        server.shutdown()
        server.server_close()
        until(folder, "SELECT 1 FROM collector WHERE state = 'degraded' AND detail LIKE '%its last figures are%'")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert "recording a worker elsewhere" in process.stderr.read()
    workers = rows(folder, "SELECT DISTINCT worker, node, source FROM events WHERE source = 'prometheus'")
    assert workers == [{"worker": address(server).removeprefix("http://"), "node": "127.0.0.1", "source": "prometheus"}]


def test_a_worker_is_found_by_its_pid_and_its_page_by_its_ports(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, '.'); from tests.recorder.test_beside import *; "
        "s = Server(('127.0.0.1', 0), Handler); s.sources = json.dumps(SOURCES); "
        "print(address(s), flush=True); s.serve_forever()"
    )
    command = [sys.executable, "-c", code, "vllm serve tiny"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stdout is not None
            page = worker.stdout.readline().strip()
            target = find(str(worker.pid))
            assert (target.pid, target.metrics) == (worker.pid, f"{page}/metrics")
            assert target.kv_events == (("tcp://127.0.0.1:5557", "tcp://127.0.0.1:5558"),)
            assert find(page).pid == worker.pid
            listed = json.loads(oomctl("attach", "--json").out)
            assert [row["state"] for row in listed if row["pid"] == worker.pid] == ["runs"]
        finally:
            worker.kill()


def test_kv_sources_of_what_answers_nonsense(server: Server) -> None:
    for body in ("[]", '{"0": 3}', '{"0": {"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": 5}}', "<html>"):
        server.sources = body
        assert kv_sources(f"{address(server)}/metrics") == ()


@pytest.mark.parametrize("word", ["nonsense", "-5", "ftp://x", "http://h:99999"])
def test_neither_a_pid_nor_a_url(word: str, tmp_path: Path) -> None:
    ran = oomctl("attach", "-o", str(tmp_path / "rec"), "--", word)
    assert ran.code == 2 and "Traceback" not in ran.err
    assert not (tmp_path / "rec").exists()
