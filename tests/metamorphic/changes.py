"""Changes to a log that leave its story as it is."""

import json
import re
from collections.abc import Callable

Change = Callable[[str], str]

_SIZE = re.compile(r"(?<![\w./])(\d+(?:\.\d+)?)( ?)(GiB|MiB|KiB|GB|MB|kB)\b")
_PAIR = re.compile(r"\((\d+(?:\.\d+)?)/(\d+(?:\.\d+)?) GiB\)")
_VLLM_TIME = re.compile(r"(?<= )\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? (?=\[|\w+\.py:)")
_SGLANG_TIME = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? ?")
_PID = re.compile(r"\bpid=(\d+)")
_PROCESS = re.compile(r"\bProcess (\d+) has")

_NAMES = (
    ("Qwen", "Zebra"),
    ("DeepSeek", "Heron"),
    ("Llama", "Otter"),
    ("llama-", "otter-"),
    ("/models/", "/srv/m/"),
    ("10.0.0.9", "192.168.77.3"),
)
UNRELATED = (
    'INFO:     10.1.2.3:50500 - "GET /health HTTP/1.1" 200 OK',
    'nginx: 10.1.2.3 - - [30/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 304 0',
    "cron[812]: (root) CMD (run-parts /etc/cron.hourly)",
)
RANK = "(Worker_TP7 pid=70707) INFO 01-01 00:00:00 [pynccl.py:70] vLLM is using nccl==2.27.5"


def scaled(factor: int) -> Change:
    """Every size times a whole factor: the same story on a larger device."""

    def times(number: str) -> str:
        digits = len(number.partition(".")[2])
        return f"{float(number) * factor:.{digits}f}"

    def change(text: str) -> str:
        text = _PAIR.sub(lambda m: f"({times(m[1])}/{times(m[2])} GiB)", text)
        return _SIZE.sub(lambda m: f"{times(m[1])}{m[2]}{m[3]}" if float(m[1]) < 1e9 else m[0], text)

    return change


def renamed(text: str) -> str:
    """Other models, hosts and process ids, each consistently."""
    for old, new in _NAMES:
        text = text.replace(old, new)
    pids: dict[str, str] = {}

    def other(pid: str) -> str:
        return pids.setdefault(pid, str(800_000 + 7 * len(pids)))

    for pattern in (_PID, _PROCESS):
        for found in pattern.findall(text):
            other(found)
    for pid, new in pids.items():
        if len(pid) >= 3:
            text = re.sub(rf"(?<![\d.]){pid}(?![\d.])", new, text)
    return text


def without_times(text: str) -> str:
    """As a logging set-up without time stamps prints it."""
    text = _VLLM_TIME.sub("", text)
    return _SGLANG_TIME.sub("[", text).replace("[] ", "")


def crlf(text: str) -> str:
    """As copied through a Windows terminal."""
    return text.replace("\n", "\r\n")


def prefixed(prefix: str) -> Change:
    """Each line behind a prefix."""

    def change(text: str) -> str:
        return "".join(f"{prefix.replace('%', str(10 + n % 50))}{line}\n" for n, line in enumerate(text.splitlines()))

    return change


def docker_json(text: str) -> str:
    """As Docker's json-file driver keeps it."""
    stamp = "2026-11-30T10:00:00.123456789Z"
    return "".join(json.dumps({"log": f"{line}\n", "stream": "stderr", "time": stamp}) + "\n" for line in text.splitlines())


def coloured(text: str) -> str:
    """As printed to a terminal that was recorded."""
    return re.sub(r"\b(INFO|WARNING|ERROR)\b", "\x1b[32m\\1\x1b[0m", text)


def with_unrelated_lines(text: str) -> str:
    """Lines of others between those of the engine, never inside a record of several lines."""
    lines = text.splitlines()
    out = []
    for n, line in enumerate(lines):
        if n % 3 == 0 and _begins_record(line) and (n == 0 or _begins_record(lines[n - 1])):
            out.append(UNRELATED[n % len(UNRELATED)])
        out.append(line)
    return "\n".join([*out, UNRELATED[0], ""])


def with_another_rank(text: str) -> str:
    """A rank that has nothing to say."""
    return f"{RANK}\n{text}{RANK}\n"


def _begins_record(line: str) -> bool:
    return re.match(r"\(?\w[^)]*pid=\d+\) (?:INFO|ERROR)|(?:INFO|ERROR|WARNING) \d|\[\d{4}-", line) is not None


CHANGES: dict[str, Change] = {
    "scaled 2x": scaled(2),
    "scaled 7x": scaled(7),
    "renamed": renamed,
    "without times": without_times,
    "crlf": crlf,
    "docker compose": prefixed("vllm-1  | "),
    "syslog": prefixed("Nov 30 10:00:% gpu-07 serve[2211]: "),
    "cri": prefixed("2026-11-30T10:00:%.123456789Z stderr F "),
    "invented": prefixed("zz~41> "),
    "docker json": docker_json,
    "docker compose in syslog": lambda text: prefixed("Nov 30 10:00:% gpu-07 dockerd[9]: ")(prefixed("vllm-1  | ")(text)),
    "colours": coloured,
    "unrelated lines": with_unrelated_lines,
    "another rank": with_another_rank,
}
