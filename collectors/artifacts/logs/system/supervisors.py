"""Who watches processes and says how one ended: shells, systemd, earlyoom, batch systems, Ray, launchers."""

import re

from oomctl.collectors.artifacts.logs.fact import Fact, phase
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.system import ends

_OOM: tuple[tuple[str, Pattern], ...] = (
    ("systemd", Pattern(r"killed by the OOM killer|[Rr]esult[ =:]+'?oom-kill\b|\bresult 'oom")),
    ("systemd_oomd", Pattern(r"systemd-oomd killed \d|\bKilled \S+ due to memory (?:used|pressure)\b")),
    (
        "earlyoom",
        Pattern(
            r"\bsending SIG(?:TERM|KILL) to process (?P<pid>\d{1,10})(?: uid \d+)? [\"'](?P<name>[^\"']{1,64})[\"']"
            r"(?=.*\b(?:badness|oom_score|VmRSS)\b)(?:.*?\bVmRSS:? (?P<rss>\d{1,12}) MiB)?"
        ),
    ),
    ("nohang", Pattern(r"nohang.{0,80}(?:Sending|sending) SIG(?:TERM|KILL) to the victim")),
    (
        "slurm",
        Pattern(
            r"[Dd]etected \d+ oom[-_ ]?kill(?:ed)? event|\bOUT_OF_ME(?:MORY|\+)|task \d+: Out Of Memory"
            r"|[Ee]xceeded (?:job|step) memory limit|exceeded memory limit \(\S+ > \S+\), being killed|oom-kill event"
        ),
    ),
    ("lsf", Pattern(r"TERM_MEMLIMIT")),
    (
        "platform",
        Pattern(
            r"\b[Mm]emory limit of (?P<limit>\d{1,9}) M(?:i?B)? exceeded with (?P<used>\d{1,9}) M(?:i?B)? used"
            r"|\bError R15 \(Memory quota vastly exceeded\)"
        ),
    ),
    ("pbs", Pattern(r"PBS: job killed: (?:v?mem|Cgroup)|Cgroup mem(?:ory)? limit exceeded")),
)  # fmt: skip
_RAY_HINT = Pattern(r"potential root causes|SIGKILL by OOM killer due to high memory usage")
_VANISHED = Pattern(
    r"(?:Worker proc|Engine core proc|Process|Child process|Worker process|Subprocess|Rank|[Ss]cheduler)"
    r"(?: \S{1,80})? died unexpectedly(?! \(exit code: -?\d)"
    r"|\b(?:worker|actor)(?: process)? (?:has )?died unexpectedly|A worker died or was killed"
    r"|worker process has died|A process in the process pool was terminated abruptly"
    r"|[Rr]ank \d+ scheduler is dead|\bWorker unexpectedly exits with a connection error"
)
_MISSED = Pattern(r"\bWorker \(pid:\d{1,10}\) was sent SIGKILL!")
"""gunicorn's arbiter reads a status; what it says is not that it sent the signal."""
_BARE_KILLED = Pattern(r"^(?:\S+: line \d+:\s+\d+ Killed\b.*|(?:zsh: |\[\d+\][+-]?\s+(?:\d+ )?)?[Kk]illed(?:\s{2,}\S.*)?)$")
"""A shell's word, alone or before the command, set off from it by more than one space."""
_EXIT = Pattern(
    r"(?i)(?:\bexit(?:ed|ing|s)?|\bexit_?(?:code|status)|\bdied unexpectedly \(exit code)[\"']?[ :=(]*"
    r"(?:with |unexpectedly )?(?:non-?zero )?(?:exit )?(?:code|status|value)?[\"']?[ :=(]+(-?\d{1,3})\b(?!\.\d|%)"
)
_STATUS = Pattern(r"(?i)\b(?:status|returned)[\"']?[ :=(]+(137|139|135|134)\b")
_ABNORMAL = frozenset({137, 139, 135, 134, 143, 132, -9, -11, -7, -6, -15, -4})
_BY_US = Pattern(r"(?i)\b(?:send(?:ing|s)?|sent|closing|forcefully|via|get|issu\w+)\b.{0,60}\bSIG(?:KILL|TERM|INT)\b")
"""A signal that a program sends to its own children is its shutdown."""
_SIGNAL_9 = Pattern(
    r"code=(?:killed|dumped), status=9|(?:killed|terminated|exited)(?: unexpectedly)?(?: \S+)? (?:by|on|with|due to) "
    r"(?:signal[ :]+9\b|SIGKILL|signal SIGKILL)|signal: killed|signal 9\b|\bSIGKILL\b|\bsignal: 9\b"
)
_SIGNAL_11 = Pattern(r"code=dumped, status=11|(?:killed|terminated|exited).{0,20} (?:by|on|with) signal[ :]+11\b")
_TERMINATED = Pattern(
    r"(?i)\b(?:received|got|caught)\b.{0,30}\b(?:SIGTERM|signal 15|SIGINT|signal 2)\b|\bSIGTERM received\b"
    r"|^KeyboardInterrupt: terminated$|code=(?:killed|exited), status=15/TERM|^Stopping \S.{0,80}\.service"
)
_DIED = Pattern(r"(?:Worker proc|Engine core proc|Process) (\S{1,80}) died unexpectedly \(exit code: (-?\d{1,4})\)")
_RESTART = Pattern(r"Scheduled restart job, restart counter is at (\d+)|Found left-over process|will restart worker group")


def facts(text: str) -> list[Fact]:
    """What a line tells of an end, a restart, or the order to end."""
    for api, pattern in _OOM:
        match = pattern.search(text)
        if match is not None:
            return _oom(api, match, text)
    if _MISSED.search(text) is not None:
        return [ends.killed(text)]
    if _RAY_HINT.search(text) is not None or _VANISHED.search(text) is not None:
        return [ends.vanished(text)]
    died = _DIED.search(text)
    if died is not None:
        return [ends.status(int(died[2]), text)]
    if _RESTART.search(text) is not None:
        return [phase("stopped", f"restart: {text[:480]}")]
    if _TERMINATED.search(text) is not None:
        return [phase("draining", text)]
    if _BARE_KILLED.match(text) is not None:
        return [ends.killed(text)]
    return _exit(text)


def _oom(api: str, match: re.Match[str], text: str) -> list[Fact]:
    named = match.groupdict()
    pid, rss = named.get("pid"), named.get("rss") or named.get("used")
    limit = named.get("limit")
    limits = [Fact("host", {"cgroup_limit_bytes": int(limit) * 2**20})] if limit else []
    return [
        *limits,
        ends.oom_kill(
            api,
            text,
            victim=named.get("name"),
            victim_pid=int(pid) if pid else None,
            own_process_bytes=int(rss) * 2**20 if rss else None,
        ),
    ]


def _exit(text: str) -> list[Fact]:
    """An exit status, or a signal in words."""
    match = _STATUS.search(text) or next((found for found in _EXIT.finditer(text) if int(found[1]) in _ABNORMAL), None)
    if match is not None:
        return [ends.status(int(match[1]), text)]
    if _BY_US.search(text) is not None:
        return []
    if _SIGNAL_9.search(text) is not None:
        return [ends.killed(text)]
    if _SIGNAL_11.search(text) is not None:
        return [ends.crashed("segfault", text)]
    return []
