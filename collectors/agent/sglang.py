"""Where the agent meets SGLang: the entry point of its general plugins (`sglang.srt.plugins`).

SGLang's scheduler process holds the worker too, so one ring tells both. Its hooks are asked for by name before the
classes are there; AROUND gets the original first, then what it was called with. Its pool counts tokens; a block here is a
page of it.
"""

import inspect
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from oomctl.collectors.agent import failure, memory, timer
from oomctl.collectors.agent.attach import attach_if_wanted, make_rings
from oomctl.collectors.agent.guard import Guard, Patches
from oomctl.collectors.agent.kinds import KV_POOL, LIFECYCLE, MANIFEST, OOM, PHASES, RESOURCES, STEP
from oomctl.collectors.agent.last_words import LastWords
from oomctl.collectors.agent.layout import NULL_I32, NULL_I64, NULL_U8, pack_texts
from oomctl.collectors.agent.rings import Rings, tell
from oomctl.collectors.agent.settings import Settings

INIT = "sglang.srt.managers.scheduler.Scheduler.__init__"
RETRACT = "sglang.srt.managers.schedule_batch.ScheduleBatch.retract_decode"
ARGUMENTS = (
    "model_path", "revision", "dtype", "quantization", "kv_cache_dtype", "mem_fraction_static", "max_running_requests",
    "max_total_tokens", "chunked_prefill_size", "max_prefill_tokens", "context_length", "page_size", "tp_size", "pp_size",
    "dp_size", "disable_cuda_graph", "cuda_graph_max_bs", "disable_radix_cache", "disable_overlap_schedule",
)  # fmt: skip
"""Of SGLang's ServerArgs, what matters for memory."""
MAX_FLIGHTS = 16
"""Batches between run_batch and process_batch_result; more have lost their end."""

_monotonic_ns = time.monotonic_ns
_watches: list["SglangWatch"] = []


def register() -> None:
    """Called by SGLang in each of its processes. Does nothing unless OOMCTL_RING is set, and never raises."""
    attach_if_wanted(attach)


def attach(wanted: Settings) -> None:
    """Ask for the constructor, and for retractions, which happen on batches that come and go."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    words = LastWords("sglang", partial(make_rings, wanted, engine=f"sglang {version()}"))

    def init(original: Callable[..., Any], scheduler: Any, *args: Any, **kwargs: Any) -> Any:
        watch = _begin(wanted, words, _named(original, scheduler, *args, **kwargs))
        try:
            result = original(scheduler, *args, **kwargs)
        except Exception as error:
            if watch is not None:
                watch.failed(error)
            raise
        if watch is not None:
            watch.attach(scheduler)
            words.ready = True
        return result

    def retract(original: Callable[..., Any], batch: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(batch, *args, **kwargs)
        for watch in _watches:
            watch.retracted(result)
        return result

    HookRegistry.register(INIT, init, HookType.AROUND)
    HookRegistry.register(RETRACT, retract, HookType.AROUND)


def _begin(wanted: Settings, words: LastWords, arguments: Mapping[str, Any]) -> "SglangWatch | None":
    try:
        rank, device = arguments.get("tp_rank"), arguments.get("gpu_id")
        rings = make_rings(
            wanted, "core", f"sglang {version()}", -1 if rank is None else int(rank), "" if rank is None else f"TP{rank}",
            -1 if device is None else int(device),
        )  # fmt: skip
        words.attach(rings)
        watch = SglangWatch(rings, wanted)
        _watches.append(watch)
        return watch
    except Exception as error:
        tell(f"cannot attach to the scheduler: {error!r}; it is not recorded")
        return None


def _named(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Mapping[str, Any]:
    """What a call passes, by the names of the parameters: their order has changed over the versions."""
    try:
        return inspect.signature(original).bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return kwargs


def version() -> str:
    """SGLang's version, as it prints it."""
    return str(getattr(sys.modules.get("sglang"), "__version__", "unknown"))


class SglangWatch:
    """Attached to one scheduler.

    Args:
        rings: Where to.
        wanted: What is wanted.
    """

    def __init__(self, rings: Rings, wanted: Settings) -> None:
        self._rings = rings
        self._patches = Patches()
        self.guard = Guard(rings, self._patches.undo)
        self._scheduler: Any = None
        self._steps = 0
        self._retracted = 0
        self._flights: dict[int, int] = {}
        self._phase("loading")
        timer.start(rings, self.guard, wanted.interval_s)

    def attach(self, scheduler: Any) -> None:
        """It is constructed: weights, pool and graphs are there."""
        try:
            self._scheduler = scheduler
            self._write_manifest(getattr(scheduler, "server_args", None))
            self._patches.wrap(scheduler, "run_batch", self._run_batch)
            self._patches.wrap(scheduler, "process_batch_result", self._process_batch_result)
            self.guard.absent(self._patches.absent)
            self._write_pool()
            self._phase("ready")
        except Exception as error:
            self.guard.failed("attach", error)

    def failed(self, error: Exception, requests: int = 0) -> None:
        """SGLang's scheduler does not outlive an exception."""
        try:
            ring = self._rings.mine()
            if ring.active:
                failure.record(ring, error, fatal=True, requests=requests)
                memory.write_all(ring)
        except Exception as own:
            self.guard.failed("failed", own)

    def retracted(self, result: Any) -> None:
        """Running requests lost their KV pages because the pool ran out; the engine goes on."""
        try:
            # A tuple with the retracted requests first; the rest has changed over the versions.
            count = len(result[0])
            ring = self._rings.mine()
            if count and ring.active:
                self._retracted += count
                text = f"{count} of the running requests retracted"
                values = RESOURCES.index("kv_blocks"), 0, count, *OOM.nulls[3:]
                ring.write(OOM, pack_texts("engine", "retraction", text), *values)
        except Exception as error:
            self.guard.failed("retract_decode", error)

    def _run_batch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run_batch(batch: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                if len(self._flights) >= MAX_FLIGHTS:
                    self._flights.clear()
                self._flights[id(batch)] = _monotonic_ns()
            except Exception as error:
                self.guard.failed("run_batch", error)
            try:
                return original(batch, *args, **kwargs)
            except Exception as error:
                self.failed(error, len(getattr(batch, "reqs", ())))
                raise

        return run_batch

    def _process_batch_result(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def process_batch_result(batch: Any, *args: Any, **kwargs: Any) -> Any:
            counts = None
            try:
                # Before the original: requests that end in this step leave the batch.
                counts = _tokens(batch)
            except Exception as error:
                self.guard.failed("process_batch_result", error)
            try:
                result = original(batch, *args, **kwargs)
            except Exception as error:
                self.failed(error, len(getattr(batch, "reqs", ())))
                raise
            try:
                if counts is not None and self._rings.mine().active:
                    self._end(batch, *counts)
            except Exception as error:
                self.guard.failed("process_batch_result", error)
            return result

        return process_batch_result

    def _end(self, batch: Any, prefill: int, decode: int) -> None:
        self._steps += 1
        # With overlapped scheduling the result comes with a copy of the batch: then the duration is not known.
        started = self._flights.pop(id(batch), None)
        duration = NULL_I32 if started is None else (_monotonic_ns() - started) // 1000
        running = len(getattr(getattr(self._scheduler, "running_batch", None), "reqs", ()))
        waiting = len(getattr(self._scheduler, "waiting_queue", ()))
        self._rings.mine().write(
            STEP, b"", self._steps, prefill, decode, NULL_I32, running, waiting, NULL_I32, duration, NULL_U8
        )
        self._write_pool()

    def _write_pool(self) -> None:
        pool = getattr(self._scheduler, "token_to_kv_pool_allocator", None)
        if pool is None:
            return
        page = int(getattr(pool, "page_size", 1))
        evictable = getattr(getattr(self._scheduler, "tree_cache", None), "evictable_size", int)()
        # As vLLM counts: what is cached and can be evicted is free. A cache of two kinds of layers gives a pair.
        free_tokens = int(pool.available_size()) + (evictable if isinstance(evictable, int) else 0)
        total, free = int(pool.size) // page, free_tokens // page
        self._rings.mine().write(
            KV_POOL, pack_texts("device"), page, total, free, total - free, NULL_I64, int(pool.size), NULL_I64, NULL_I64,
            self._retracted, *KV_POOL.nulls[9:],
        )  # fmt: skip

    def _write_manifest(self, arguments: Any) -> None:
        ring = self._rings.mine()
        ring.write(MANIFEST, pack_texts("engine", "name", "sglang"))
        ring.write(MANIFEST, pack_texts("engine", "version", version()))
        for name in ARGUMENTS:
            value = getattr(arguments, name, None)
            if value is not None:
                section = "model" if name == "revision" else "argument"
                ring.write(MANIFEST, pack_texts(section, name, str(value)[:1000]))

    def _phase(self, phase: str) -> None:
        ring = self._rings.mine()
        if ring.active:
            ring.write(LIFECYCLE, pack_texts(None), PHASES.index(phase), NULL_I32, NULL_I32)
            memory.write_all(ring)


def _tokens(batch: Any) -> tuple[int, int]:
    """(prefill, decode) tokens of a batch; a mixed one has its decodes among the extended tokens."""
    requests = len(batch.reqs)
    if batch.forward_mode.is_extend():
        decoding = len(getattr(batch, "decoding_reqs", None) or ())
        return int(batch.extend_num_tokens or 0) - decoding, decoding
    return (0, requests) if batch.forward_mode.is_decode() else (0, 0)
