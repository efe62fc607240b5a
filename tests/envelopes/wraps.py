"""Envelopes: what terminals, container runtimes, journals, shippers and exports make of a line.

Each turns one line into one line, so that the n-th line of a log stays its n-th. Formats: Docker's json-file and Compose
prefixes, CRI logging (Kubernetes design notes), systemd's journalctl -o, RFC 3164 and RFC 5424, klog's header, Ray's
log_to_driver prefixes, exports of Cloud Logging, CloudWatch, Datadog, Elasticsearch, Loki.
"""

import json
import re
from collections.abc import Callable

Wrap = Callable[[int, str], str]
"""From a line's number and the line to the line in its envelope."""


def _clock(n: int) -> str:
    return f"{9 + n // 3600 % 10:02d}:{n // 60 % 60:02d}:{n % 60:02d}"


def _micros(n: int) -> int:
    return 1_796_029_200_000_000 + n * 1_000_137


def before(prefix: str) -> Wrap:
    """A prefix; `%T` is the time of day, `%N` the line's number, `%S` stdout or stderr."""

    def wrap(n: int, line: str) -> str:
        flow = ("stdout", "stderr")[n % 3 == 0]
        return prefix.replace("%T", _clock(n)).replace("%N", str(1000 + n)).replace("%S", flow) + line

    return wrap


def in_json(build: Callable[[int, str], dict[str, object]], *, compact: bool = False) -> Wrap:
    """An object per line; Go's encoder writes no spaces and escapes angle brackets and ampersands."""

    def wrap(n: int, line: str) -> str:
        if not compact:
            return json.dumps(build(n, line), ensure_ascii=False)
        text = json.dumps(build(n, line), ensure_ascii=False, separators=(",", ":"))
        return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

    return wrap


def _coloured(n: int, line: str) -> str:
    line = re.sub(r"^(\(\w+ pid=\d+\))", "\x1b[0;36m\\1\x1b[0;0m", line)
    return re.sub(r"\b(INFO|WARNING|ERROR)\b", "\x1b[1;32m\\1\x1b[0m", line)


def _ray_repeated(n: int, line: str) -> str:
    note = " (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to disable log deduplication.)" if n == 9 else ""
    repeated = f" [repeated {1 + n % 7}x across cluster]{note}" if n % 9 == 0 and line.strip() else ""
    return f"\x1b[36m(ServeReplica:default:LLM pid=400, ip=10.0.0.1)\x1b[0m {line}{repeated}"


def _logfmt(n: int, line: str) -> str:
    return f"ts=2026-11-30T{_clock(n)}.123Z stream=stderr pod=otter-0 msg={json.dumps(line, ensure_ascii=False)}"


def _pretty(n: int, line: str) -> str:
    return f'            "message": {json.dumps(line)},'


PREFIXES: dict[str, Wrap] = {
    "docker compose": before("vllm-1  | "),
    "docker compose, coloured": before("\x1b[33mvllm-1  | \x1b[0m"),
    "docker service": before("otter_llm.1.k2j5x7@gpu-07    | "),
    "docker timestamps": before("2026-11-30T%T.123456789Z "),
    "cri": before("2026-11-30T%T.123456789Z stderr F "),
    "cri, both streams": before("2026-11-30T%T.123456789+01:00 %S F "),
    "kubectl prefix": before("[pod/otter-7d9f8c-x2bqz/vllm] "),
    "kubectl prefix, timestamps": before("[pod/otter-7d9f8c-x2bqz/vllm] 2026-11-30T%T.123456789Z "),
    "stern": before("otter-7d9f8c-x2bqz vllm "),
    "stern, namespace": before("serving otter-7d9f8c-x2bqz › vllm "),
    "journalctl short": before("Nov 30 %T gpu-07 vllm[2211]: "),
    "journalctl short-precise": before("Nov 30 %T.123456 gpu-07 python3[2211]: "),
    "journalctl short-iso": before("2026-11-30T%T+01:00 gpu-07 vllm[2211]: "),
    "journalctl short-iso, old": before("2026-11-30T%T+0100 gpu-07 vllm[2211]: "),
    "journalctl short-full": before("Mon 2026-11-30 %T CET gpu-07 vllm[2211]: "),
    "journalctl short-unix": before("179602%N.123456 gpu-07 vllm[2211]: "),
    "journalctl short-monotonic": before("[   %N.123456] gpu-07 vllm[2211]: "),
    "journalctl export": before("MESSAGE="),
    "rfc 3164": before("<11>Nov 30 %T gpu-07 vllm[2211]: "),
    "rfc 5424": before("<14>1 2026-11-30T%T.003Z gpu-07 vllm 2211 - - "),
    "rfc 5424, structured": before('<14>1 2026-11-30T%T.003Z gpu-07 vllm 2211 ID47 [x@32473 iut="3" src="a b"] '),
    "rsyslog": before("2026-11-30T%T.003412+01:00 gpu-07 vllm[2211]: "),
    "klog": before("E1130 %T.123456   12345 relay.go:12] "),
    "klog, one": before("I1130 %T.123456       1 logs.go:77] "),
    "pm2": before("0|vllm     | "),
    "supervisord": before("2026-11-30 %T,123 DEBG 'vllm' stderr output: "),
    "slurm": before("3: "),
    "mpirun": before("[1,3]<stderr>: "),
    "cloudwatch tail": before("2026-11-30T%T.123000+00:00 vllm/otter/0f1e2d3c4b5a69788796a5b4c3d2e1f0 "),
    "loki": before('2026-11-30T%T+01:00 {app="otter", pod="otter-7d9f8c-x2bqz"} '),
    "grafana download": before("179602%N123000000\t2026-11-30T%T.123Z\t"),
    "heroku": before("2026-11-30T%T.123456+00:00 app[web.1]: "),
    "torchrun": before("[default0]:"),
    "ray, repeated": _ray_repeated,
    "invented": before("zz~41> "),
    "invented, counting": before("<<%N:q>> "),
    "tabs": before("%N\tworker-3\t"),
}

OBJECTS: dict[str, Wrap] = {
    "docker json-file": in_json(
        lambda n, line: {"log": f"{line}\n", "stream": "stderr", "time": f"2026-11-30T{_clock(n)}.123456789Z"}, compact=True
    ),
    "fluentd": in_json(lambda n, line: {"message": line, "container_id": "9f1c", "source": "stderr", "level": "info"}),
    "msg": in_json(lambda n, line: {"ts": _micros(n) / 1e6, "level": "info", "msg": line}, compact=True),
    "fluent bit": in_json(
        lambda n, line: {
            "date": _micros(n) / 1e6,
            "stream": "stderr",
            "log": line,
            "kubernetes": {"pod_name": "otter-7d9f8c-x2bqz", "host": "gpu-07", "labels": {"app": "otter"}},
        }
    ),
    "cloud logging": in_json(
        lambda n, line: {
            "textPayload": line,
            "timestamp": f"2026-11-30T{_clock(n)}.123456789Z",
            "severity": "ERROR",
            "resource": {"type": "k8s_container", "labels": {"pod_name": "otter-0", "node_name": "gpu-07"}},
        }
    ),
    "cloud logging, json": in_json(
        lambda n, line: {"jsonPayload": {"message": line, "stream": "stderr"}, "timestamp": f"2026-11-30T{_clock(n)}Z"}
    ),
    "journald": in_json(
        lambda n, line: {
            "__REALTIME_TIMESTAMP": str(_micros(n)),
            "_HOSTNAME": "gpu-07",
            "SYSLOG_IDENTIFIER": "vllm",
            "PRIORITY": "3",
            "MESSAGE": line,
        }
    ),
    "journald, bytes": in_json(
        lambda n, line: {
            "__REALTIME_TIMESTAMP": str(_micros(n)),
            "MESSAGE": list(line.encode()),
            "_HOSTNAME": "gpu-07",
        },
        compact=True,
    ),
    "body": in_json(lambda n, line: {"timestamp": _micros(n) * 1000, "severityText": "INFO", "body": line}),
    "otel": in_json(
        lambda n, line: {
            "resourceLogs": [
                {
                    "resource": {"attributes": [{"key": "k8s.pod.name", "value": {"stringValue": "otter-0"}}]},
                    "scopeLogs": [
                        {"logRecords": [{"timeUnixNano": str(_micros(n) * 1000), "body": {"stringValue": line}}]}
                    ],
                }
            ]
        },
        compact=True,
    ),
    "event": in_json(lambda n, line: {"time": _micros(n) / 1e6, "host": "gpu-07", "source": "vllm", "event": line}),
    "splunk result": in_json(lambda n, line: {"preview": False, "result": {"_raw": line, "host": "gpu-07"}}),
    "datadog": in_json(
        lambda n, line: {
            "id": "AQAA",
            "content": {"timestamp": f"2026-11-30T{_clock(n)}.123Z", "host": "gpu-07", "message": line},
        }
    ),
    "datadog, v2": in_json(
        lambda n, line: {
            "id": "AQAA",
            "type": "log",
            "attributes": {"status": "error", "timestamp": f"2026-11-30T{_clock(n)}.123Z", "message": line},
        }
    ),
    "elasticsearch": in_json(
        lambda n, line: {"_index": "logs", "_source": {"@timestamp": f"2026-11-30T{_clock(n)}.123Z", "message": line}}
    ),
    "loki jsonl": in_json(
        lambda n, line: {
            "labels": {"app": "otter", "pod": "otter-0"},
            "line": line,
            "timestamp": f"2026-11-30T{_clock(n)}.123+01:00",
        }
    ),
    "cloudwatch": in_json(lambda n, line: {"timestamp": _micros(n) // 1000, "message": line, "ingestionTime": 1}),
    "structlog": in_json(lambda n, line: {"event": line, "level": "error", "timestamp": f"2026-11-30T{_clock(n)}Z"}),
    "pretty-printed": _pretty,
    "logfmt": _logfmt,
}

LEARNED = (
    "stern",
    "stern, namespace",
    "klog",
    "klog, one",
    "supervisord",
    "slurm",
    "invented",
    "invented, counting",
    "tabs",
)
"""Prefixes that only an engine's header, or a traceback, can teach."""

LINES: dict[str, Wrap] = {**PREFIXES, **OBJECTS, "colours": _coloured}


def wrapped(text: str, *names: str) -> str:
    """A log in these envelopes, the innermost first."""
    out = []
    for n, line in enumerate(text.splitlines()):
        for name in names:
            line = LINES[name](n, line)
        out.append(f"{line}\n")
    return "".join(out)
