"""Stacks of C++ code, printed below an error line: TensorRT-LLM's numbered frames, glibc's and c10's backtraces, ggml's.

The function is the name without its namespaces and arguments; the namespaces stand where a Python frame has its file.
"""

from dataclasses import dataclass, field

from oomctl.collectors.artifacts.logs.fact import Fact
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.record import Record

MAX_FRAMES = 100

_NUMBERED = Pattern(
    r"^\s*(?:frame )?#?\d{1,3}:? +(?:0x[0-9a-f]{6,16} )?(?:in )?(?P<name>[A-Za-z_~][^\n]{2,1000}?)"
    r"(?: \+ (?:0x[0-9a-f]+|\d+))?(?: \(0x[0-9a-f]+ in [^)]*\))?$"
)
_IN_FUNCTION = Pattern(r"^\s*current device: \d+, in function (?P<name>\w+) at (?P<file>\S+?):(?P<line>\d+)$")
_WHAT = Pattern(r"^\s*what\(\): ")
_CALL = Pattern(r"^\s*(?P<name>cuMem\w+|cudaMalloc\w*|hipMalloc\w*)\(")


@dataclass
class Held:
    """A failure line that waits for the native frames below it.

    Attributes:
        record: The failure line.
        facts: What it tells.
        engine: Whose it is.
        frames: Its frames so far, each with the line that prints it, in the order printed: the innermost first.
    """

    record: Record
    facts: list[Fact]
    engine: str | None
    frames: list[tuple[Record, Fact]] = field(default_factory=list)

    def take(self, record: Record) -> bool:
        """Whether a line is a frame below the failure; it is kept then."""
        if len(self.frames) >= MAX_FRAMES or (record.headed and not self._goes_on(record)):
            return False
        frame = parse(record.text)
        if frame is None:
            return False
        self.frames.append((record, Fact("stack", frame)))
        return True

    def _goes_on(self, record: Record) -> bool:
        """Whether a line has the failure line's own header: some programs head every line of one report."""
        mine = self.record
        return mine.headed and (mine.writer, mine.level, mine.logger) == (record.writer, record.level, record.logger)

    def explained_by(self, record: Record) -> bool:
        """Whether a line is the `what():` of an exception that nobody caught, of which the failure line gave the type."""
        return "terminate called" in self.record.text and _WHAT.match(record.text) is not None

    def explain(self, facts: list[Fact]) -> None:
        """Add what that line tells; the type that the failure line gave stays."""
        for mine in self.facts:
            for fact in facts:
                if fact.kind == mine.kind and fact.fields.get("resource") == mine.fields.get("resource"):
                    mine.fields = {
                        **fact.fields,
                        "error_type": mine.fields.get("error_type") or fact.fields.get("error_type"),
                        "fatal": True,  # an exception that nobody caught ends the process
                    }
                    mine.common = {**mine.common, **fact.common}
        kinds = {fact.kind for fact in self.facts}
        self.facts += [fact for fact in facts if fact.kind not in kinds]

    def numbered(self, stack_id: str) -> list[tuple[Record, Fact]]:
        """The frames as stack rows, their depth counted from the outermost."""
        deepest = len(self.frames) - 1
        for position, (_, fact) in enumerate(self.frames):
            fact.fields |= {"stack_id": stack_id, "depth": deepest - position}
        return self.frames


def parse(text: str) -> dict[str, object] | None:
    """Function and file of a native frame, or None where the line is none."""
    function = _IN_FUNCTION.match(text)
    if function is not None:
        return {
            "function": function["name"],
            "file": function["file"],
            "line": int(function["line"][:9]),
            "code": text.strip()[:500],
        }
    call = _CALL.match(text)
    if call is not None:
        return {"function": call["name"], "file": "", "code": text.strip()[:500]}
    numbered = _NUMBERED.match(text)
    if numbered is None or ("::" not in numbered["name"] and "(" not in numbered["name"]):
        return None
    path, _, name = _bare(numbered["name"]).rpartition("::")
    return {"function": name[:300], "file": path[:500], "code": text.strip()[:500]}


def _bare(name: str) -> str:
    """A demangled name without template arguments, parameters and qualifiers behind them."""
    depth, kept = 0, []
    for character in name:
        if character == "<":
            depth += 1
        elif character == ">":
            depth = max(depth - 1, 0)
        elif character == "(" and depth == 0:
            break
        elif depth == 0:
            kept.append(character)
    return "".join(kept).strip().rpartition(" ")[2]
