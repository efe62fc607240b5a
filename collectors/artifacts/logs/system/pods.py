"""Whose end `kubectl describe pod` and `kubectl get pods` tell of: a pod has sidecars, and a list has other pods.

Each container is a process row, its name with its image and program; of a kill it is the victim. Whether that is an
engine's is decided by these names, when all of them are known.
"""

from itertools import takewhile

from oomctl.collectors.artifacts.logs.arguments import flags
from oomctl.collectors.artifacts.logs.fact import Fact
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.system import ends
from oomctl.collectors.artifacts.logs.system.block import Block

MAX_WORDS = 300
"""Characters of an image and program that are kept, and words of a command."""


class Containers(Block):
    """The containers of a described pod."""

    heading = Pattern(r"^(?:Init |Ephemeral )?Containers:$")
    patience = 400
    alone = True
    _NAME = Pattern(r"^([a-z0-9][a-z0-9-]{0,62}):$")
    _IMAGE = Pattern(r"^Image:\s+(\S{1,300})$")
    _LIST = Pattern(r"^(?:Command|Args):$")
    _FIELD = Pattern(r"^[A-Z][A-Za-z ]{1,30}:(?:\s|$)")
    _KILLED = Pattern(r"^Reason:\s+OOMKilled$")
    _STATUS = Pattern(r"^Exit Code:\s+\d")
    _END = Pattern(r"^(?:Conditions|Volumes|QoS Class|Node-Selectors|Tolerations|Events|Name):")

    def __init__(self) -> None:
        super().__init__()
        self._name: str | None = None
        self._image = ""
        self._words: list[str] = []
        self._listing = self._killed = False

    def row(self, text: str) -> list[Fact] | None:
        """What a line tells of the container in whose part it stands."""
        line = text.strip()
        if self._END.match(line) is not None:
            self.close()
            return None
        name = self._NAME.match(line)
        if name is not None:
            self._name, self._image, self._words, self._listing, self._killed = name[1], "", [], False, False
            return []
        if self._name is None:
            return None
        image = self._IMAGE.match(line)
        if image is not None:
            self._image = image[1]
            return []
        if self._LIST.match(line) is not None:
            self._listing = True
            return []
        if self._listing and self._FIELD.match(line) is None:
            self._words += line.split()[:MAX_WORDS]
            return []
        self._listing = False
        if line.startswith("State:"):
            return [Fact("process", {"name": self._called}), *flags(self._words)]
        if self._KILLED.match(line) is not None:
            self._killed = True
            return [ends.oom_kill("supervisor", text, victim=self._called)]
        if self._killed and self._STATUS.match(line) is not None:
            return []
        return None

    @property
    def _called(self) -> str:
        program = takewhile(lambda word: not word.startswith("--"), self._words)
        return f"{self._name} ({' '.join([self._image, *program])[:MAX_WORDS].strip()})"


class Pods(Block):
    """A list of pods."""

    heading = Pattern(r"^(?:NAMESPACE +)?NAME +READY +STATUS +RESTARTS +AGE\b")
    alone = True
    _ROW = Pattern(r"^(?:\S+ +)?(?P<name>[a-z0-9][\w.-]{0,252}) +\d{1,4}/\d{1,4} +(?P<status>\S{1,60}) +\d")

    def row(self, text: str) -> list[Fact] | None:
        """A pod, and whether one of its containers was killed."""
        match = self._ROW.match(text.strip())
        if match is None:
            return None
        pod = Fact("process", {"name": match["name"]})
        if match["status"] in ("OOMKilled", "Init:OOMKilled"):
            return [pod, ends.oom_kill("supervisor", text, victim=match["name"])]
        return [pod] if match["status"] in ("Running", "Completed", "Pending") else None
