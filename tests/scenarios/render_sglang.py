"""SGLang's words: a bracketed time and rank before a print, and tracebacks printed in one piece without prefixes."""

from datetime import UTC, datetime

from tests.scenarios import facts
from tests.scenarios.entries import Entry, Fact
from tests.scenarios.message import Shortage
from tests.scenarios.printing import GIB, Printed, fixed
from tests.scenarios.stacks import SGLANG, Site
from tests.scenarios.writer import Writer


def _gb(size_bytes: float) -> Printed:
    """SGLang prints GiB and calls them GB."""
    return fixed(size_bytes, GIB, " GB")


class SglangWriter(Writer):
    """Prints as SGLang does."""

    engine = "sglang"

    def path(self, file: str) -> str:
        if file.startswith("~"):
            return f"/opt/serve/lib/python3.12/site-packages/{file[1:]}"
        return f"/opt/sgl/python/sglang/srt/{file}"

    def rank_name(self, rank: int | None) -> str | None:
        """The rank as printed."""
        return None if rank is None else f"TP{rank}"

    def printed_by(self, entry: Entry) -> str | None:
        return self.rank_name(entry.rank)

    def line(self, entry: Entry, ts_us: int) -> str:
        if entry.process == "bare":
            return entry.text
        if entry.process == "system":
            stamp = f"[{88_000 + entry.at_us / 1e6:.6f}] " if entry.level == "KERNEL" else ""
            return stamp + entry.text
        name = self.rank_name(entry.rank)
        moment = datetime.fromtimestamp(ts_us / 1e6, UTC)
        return f"[{moment:%Y-%m-%d %H:%M:%S}{f' {name}' if name else ''}] {entry.text}"

    def each_rank(self, text: str, *rows: Fact) -> None:
        """The same line from every rank."""
        for rank in range(self.figures.ranks):
            self.say(text, *rows, process="worker", rank=rank)

    @property
    def _free_bytes(self) -> int:
        """Free on the device once weights and cache are there."""
        f = self.figures
        return f.device_bytes - f.weights_bytes - f.kv_bytes - f.non_torch_bytes

    def start(self, **arguments: object) -> None:
        f = self.figures
        given = {
            "model_path": f.model,
            "tp_size": f.ranks,
            "mem_fraction_static": f.utilization,
            "chunked_prefill_size": f.chunk_tokens,
            "context_length": f.max_model_len,
        } | arguments
        rows = (facts.lifecycle("spawned"), *facts.manifest("engine", name="sglang"), *facts.manifest("argument", **given))
        text = ", ".join(f"{key}={value!r}" for key, value in given.items())
        self.say(f"server_args=ServerArgs({text})", *rows, process="core")
        self.wait(4, 9)
        self.each_rank("Init torch distributed begin.")
        self.wait(1, 3)
        size = _gb(f.non_torch_bytes)
        self.each_rank(
            f"Init torch distributed ends. elapsed=2.91 s, mem usage={size.text}", facts.memory("non_torch", size)
        )

    def load(self) -> None:
        """The load begins."""
        free = _gb(self.figures.device_bytes - self.figures.non_torch_bytes)
        text = f"Load weight begin. avail mem={free.text}"
        device = Fact("device", {"free_bytes": free.bytes, "resolution_bytes": free.resolution_bytes})
        self.each_rank(text, facts.lifecycle("loading", text), device)

    def weights(self) -> None:
        f = self.figures
        free = _gb(f.device_bytes - f.non_torch_bytes - f.weights_bytes)
        text = (
            f"Load weight end. elapsed={f.between(900, 6_000) / 100:.2f} s, type=Qwen2ForCausalLM, dtype=torch.bfloat16, "
        )
        text += f"avail mem={free.text}"
        rows = [facts.lifecycle("weights_loaded", "Load weight end")]
        if f.tells_components:
            size = _gb(f.weights_bytes)
            text += f", mem usage={size.text}."
            rows.append(facts.memory("weights", size))
        self.each_rank(text, *rows)

    def profile(self) -> None:
        """SGLang derives the pool from free memory and prints nothing."""

    def cache(self) -> None:
        f = self.figures
        half = _gb(f.kv_bytes / 2)
        text = f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {f.kv_tokens}, "
        text += f"K size: {half.text}, V size: {half.text}"
        pool = Fact("kv_pool", {"tier": "device", "total_tokens": f.kv_tokens})
        self.each_rank(
            text,
            facts.lifecycle("kv_allocated"),
            facts.memory("kv_pool", half, "k"),
            facts.memory("kv_pool", half, "v"),
            pool,
        )
        free = _gb(self._free_bytes)
        device = Fact("device", {"free_bytes": free.bytes, "resolution_bytes": free.resolution_bytes})
        self.each_rank(f"Memory pool end. avail mem={free.text}", device)

    def capture(self, *, ends: bool = True) -> None:
        f = self.figures
        text = f"Capture cuda graph begin. This can take up to several minutes. avail mem={_gb(self._free_bytes).text}"
        self.each_rank(text, facts.lifecycle("capturing", "Capture cuda graph begin"))
        self.wait(3, 9)
        if ends:
            size, free = _gb(f.graph_bytes), _gb(self._free_bytes - f.graph_bytes)
            text = f"Capture cuda graph end. Time elapsed: {f.between(400, 2_400) / 100:.2f} s. mem usage={size.text}. "
            graph = Fact("graph", {"bytes": size.bytes, "resolution_bytes": size.resolution_bytes})
            self.each_rank(f"{text}avail mem={free.text}.", facts.memory("graph_pool", size), graph)

    def ready(self) -> None:
        f = self.figures
        limits = {
            "max_total_num_tokens": f.kv_tokens,
            "chunked_prefill_size": f.chunk_tokens,
            "max_prefill_tokens": 16384,
            "max_running_requests": f.max_num_seqs,
            "context_len": f.max_model_len,
        }
        text = ", ".join(f"{key}={value}" for key, value in limits.items())
        text += f", available_gpu_mem={_gb(self._free_bytes - f.graph_bytes).text}"
        pool = Fact("kv_pool", {"total_tokens": f.kv_tokens})
        self.say(text, *facts.manifest("argument", **limits), pool, process="worker", rank=0)
        self.say("The server is fired up and ready to roll!", facts.lifecycle("ready"))

    def report(self, usage_tenths: int, running: int, waiting: int = 0, **rates: float) -> None:
        generation = rates.get("generation", running * 31.7)
        used = self.figures.kv_tokens * usage_tenths // 1000
        text = (
            f"Decode batch, #running-req: {running}, #token: {used}, token usage: {usage_tenths / 1000:.2f}, "
            f"cuda graph: True, gen throughput (token/s): {generation:.2f}, #queue-req: {waiting}, "
        )
        step = Fact(
            "step", {"mode": "decode", "decode_tokens": running, "running_requests": running, "waiting_requests": waiting}
        )
        usage = Fact(
            "kv_pool", {"usage_ratio": round(usage_tenths / 1000, 2), "usage_resolution_ratio": 0.005, "used_tokens": used}
        )
        rate = Fact(
            "throughput",
            {"generation_tokens_per_s": round(generation, 2), "running_requests": running, "waiting_requests": waiting},
        )
        self.say(text, step, usage, rate, process="worker", rank=0)
        self.wait(3)

    def prefill(self, tokens: int, usage_tenths: int, running: int, waiting: int = 0) -> None:
        text = (
            f"Prefill batch, #new-seq: 1, #new-token: {tokens}, #cached-token: 0, token usage: {usage_tenths / 1000:.2f}, "
            f"#running-req: {running}, #queue-req: {waiting}, "
        )
        usage = Fact("kv_pool", {"usage_ratio": round(usage_tenths / 1000, 2), "usage_resolution_ratio": 0.005})
        self.say(text, facts.prefill_step(tokens, running, waiting, 0), usage, process="worker", rank=0)
        self.wait(1, 3)

    def retract(self, requests: int, gained: int) -> None:
        """Requests lose their KV blocks and go back to the queue."""
        text = f"KV cache pool is full. Retract requests. #retracted_reqs: {requests}, #new_tokens_gained: {gained}, "
        text += "#new_token_ratio: 0.2816 -> 0.5127"
        row = facts.blocks_short("retraction", requests, message=text)
        self.say(text, row, process="worker", rank=0, level="WARNING")
        self.wait(0.2, 1)

    def fail(self, site: Site, shortage: Shortage | str, *, wraps: str = "", step_tokens: int = 0) -> None:
        for rank in range(self.figures.ranks):
            stack_id, frames = self.new_stack(SGLANG[site])
            text = "Scheduler hit an exception: Traceback (most recent call last):"
            self.say(text, process="worker", rank=rank, level="ERROR", exception=True)
            for (_, function, code), number, row in frames:
                self._bare(rank, f'  File "{row.fields["file"]}", line {number}, in {function}', row)
                self._bare(rank, f"    {code}")
            if isinstance(shortage, str):
                lines = shortage.split("\n")
                self._bare(rank, lines[0], *_plain(shortage, stack_id))
                for line in lines[1:]:
                    self._bare(rank, line)
            else:
                text = f"torch.OutOfMemoryError: {shortage.text(rank)}"
                self._bare(rank, text, *shortage.facts(rank, fatal=self.figures.tells_fatal or None, stack_id=stack_id))
            self._bare(rank, "")
            if wraps:
                self._bare(rank, wraps)
        text = "Received sigquit from a child process. It usually means the child failed."
        dead = Fact("fault", {"code": "engine_dead", "detail": text, "fatal": True})
        self.say(text, dead, level="ERROR", exception=True)

    def reload(self) -> None:
        free = _gb(self._free_bytes - self.figures.graph_bytes)
        text = f"Update engine weights online from disk begin. avail mem={free.text}"
        self.each_rank(text, facts.lifecycle("reloading", text))

    def refuse(self, site: Site, text: str, gate: Fact) -> None:
        raise NotImplementedError("SGLang has no gate among the scenarios")

    def _bare(self, rank: int, text: str, *rows: Fact) -> None:
        self.say(text, *rows, process="bare", level="", rank=rank, exception=True)


def _plain(text: str, stack_id: str) -> tuple[Fact, ...]:
    """The row of an exception that carries no byte figures."""
    first, *rest = text.split("\n")
    if "illegal memory access" in first:
        return (Fact("fault", {"code": "illegal_access", "detail": first, "fatal": True, "stack_id": stack_id}),)
    if "batch size" in first:
        wanted, there = int(rest[0].split()[3]), int(rest[1].split()[2])
        row = facts.blocks_short(
            f"{first.split()[1].lower()}_out_of_memory", message=first, requested_tokens=wanted, available_tokens=there
        )
        return (Fact("oom", row.fields | {"fatal": True, "stack_id": stack_id}),)
    return ()
