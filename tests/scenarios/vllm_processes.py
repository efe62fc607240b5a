"""vLLM's processes: the prefix that each prints, and how a failure runs through them."""

from datetime import UTC, datetime
from itertools import zip_longest

from tests.scenarios import facts
from tests.scenarios.entries import Entry, Fact, Value
from tests.scenarios.message import Shortage
from tests.scenarios.stacks import VLLM, Frame, Site
from tests.scenarios.writer import Writer

_SITE_PACKAGES = "/opt/serve/lib/python3.12/site-packages/"


class VllmProcesses(Writer):
    """Prefixes and failures; what a healthy engine says is in `render_vllm`."""

    engine = "vllm"

    def path(self, file: str) -> str:
        return _SITE_PACKAGES + (file[1:] if file.startswith("~") else f"vllm/{file}")

    def rank_name(self, rank: int | None) -> str | None:
        """The process as printed: with one rank the engine core is the worker."""
        if rank is None:
            return None
        return f"Worker_TP{rank}" if self.figures.ranks > 1 else "EngineCore_DP0"

    def printed_by(self, entry: Entry) -> str | None:
        names = {"api": "APIServer", "core": "EngineCore_DP0"}
        return names.get(entry.process) or self.rank_name(entry.rank)

    def line(self, entry: Entry, ts_us: int) -> str:
        moment = datetime.fromtimestamp(ts_us / 1e6, UTC)
        if entry.process == "bare":
            return entry.text
        if entry.process == "system":
            stamp = f"[{88_000 + entry.at_us / 1e6:.6f}] " if entry.level == "KERNEL" else ""
            return stamp + entry.text
        name = self.printed_by(entry)
        process = "core" if name == "EngineCore_DP0" else entry.process
        prefix = f"({name} pid={self.figures.pid(process, entry.rank or 0, entry.incarnation)}) "
        if not entry.where:
            return prefix + entry.text
        if entry.where.startswith("~"):
            stamp = f"{moment:%Y-%m-%d %H:%M:%S},{entry.at_us // 1_000 % 1_000:03d}"
            return f"{prefix}{stamp} - {entry.level} - {entry.where[1:]} - {entry.text}"
        stamp = f"{moment:%m-%d %H:%M:%S} " if self.figures.tells_time else ""
        return f"{prefix}{entry.level} {stamp}[{entry.where}] {entry.text}"

    def each_rank(self, text: str, *rows: Fact, where: str) -> None:
        """The same line from every worker."""
        for rank in range(self.figures.ranks):
            self.say(text, *rows, process="worker", where=where, rank=rank)

    def refuse(self, site: Site, text: str, gate: Fact) -> None:
        self._core_died(ready=False)
        stack_id, frames = self.new_stack(VLLM[site])
        where = "core.py:1108"
        self.say("Traceback (most recent call last):", level="ERROR", where=where, exception=True)
        for (_, function, code), number, row in frames:
            place = f'  File "{row.fields["file"]}", line {number}, in {function}'
            self.say(place, row, level="ERROR", where=where, exception=True)
            self.say(f"    {code}", level="ERROR", where=where, exception=True)
        stacked = Fact("refusal", gate.fields | {"stack_id": stack_id})
        self.say(text, stacked, level="ERROR", where=where, exception=True)
        text = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
        self.say(text, process="api", level="ERROR", exception=True)

    def _frames(self, site: Site) -> tuple[Frame, ...]:
        """With several ranks a worker process stands where the engine core stands with one."""
        if self.figures.ranks == 1:
            return VLLM[site]
        inner = tuple(frame for frame in VLLM[site] if not frame[0].startswith(("v1/engine/", "v1/executor/")))
        return (("v1/executor/multiproc_executor.py", "worker_busy_loop", "output = func(*args, **kwargs)"), *inner)

    def _traceback(self, site: Site, last: str, rank: int, where: str, shortage: Shortage | None) -> list[Entry]:
        stack_id, frames = self.new_stack(self._frames(site))
        lines: list[tuple[str, tuple[Fact, ...]]] = [("Traceback (most recent call last):", ())]
        for (_, function, code), number, row in frames:
            lines.append((f'  File "{row.fields["file"]}", line {number}, in {function}', (row,)))
            lines.append((f"    {code}", ()))
        if shortage is not None:
            lines.append((last, shortage.facts(rank, fatal=self.figures.tells_fatal or None, stack_id=stack_id)))
        else:
            lines.extend((text, _plain(text, stack_id)) for text in last.split("\n"))
        return [
            Entry(self.now_us, text, "worker", "ERROR", where, rank, self.incarnation, rows, True) for text, rows in lines
        ]

    def fail(self, site: Site, shortage: Shortage | str, *, wraps: str = "", step_tokens: int = 0) -> None:
        f = self.figures
        life = [entry for entry in self.script.entries if entry.incarnation == self.incarnation]
        ready = any(fact.fields.get("phase") == "ready" for entry in life for fact in entry.facts)
        where = "core.py:1108" if f.ranks == 1 else "multiproc_executor.py:949"
        if f.ranks == 1:
            self._core_died(ready)
        blocks = []
        for rank in range(f.ranks):
            last = shortage if isinstance(shortage, str) else f"torch.OutOfMemoryError: {shortage.text(rank)}"
            blocks.append(self._traceback(site, last, rank, where, None if isinstance(shortage, str) else shortage))
        if f.interleaves:
            self.script.entries.extend(entry for row in zip_longest(*blocks) for entry in row if entry is not None)
        else:
            self.script.entries.extend(entry for block in blocks for entry in block)
        if wraps:
            for text in ("", "The above exception was the direct cause of the following exception:", "", wraps):
                self.say(text, process="worker", level="ERROR", where=where, rank=0, exception=True)
        if step_tokens:
            text = (
                "Dumping scheduler output for model execution: SchedulerOutput(scheduled_new_reqs=[], "
                f"num_scheduled_tokens={{chatcmpl-{f.port}: {step_tokens}}}, "
                f"total_num_scheduled_tokens={step_tokens}, preempted_req_ids=[])"
            )
            self.say(text, facts.dumped_step(step_tokens), level="ERROR", where="dump_input.py:79")
        if f.ranks > 1:
            self._core_died(ready)
        if ready:
            text = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. "
            text += "See stack trace (above) for the root cause."
        else:
            text = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
        self.say(text, process="api", level="ERROR", where="async_llm.py:708" if ready else "", exception=True)

    def _core_died(self, ready: bool) -> None:
        text = "EngineCore encountered a fatal error." if ready else "EngineCore failed to start."
        dead = Fact("fault", {"code": "engine_dead", "detail": text, "fatal": True})
        self.say(text, dead, level="ERROR", where="core.py:1108", exception=True)


def _plain(text: str, stack_id: str) -> tuple[Fact, ...]:
    """The row of an exception line that carries no figures."""
    if "illegal memory access" in text:
        return (Fact("fault", {"code": "illegal_access", "detail": text, "fatal": True, "stack_id": stack_id}),)
    if "out of memory" in text:
        fields: dict[str, Value] = {
            "resource": "device",
            "api": "cuda",
            "error_type": "RuntimeError",
            "message": text,
            "fatal": True,
            "stack_id": stack_id,
        }
        return (Fact("oom", fields),)
    return ()
