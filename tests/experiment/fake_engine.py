"""A stand-in for an engine's server: a pool of KV blocks, a speed, a prefix cache, and vLLM's names on its page.

    python fake_engine.py --port PORT [--blocks N] [--block-size B] [--tpot S] [--prefill-rate TOKENS_PER_S] [...]

Requests hold blocks while they run, and more as they grow. Each output token of a request takes `--tpot` seconds, times the
requests that run over `--parallel`, where those are more. One that finds no block free preempts the one that came last.
"""

import argparse
import json
import os
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Engine:
    """The figures, under one lock."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.blocks = options.blocks - 1
        self.used = 0
        self.running = self.waiting = self.preempted = self.queries = self.hits = self.answered = 0
        self.order: list[Any] = []
        self.cache: set[tuple[int, ...]] = set()
        self.leaked: list[bytes] = []

    def blocks_of(self, tokens: int) -> int:
        return -(-tokens // int(self.options.block_size))

    def enter(self, request: dict[str, Any], prompt: tuple[int, ...]) -> int:
        """Wait for room, then hold the prompt's blocks; returns the tokens that were not found in the cache."""
        need = self.blocks_of(len(prompt))
        with self.changed:
            self.waiting += 1
            while self.blocks - self.used < need or self.running >= self.options.max_num_seqs:
                self.changed.wait(0.5)
            self.waiting -= 1
            self.running += 1
            self.used += need
            request["held"] = need
            self.order.append(request)
            size = self.options.block_size
            ends = range(size, len(prompt) // size * size + 1, size)
            found = 0
            if self.options.prefix_caching:
                found = max((end for end in ends if prompt[:end] in self.cache), default=0)
                self.cache.update(prompt[:end] for end in ends)
                self.queries += len(prompt)
                self.hits += found
            return len(prompt) - found

    def grow(self, request: dict[str, Any], tokens: int) -> None:
        """Hold what a sequence of so many tokens needs; without room the last that came gives way, and begins anew."""
        with self.changed:
            while (more := self.blocks_of(tokens) - request["held"]) > self.blocks - self.used:
                if not request["held"]:
                    self.changed.wait(0.05)
                    continue
                victim = next(other for other in reversed(self.order) if other["held"])
                self.preempted += 1
                self.used -= victim["held"]
                victim["held"] = 0
                victim["again"] = True
            request["held"] += more
            self.used += more

    def leave(self, request: dict[str, Any]) -> None:
        with self.changed:
            self.used -= request["held"]
            self.running -= 1
            self.order = [other for other in self.order if other is not request]
            self.answered += 1
            if self.options.leak_bytes:
                self.leaked.append(os.urandom(64) * (self.options.leak_bytes // 64))
            if self.answered == self.options.dies_after:
                os.kill(os.getpid(), signal.SIGKILL)
            self.changed.notify_all()

    def pace_s(self) -> float:
        with self.lock:
            return float(self.options.tpot * max(1.0, self.running / self.options.parallel))

    def page(self) -> str:
        with self.lock:
            labels = '{engine="0",model_name="fake"}'
            free = self.options.free_floor if self.answered >= self.options.starved_after else self.blocks - self.used
            info = f'block_size="{self.options.block_size}",engine="0",num_gpu_blocks="{self.options.blocks}"'
            return "".join(
                f"# TYPE {name} {kind}\n{name}{suffix}{given} {value}\n"
                for name, suffix, given, value, kind in (
                    ("vllm:cache_config_info", "", "{" + info + "}", 1.0, "gauge"),
                    ("vllm:kv_cache_usage_perc", "", labels, 1 - free / self.blocks, "gauge"),
                    ("vllm:num_requests_running", "", labels, self.running, "gauge"),
                    ("vllm:num_requests_waiting", "", labels, self.waiting, "gauge"),
                    ("vllm:num_preemptions", "_total", labels, self.preempted, "counter"),
                    ("vllm:prefix_cache_queries", "_total", labels, self.queries, "counter"),
                    ("vllm:prefix_cache_hits", "_total", labels, self.hits, "counter"),
                )
            )


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: Engine

    def log_message(self, *words: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self.say(self.engine.page().encode(), "text/plain")
        elif self.path == "/health":
            self.say(b"", "text/plain")
        elif self.path == "/v1/models":
            models = {"data": [{"id": "fake", "max_model_len": self.engine.options.max_model_len}]}
            self.say(json.dumps(models).encode(), "application/json")
        else:
            self.send_error(404)

    def say(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.engine.options.refuses:
            self.send_error(500)
            return
        prompt, request = tuple(asked["prompt"]), {"again": False, "held": 0}
        computed = self.engine.enter(request, prompt)
        try:
            time.sleep(computed / self.engine.options.prefill_rate)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for number in range(asked["max_tokens"]):
                if request["again"]:
                    request["again"] = False
                    time.sleep(len(prompt) / self.engine.options.prefill_rate)
                self.engine.grow(request, len(prompt) + number + 1)
                time.sleep(self.engine.pace_s())
                self.event(
                    {"id": "c", "object": "text_completion", "model": "fake", "choices": [{"index": 0, "text": "w"}]}
                )
            usage = {"prompt_tokens": len(prompt), "completion_tokens": asked["max_tokens"]}
            self.event({"id": "c", "object": "text_completion", "model": "fake", "choices": [], "usage": usage})
            self.chunk(b"data: [DONE]\n\n")
            self.chunk(b"")
        except OSError:
            self.close_connection = True
        finally:
            self.engine.leave(request)

    def event(self, content: dict[str, Any]) -> None:
        self.chunk(b"data: " + json.dumps(content).encode() + b"\n\n")

    def chunk(self, content: bytes) -> None:
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--blocks", type=int, default=401)
    parser.add_argument("--block-size", type=int, default=16)
    parser.add_argument("--max-model-len", type=int, default=256)
    parser.add_argument("--max-num-seqs", type=int, default=64)
    parser.add_argument("--tpot", type=float, default=0.002)
    parser.add_argument("--parallel", type=float, default=8.0)
    parser.add_argument("--prefill-rate", type=float, default=50_000.0)
    parser.add_argument("--no-prefix-caching", dest="prefix_caching", action="store_false")
    parser.add_argument("--dies-after", type=int, default=-1, help="answers")
    parser.add_argument("--starved-after", type=int, default=1 << 60, help="answers, then its page tells --free-floor")
    parser.add_argument("--free-floor", type=int, default=1)
    parser.add_argument("--leak-bytes", type=int, default=0)
    parser.add_argument("--refuses", action="store_true")
    parser.add_argument("--start-s", type=float, default=0.0)
    options = parser.parse_args()
    time.sleep(options.start_s)
    Handler.engine = Engine(options)
    server = Server(("127.0.0.1", options.port), Handler)
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
    server.serve_forever()


if __name__ == "__main__":
    main()
