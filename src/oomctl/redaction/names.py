"""Stable pseudonyms within one file: a name becomes `host-1` wherever it stands, and the mapping is kept nowhere.

First everything is learnt from, then everything is scrubbed: a name that one line gives away (`model='acme/otter-9b'`) is
hidden in every other. What is taken for a name errs on the side of hiding, and a word that is not public is hidden
whatever it names.
"""

import re
from collections.abc import Callable
from ipaddress import ip_address

from oomctl.collectors.artifacts.logs.redact import redact
from oomctl.redaction.paths import is_system, public_part
from oomctl.redaction.shapes import ITEM, KEYED, LISTED, SHAPED, Kind
from oomctl.redaction.words import is_public

_EVERYWHERE = frozenset({"host", "tenant", "user"})
"""Kinds whose names are hidden wherever the word stands, even where it is an ordinary one."""

_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+")
_URL = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+]{1,9}://)(?P<host>[^\s/:'\"\])>]+)(?P<rest>[^\s'\"\])>]*)")
_PATH = re.compile(r"(?<![\w.:/<])(?P<path>(?:~|[A-Za-z]:\\|/[\w.@+-]+(?=/))[^\s'\",;:()\[\]{}<>|=]*)")
_IPV4 = re.compile(r"(?<![\w.-])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\w)")
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:)[0-9A-Fa-f:]{6,45}(?![\w:])")
_ID = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9a-fA-F]{8}(?:[-_][0-9a-fA-F]{4}){3}[-_][0-9a-fA-F]{12}|(?=[0-9a-f]{0,63}[a-f])[0-9a-f]{24,64})(?![0-9A-Za-z])"
)
_WORD = re.compile(r"[A-Za-z0-9][\w-]{5,120}")
_TOKEN = re.compile(r"\w+")
_HIDDEN = re.compile(r"/path-\d+(?![\w-])")
_MAC = re.compile(r"(?<![\w:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![\w:])")

_PUBLIC = re.compile(
    r"(?:[\w-]+\.)*(?:pytorch\.org|github\.com|huggingface\.co|vllm\.ai|sglang\.ai|nvidia\.com|python\.org|readthedocs\.io"
    r"|ray\.io|kubernetes\.io|localhost)(?::\d+)?"
)
"""Hosts that everybody's logs name."""
_PLAIN = frozenset(
    {
        "none", "null", "true", "false", "auto", "default", "cuda", "cpu", "gpu", "rocm", "hip", "xpu", "npu", "localhost",
        "model", "models", "tokenizer", "base", "test", "local", "vllm", "sglang", "torch", "triton", "llama", "ollama",
        "lmdeploy", "trtllm", "tgi", "host", "node", "user", "root", "kernel", "worker", "server", "engine", "unknown",
        "slow", "python", "python3", "systemd", "dockerd", "kubelet", "containerd", "docker", "ray", "error", "info",
        "warning", "pod", "log", "app", "service", "name", "main", "this", "that", "with", "from", "process", "memory",
        "out", "was",
    }
)  # fmt: skip
"""Words that are values of such keys and name nobody."""


class Pseudonyms:
    """The pseudonyms of one file."""

    def __init__(self) -> None:
        self._known: dict[tuple[Kind, str], str] = {}
        self._counts: dict[Kind, int] = {}
        self._literal: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None
        self._words: dict[str, str] = {}

    def of(self, kind: Kind, name: str) -> str:
        """The pseudonym of a name, which is the same wherever it stands."""
        key = (kind, name)
        if key not in self._known:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._known[key] = f"{kind}-{self._counts[kind]}"
        return self._known[key]

    def known(self, kind: Kind, name: str) -> str | None:
        """The pseudonym of a name, where it has one already."""
        return self._known.get((kind, name))

    def ordered(self, kind: Kind, names: list[str]) -> None:
        """Give pseudonyms that sort as the names do, because some answers depend on that order."""
        width = len(str(len(names)))
        for position, name in enumerate(sorted(names), start=1):
            self._known[kind, name] = f"{kind}-{position:0{width}}"
            self.learn(kind, name)

    def learn(self, kind: Kind, name: str) -> None:
        """Remember a name, so that it is found in other texts too; its last part where it is a path or has an owner."""
        name = name.rstrip(".,:;")
        if not _names_something(name) or _is_address(name) or _PUBLIC.fullmatch(name) or is_system(name):
            return
        pseudonym = self.of(kind, name)
        for spelling in {name, name.rstrip("/").rpartition("/")[2]}:
            if not (_distinctive(spelling) or (kind in _EVERYWHERE and len(spelling) > 2 and _names_something(spelling))):
                continue
            if kind == "request" and _WORD.fullmatch(spelling):
                self._words.setdefault(spelling, pseudonym)
            else:
                self._literal.setdefault(spelling, pseudonym)
        self._pattern = None

    def learn_from(self, text: str) -> None:
        """Remember the names that a text gives away."""
        for kind, pattern in (*KEYED.items(), *SHAPED):
            for match in pattern.finditer(text):
                self.learn(kind, match["value"])
        for kind, pattern in LISTED.items():
            for match in pattern.finditer(text):
                for item in ITEM.findall(match["items"]):
                    self.learn(kind, item)

    def named(self, text: str) -> str:
        """A text in which the names that were learnt are replaced, and no others."""
        return self._literals().sub(lambda match: self._literal[match[0]], text) if self._literal else text

    def scrub(self, text: str) -> str:
        """A text without secrets, and with names, addresses, users and paths replaced."""
        text = self.named(redact(text))
        for kind, pattern in KEYED.items():
            text = pattern.sub(self._value_of(kind), text)
        text = _EMAIL.sub(lambda match: self.of("user", match[0]), text)
        text = _URL.sub(self._url, text)
        text = _PATH.sub(lambda match: self.path(match["path"]), text)
        text = _MAC.sub(lambda match: self.of("mac", match[0].lower()), text)
        for pattern in (_IPV4, _IPV6):
            text = pattern.sub(self._address, text)
        text = _WORD.sub(lambda match: self._words.get(match[0], match[0]), text)
        text = _ID.sub(lambda match: self.of("id", match[0].lower()), text)
        return _TOKEN.sub(lambda match: match[0] if is_public(match[0]) else self.of("word", match[0]), text)

    def path(self, path: str) -> str:
        """A path without where it lies: of a package's source the part inside the package stays."""
        path = self.named(path)
        public = public_part(path)
        if public is not None and not _HIDDEN.match(path):
            before = path[: len(path) - len(public)].rstrip("/\\")
            return f"/{self.of('path', before)}/{public}" if before and public != path else public
        if is_system(path) or _HIDDEN.match(path):
            return path
        suffix = re.search(r"\.[a-z]{1,11}$", path)
        return f"/{self.of('path', path)}{suffix[0] if suffix and is_public(suffix[0][1:]) else ''}"

    def _literals(self) -> re.Pattern[str]:
        if self._pattern is None:
            longest_first = sorted(self._literal, key=len, reverse=True)
            self._pattern = re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(map(re.escape, longest_first))})(?![A-Za-z0-9_])")
        return self._pattern

    def _value_of(self, kind: Kind) -> Callable[[re.Match[str]], str]:
        def replaced(match: re.Match[str]) -> str:
            value = match["value"]
            if not _names_something(value) or _is_address(value) or self._is_pseudonym(value):
                return match[0]
            return match[0][: match.start("value") - match.start()] + self.of(kind, value.rstrip(".,:;"))

        return replaced

    def _is_pseudonym(self, value: str) -> bool:
        kind, _, number = value.rpartition("-")
        return kind in self._counts and number.isdigit()

    def _url(self, match: re.Match[str]) -> str:
        host = match["host"].rpartition("@")[2]
        if _PUBLIC.fullmatch(host) or self._is_pseudonym(host):
            return match[0]
        if match["scheme"] not in ("http://", "https://", "tcp://", "grpc://", "ipc://"):
            return f"{match['scheme']}{self.of('path', match['host'] + match['rest'])}"
        port = re.match(r":\d{1,5}", match["rest"])
        path = match["rest"][port.end() if port is not None else 0 :]
        known = f"{port[0] if port is not None else ''}{path if is_system(path) else ''}"
        return f"{match['scheme']}{host if _is_address(host) else self.of('host', host)}{known}"

    def _address(self, match: re.Match[str]) -> str:
        text = match[0]
        # 0.9.0.1 is a version; nobody's address begins with 0
        if not _is_address(text) or text in ("127.0.0.1", "::1", "::") or text.startswith(("0.", "255.")):
            return text
        return self.of("ip", text)


def _names_something(name: str) -> bool:
    return (
        len(name) > 1
        and not re.fullmatch(r"[\d.,:x%-]+[a-zA-Z]{0,3}", name)
        and name.strip("'\"").lower() not in _PLAIN
        and not name.startswith(("[redacted", "<", "--"))
    )


def _distinctive(name: str) -> bool:
    """Whether a word found elsewhere is surely this name."""
    return (
        len(name) >= 4
        and re.search(r"[\d/._@A-Z-]", name) is not None
        and name.lower() not in _PLAIN
        and _names_something(name)
    )


def _is_address(text: str) -> bool:
    try:
        ip_address(text.strip("[]").split("%")[0] if text.count(":") != 1 else text.split(":")[0])
    except ValueError:
        return False
    return True
