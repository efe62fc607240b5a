"""A stand-in for aiperf's program, which is 1.2 GB: it takes the options that the adapter gives, replays a trace of
payloads at its times, and writes profile_export.jsonl as aiperf 0.13.0 does. The real one is tried in tests/engine.
"""

import argparse
import http.client
import json
import random
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["profile"])
    for option in ("--model", "--url", "--endpoint-type", "--custom-dataset-type", "--input-file", "--tokenizer",
                   "--export-level", "--artifact-dir", "--ui", "--random-seed", "--connection-reuse-strategy"):  # fmt: skip
        parser.add_argument(option, required=True)
    for option in (
        "--streaming",
        "--fixed-schedule",
        "--use-server-token-count",
        "--no-server-metrics",
        "--no-gpu-telemetry",
    ):
        parser.add_argument(option, action="store_true", required=True)
    parser.add_argument("--request-cancellation-rate", type=float, default=0.0)
    parser.add_argument("--request-cancellation-delay", type=float, default=0.0)
    options = parser.parse_args()
    sessions: dict[str, list[dict[str, Any]]] = {}
    for line in Path(options.input_file).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        sessions.setdefault(row["session_id"], []).append(row)
    out = Path(options.artifact_dir)
    out.mkdir(parents=True)
    with (out / "profile_export.jsonl").open("w", encoding="utf-8") as file:
        lock = threading.Lock()
        rng = random.Random(int(options.random_seed))

        def write(record: dict[str, Any]) -> None:
            with lock:
                file.write(json.dumps(record) + "\n")
                file.flush()

        begun_ns = time.time_ns()
        threads = []
        for turns in sessions.values():
            hangs_up = [rng.random() * 100 < options.request_cancellation_rate for _ in turns]
            delay_s = options.request_cancellation_delay
            words = (options.url, turns, hangs_up, delay_s, begun_ns, write)
            threads.append(threading.Thread(target=session, args=words, daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join()


def session(url: str, turns: list[dict[str, Any]], hangs_up: list[bool], delay_s: float, begun_ns: int, write: Any) -> None:
    for place, (row, hang_up) in enumerate(zip(turns, hangs_up, strict=True)):
        due_s = begun_ns / 1e9 + row["timestamp"] / 1000 - time.time() if "timestamp" in row else row["delay"] / 1000
        time.sleep(max(0.0, due_s))
        record = ask(url, row, delay_s if hang_up else None)
        record["metadata"] |= {"conversation_id": row["session_id"], "turn_index": place}
        write(record)


def ask(url: str, row: dict[str, Any], hang_up_s: float | None) -> dict[str, Any]:
    parts = urlsplit(url)
    started_ns = time.time_ns()
    told: dict[str, Any] = {"credit_issued_ns": started_ns, "request_start_ns": started_ns, "was_cancelled": False}
    metrics: dict[str, Any] = {}
    error = None
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        connection.request("POST", "/v1/completions", json.dumps(row["payload"]), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError(f"status {answer.status}")
        for line in answer:
            if hang_up_s is not None and time.time_ns() - started_ns > hang_up_s * 1e9:
                told["was_cancelled"] = True
                error = {"code": 499, "type": "RequestCancellationError", "message": "cancelled"}
                break
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if event["choices"] and "time_to_first_token" not in metrics:
                metrics["time_to_first_token"] = {"value": (time.time_ns() - started_ns) / 1e6, "unit": "ms"}
            if event.get("usage"):
                metrics["usage_completion_tokens"] = {"value": event["usage"]["completion_tokens"], "unit": "tokens"}
    except (OSError, http.client.HTTPException) as failure:
        error = {"type": type(failure).__name__, "message": str(failure)}
    finally:
        connection.close()
    told["request_end_ns"] = time.time_ns()
    return {"metadata": told, "metrics": metrics} | ({} if error is None else {"error": error})


if __name__ == "__main__":
    main()
