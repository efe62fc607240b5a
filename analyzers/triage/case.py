"""Everything that is asked about one failure: its figures, its frames, what stood before and after it."""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from oomctl.analyzers.triage.evidence import Answers, EvidenceRow

if TYPE_CHECKING:
    from oomctl.analyzers.triage.heap import Heap
    from oomctl.schemas.ledger import Ledger

PRECEDENCE = ("recovery", "warm_up", "load_time", "serving")
"""Of phases that frames tell: a wake-up loads, a warm-up executes the model, so the innermost frame alone misleads."""

LIBRARIES = ("cublas", "cudnn", "cusolver", "cusparse", "hipblas", "rocblas")
"""Who reports an allocation of a handle or a workspace that is not made through the framework's allocator."""

_STARTING = ("spawned", "loading", "weights_loaded", "profiling", "kv_allocated", "compiling", "capturing")
_FIGURES = (
    "requested_bytes", "total_bytes", "free_bytes", "own_process_bytes", "others_bytes", "allocated_true_bytes",
    "cached_free_bytes", "private_free_bytes", "framework_bytes", "non_framework_bytes", "limit_bytes", "ceiling_bytes",
    "short_bytes", "requested_tokens", "available_tokens", "resolution_bytes",
)  # fmt: skip


class Case:
    """A root failure, with the failures that followed from it.

    Attributes:
        root: Row of failures.sql, or of kv_pressure.sql.
        about: The root in the place of the worker's life that it ended: the kernel's word may stand in a log of its own.
        members: The root and what followed, in order.
        ledger: Of the deployment, where one was kept.
    """

    def __init__(
        self, answers: Answers, root: EvidenceRow, members: list[EvidenceRow], ledger: "Ledger | None" = None
    ) -> None:
        self._answers = answers
        self.root = root
        self.about: EvidenceRow = {**root, **root.get("home", {})}
        self.members = members
        self.ledger = ledger
        answers.concern(self.about)

    def ask(self, name: str) -> list[EvidenceRow]:
        """The rows of an evidence query about the root."""
        return self._answers.about(name, [self.about])

    def ask_of(self, name: str, others: Sequence[EvidenceRow]) -> list[EvidenceRow]:
        """The rows of an evidence query about each of some members, or of other rows."""
        return self._answers.about(name, others)

    @cached_property
    def figures(self) -> EvidenceRow:
        """The root's figures; where its message was cut off, those of a later copy of the same kind fill in.

        Another source's are those of another rank, on a device of its own.
        """
        figures: EvidenceRow = dict.fromkeys(_FIGURES)
        alike = [
            member
            for member in self.members
            if member["what"] == "oom"
            and member["resource"] == self.root.get("resource")
            and member["stream"] == self.root["stream"]
        ]
        for own in self.ask_of("figures", alike):
            if figures["requested_bytes"] is not None and own.get("requested_bytes") not in (
                None,
                figures["requested_bytes"],
            ):
                continue
            for name in _FIGURES:
                if figures[name] is None:
                    figures[name] = own.get(name)
        return figures

    @cached_property
    def heap(self) -> "Heap | None":
        """The allocator's snapshot at the failure, where one was read."""
        row = self.root.get("heap")
        if row is None:
            return None
        from oomctl.analyzers.triage.heap import Heap

        return Heap(self, row, self._answers.connection)

    @cached_property
    def gate(self) -> EvidenceRow | None:
        """The root's figures where it is a refusal; what was left for the KV pool may have been printed before it."""
        rows = self.ask("gate") if self.root["what"] == "refusal" else []
        if not rows or rows[0]["gate"] != "kv_blocks" or rows[0]["available_bytes"] is not None:
            return rows[0] if rows else None
        left = [row for row in self.ask("components") if row["component"] == "kv_pool" and row["owner"] == "available"]
        least = min((row["bytes"] for row in left), default=0)
        return {**rows[0], "available_bytes": least if least < 0 else None}

    @cached_property
    def frames(self) -> list[EvidenceRow]:
        """Frames that tell a phase: of the root's traceback, or of a later one where the root's only served."""
        weak: list[EvidenceRow] = []
        own = [member for member in self.members if member.get("rank_name") == self.root.get("rank_name")]
        others = [member for member in self.members if member.get("rank_name") != self.root.get("rank_name")]
        for member in (own + others)[:8]:
            if member.get("stack_id") is None:
                continue
            frames = self.ask_of("frames", [member])
            if any(frame["phase"] not in ("serving", "any") for frame in frames):
                return frames
            if not any(frame["phase"] == "serving" for frame in weak):
                weak = frames or weak
        return weak

    @cached_property
    def frame_phase(self) -> str | None:
        """The phase that the frames tell, by PRECEDENCE."""
        told = {frame["phase"] for frame in self.frames}
        return next((phase for phase in PRECEDENCE if phase in told), None)

    def frames_of(self, phase: str, *parts: str) -> list[EvidenceRow]:
        """Frames that tell a phase, innermost first, one per line; only of some parts where they are named."""
        seen: set[int] = set()
        chosen = []
        for frame in self.frames:
            if frame["phase"] == phase and (not parts or frame["part"] in parts) and frame["seq"] not in seen:
                seen.add(frame["seq"])
                chosen.append(frame)
        return chosen

    @cached_property
    def encoder(self) -> list[EvidenceRow]:
        """Frames that encode images, video or sound, innermost first."""
        return self.frames_of("serving", "encoder")

    @property
    def layers(self) -> list[EvidenceRow]:
        """Frames of a model's layers, innermost first: they compute whenever it runs, and an engine's tell no phase."""
        return [*self.frames_of("any", "layer"), *self.frames_of("serving", "layer")]

    def called(self, function: re.Pattern[str]) -> list[EvidenceRow]:
        """Frames whose function's whole name matches, innermost first."""
        return [frame for frame in self.frames if function.fullmatch(frame["function"] or "")]

    @cached_property
    def has_pool(self) -> bool:
        """Whether anything of the KV pool had been printed before."""
        return bool(self.ask("kv_size")) or any(row["component"] == "kv_pool" for row in self.ask("components"))

    @cached_property
    def of_library(self) -> bool:
        """Whether a library's own allocation failed: a handle or a workspace outside the framework's cache."""
        return self.root["what"] == "oom" and self.root.get("api") in LIBRARIES

    @cached_property
    def capped(self) -> bool:
        """Whether a limit that the process set on itself, and not the device, refused the allocation."""
        figures = self.figures
        limit, free, requested = figures["limit_bytes"], figures["free_bytes"], figures["requested_bytes"]
        if limit is None or self.root["what"] != "oom" or self.root["resource"] != "device":
            return False
        if free is None or requested is None or free >= requested:
            return True
        framework = figures["framework_bytes"]
        return framework is None or framework + requested > limit

    @cached_property
    def stage_rows(self) -> list[EvidenceRow]:
        """The row of phases.sql that tells in which stage of its life the worker was, as a list of at most one."""
        rows = self.ask("phases")
        for row in rows:
            if row["phase"] in ("ready", "serving"):
                return [row]
            if row["phase"] in ("sleeping", "waking", "reloading"):
                return [row]
            if row["phase"] in _STARTING:
                # A rank may print a start-up line late; what any rank reached last counts.
                return [row]
        return []

    @cached_property
    def of_script(self) -> bool:
        """Whether no engine served, but a program that calls a library's own loop: it need not say that it is ready."""
        return self.engine[0] is None and bool(self.frames_of("serving", "generate"))

    @cached_property
    def of_transformers(self) -> bool:
        """Whether a program without an engine failed in a model or a loop of the transformers library."""
        return self.engine[0] is None and any("transformers/" in (frame["file"] or "") for frame in self.frames)

    @cached_property
    def stage(self) -> str | None:
        """loading, warm_up, serving, waking, ... before the failure; None where nothing was printed."""
        phase = self.stage_rows[0]["phase"] if self.stage_rows else None
        if phase in ("weights_loaded", None) and self.of_script and self.frame_phase == "serving":
            return "serving"
        if phase in ("ready", "serving") or (phase is None and self.ask("kv_usage")):
            return "serving"
        if phase in _STARTING:
            reports = [*self.ask("kv_usage")[:1], *self.ask("batch")[:1]]
            served = any(row["seq"] > self.stage_rows[0]["seq"] for row in reports)
            return "serving" if served else phase if phase in ("spawned", "loading") else "warm_up"
        return phase

    @cached_property
    def arguments(self) -> dict[str, EvidenceRow]:
        """Arguments as found, by their spelling."""
        return {row["key"]: row for row in self.ask("arguments") if row["section"] in ("argument", "parallelism", "model")}

    def argument(self, *keys: str) -> EvidenceRow | None:
        """The first of these arguments that was found."""
        return next((self.arguments[key] for key in keys if key in self.arguments), None)

    def number(self, *keys: str) -> float | None:
        """The first of these arguments as a number."""
        row = self.argument(*keys)
        try:
            return float(row["value"]) if row is not None else None
        except ValueError:
            return None

    @cached_property
    def engine(self) -> tuple[str | None, str | None]:
        """(engine, version) as the worker announced itself."""
        found = {row["key"]: row["value"] for row in self.ask("arguments") if row["section"] == "engine"}
        return found.get("name"), found.get("version")

    @cached_property
    def total_bytes(self) -> int | None:
        """The device's capacity, from the message, the gate, or an earlier report."""
        known = self.figures["total_bytes"] or (self.gate or {}).get("total_bytes")
        return known or next((row["total_bytes"] for row in self.ask("device") if row["total_bytes"]), None)

    def share(self, amount: int | None) -> float | None:
        """An amount as a share of the device, the only way in which thresholds are put."""
        total = self.total_bytes
        return None if amount is None or not total else amount / total
