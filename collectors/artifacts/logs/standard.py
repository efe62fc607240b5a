"""Outer prefixes that a specification or a tool fixes: they need no line with an engine's header to be learned from.

Sources: Kubernetes' CRI logging format, RFC 3164 and RFC 5424, systemd's journalctl --output, the prefixes of kubectl,
docker compose, pm2, torchrun, mpirun and dmesg, exports of CloudWatch and Grafana Loki. klog's is learned, as Triton's own
header is one.
"""

import re
from dataclasses import dataclass

_STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)"
_HOST = r"(?P<node{0}>[\w.-]{{1,253}})"
_TAG = r"[\w./@()-]{1,80}(?:\[\d{1,10}\])?:"
_DATA = r'(?:-|(?:\[[^\]"]*(?:"[^"]*"[^\]"]*)*\])+)'
_UPTIME = r"\[ *\d{1,9}\.\d{6}\]"
_LEVEL = r"[ |:-]*(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)\b"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_CLOCK = r"\d\d:\d\d:\d\d(?:\.\d{1,9})?"

_FORMATS = (
    rf"{_STAMP} (?P<flow>stdout|stderr) (?P<part>[FP])(?::\w+)*",
    rf"<\d{{1,3}}>\d (?:-|{_STAMP}) {_HOST.format(0)} \S{{1,48}} \S{{1,128}} \S{{1,32}} {_DATA}",
    rf"(?:<\d{{1,3}}>)?{_MONTH} [ \d]?\d {_CLOCK} {_HOST.format(1)} {_TAG}",
    rf"(?:{_DAY} \d{{4}}-\d\d-\d\d {_CLOCK} [A-Z]{{1,5}}|\d{{10}}\.\d{{6}}|{_UPTIME}) {_HOST.format(2)} {_TAG}",
    # Without its number a tag could be the first words of a line behind a container's time stamp.
    rf"{_STAMP} {_HOST.format(4)} (?:kernel|[\w./@()-]{{1,80}}\[\d{{1,10}}\]):",
    rf"{_STAMP} [\w.-]{{1,80}}\[[\w.]{{1,80}}\]:",
    rf"\[(?:pod/)?(?P<pod>[\w.-]{{1,253}})[/:][\w.-]{{1,63}}\](?: {_STAMP})?",
    rf"{_UPTIME}(?=\s)",
    rf"\[{_DAY} {_MONTH} [ \d]?\d {_CLOCK} \d{{4}}\]",
    r"(?P<service>[A-Za-z][\w.-]{0,120}[-_]\d{1,4}) +\|",
    rf"[\w.-]{{1,120}}\.\d{{1,5}}\.\w{{1,40}}@{_HOST.format(3)} +\|",
    r"\d{1,4}\|[\w.-]{1,80} +\|",
    r"\d{19}\t" + _STAMP,
    rf"{_STAMP} (?P<labels>\{{[^{{}}]{{0,2000}}\}})",
    rf"{_STAMP} (?:[\w.-]{{1,120}}/){{1,4}}[0-9a-f-]{{16,40}}",
    rf"{_STAMP}(?!{_LEVEL})",
    r"MESSAGE(?==)",
    r"\[default\d{1,4}\](?=:)",
    r"\[\d{1,6},\d{1,6}\]<std(?:out|err)>",
)
_ANY = re.compile(rf"(?:{'|'.join(_FORMATS)})(?:[ \t]|[:=] ?|$)")
_FIRST = frozenset("0123456789<[JFMASONDTW")
"""With which they begin, but for those that a bar ends."""
_MAX_BAR = 130
_NODES = tuple(group for group in _ANY.groupindex if group.startswith("node"))
_POD = re.compile(r'\bpod="([^"]{1,253})"')


@dataclass(frozen=True)
class Known:
    """A prefix of a known format.

    Attributes:
        end: Where it ends.
        worker: Pod or service, where it names one.
        node: Host, where it names one.
        flow: stdout or stderr, where it says so.
        partial: Whether the line goes on in the next one of its flow.
    """

    end: int
    worker: str | None
    node: str | None
    flow: str | None
    partial: bool


def known_prefix(line: str) -> Known | None:
    """The prefix of a line, if it has one of the known formats."""
    if line[:1] not in _FIRST and line.find(" |", 0, _MAX_BAR) < 0:
        return None
    match = _ANY.match(line)
    if match is None:
        return None
    node = next((name for group in _NODES if (name := match[group])), None)
    pod = _POD.search(match["labels"]) if match["labels"] else None
    worker = match["pod"] or match["service"] or (pod[1] if pod is not None else None)
    return Known(match.end(), worker, node, match["flow"], match["part"] == "P")
