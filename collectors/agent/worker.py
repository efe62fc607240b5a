"""vLLM's worker, watched: the phases of its life, its memory at each, its graphs, its adapters, and how it fails."""

from collections.abc import Callable
from typing import Any

from oomctl.collectors.agent import failure, memory, observer
from oomctl.collectors.agent.adapters import AdapterWatch
from oomctl.collectors.agent.batches import Batches
from oomctl.collectors.agent.graphs import GraphWatch
from oomctl.collectors.agent.guard import Guard, Patches, pass_more, takes_only
from oomctl.collectors.agent.kinds import COMPONENTS, KV_POOL, LIFECYCLE, LIFETIMES, MEMORY, PHASES
from oomctl.collectors.agent.last_words import LastWords
from oomctl.collectors.agent.layout import NULL_I32, NULL_I64, pack_texts
from oomctl.collectors.agent.rings import Rings
from oomctl.collectors.agent.settings import Settings

PROFILED = {
    "non_torch_memory": ("non_torch", "worker", "profiled"),
    "total_consumed": ("other", "worker", "profiled: all that is not the KV pool"),
    "peak_activation_memory": ("activation", "iteration", "profiled"),
    "cudagraph_memory_estimate": ("graph_pool", "worker", "estimate"),
    "available_kv_cache_memory_bytes": ("kv_pool", "headroom", "available"),
}
"""Attributes that a worker has after profiling, in some version: component, lifetime, owner."""


class WorkerWatch:
    """Attached to one worker object.

    Args:
        worker: vLLM's Worker; its base class is constructed, itself perhaps not yet.
        rings: Where to.
        settings: What is wanted.
        words: Told when the start is over.
    """

    def __init__(self, worker: Any, rings: Rings, settings: Settings, words: LastWords) -> None:
        self._worker = worker
        self._words = words
        self._rings = rings
        self._settings = settings
        self._patches = Patches()
        self.guard = Guard(rings, self._patches.undo)
        self._graphs = GraphWatch(rings, self.guard, self._patches)
        self._adapters = AdapterWatch(rings, self.guard, self._patches)
        self._ready = False
        self._serving = False
        self._batches = Batches()
        wrap = self._wrap
        wrap("init_device", None, after=self._device_is_there)
        wrap("load_model", "loading", after=self._is_loaded)
        wrap("determine_available_memory", "profiling", after=self._is_profiled)
        wrap("initialize_from_config", None, before=self._pool_is_coming, after=self._pool_is_there)
        wrap("compile_or_warm_up_model", "compiling", after=self._is_ready)
        wrap("sleep", "sleeping", after=self._rest)
        wrap("wake_up", "waking", after=self._wake)
        if callable(getattr(worker, "update_weights", None)):
            wrap("update_weights", "reloading", after=self._wake)
        wrap("shutdown", "draining", after=lambda _: self._phase("stopped"))
        self._patches.wrap(worker, "execute_model", self._execute_model)
        self._patches.wrap(worker, "sample_tokens", self._sample_tokens)
        self.guard.absent(self._patches.absent)
        self._phase("spawned")

    def _wrap(
        self,
        name: str,
        phase: str | None,
        after: Callable[[Any], None],
        before: Callable[..., None] | None = None,
    ) -> None:
        """Wrap a method that runs rarely: note the phase, what came out, and whether it failed."""

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def method(*args: Any, **kwargs: Any) -> Any:
                try:
                    if phase is not None:
                        self._phase(phase)
                    if before is not None:
                        before(*args)
                except Exception as error:
                    self.guard.failed(name, error)
                try:
                    result = original(*args, **kwargs)
                except Exception as error:
                    self._failed(error)
                    raise
                try:
                    after(result)
                except Exception as error:
                    self.guard.failed(name, error)
                return result

            return method

        self._patches.wrap(self._worker, name, make)

    def _execute_model(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Every step: the batch before it runs, because it may not come back."""
        mine, put = self._rings.mine, self._batches.put

        def execute_model(scheduler_output: Any, call: Callable[..., Any] = original) -> Any:
            try:
                if self._serving:
                    put(mine(), scheduler_output)
                elif self._ready:
                    # Before it was ready, there were only batches of the warm-up.
                    self._serving = True
                    self._phase("serving")
                    put(mine(), scheduler_output)
            except Exception as error:
                self.guard.failed("execute_model", error)
            try:
                return call(scheduler_output)
            except Exception as error:
                self._failed(error, len(getattr(scheduler_output, "num_scheduled_tokens", ())))
                raise

        return execute_model if takes_only(original, "scheduler_output") else pass_more(execute_model, original, 1)

    def _sample_tokens(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def sample_tokens(grammar_output: Any, call: Callable[..., Any] = original) -> Any:
            try:
                return call(grammar_output)
            except Exception as error:
                self._failed(error)
                raise

        return sample_tokens if takes_only(original, "grammar_output") else pass_more(sample_tokens, original, 1)

    def _failed(self, error: Exception, requests: int = 0) -> None:
        try:
            ring = self._rings.mine()
            if ring.active:
                # No engine outlives a start that fails; later the core knows, and says so in its own ring.
                failure.record(ring, error, fatal=not self._ready, requests=requests)
                memory.write_all(ring)
        except Exception as own:
            self.guard.failed("failed", own)

    def _phase(self, phase: str, detail: str | None = None) -> None:
        ring = self._rings.mine()
        if ring.active:
            ring.write(LIFECYCLE, pack_texts(detail), PHASES.index(phase), NULL_I32, NULL_I32)
            memory.write_all(ring)

    def _memory(self, component: str, lifetime: str, owner: str, size: int) -> None:
        if size != NULL_I64:
            values = COMPONENTS.index(component), LIFETIMES.index(lifetime), size
            self._rings.mine().write(MEMORY, pack_texts(owner), *values)

    def _device_is_there(self, _result: Any) -> None:
        cuda = memory.ready_cuda()
        if cuda is not None:
            budget = getattr(self._worker, "requested_memory", None)
            memory.write_device(self._rings.mine(), cuda, int(budget) if budget else NULL_I64)
            observer.attach(self._rings, self.guard, self._settings)
        self._graphs.attach(getattr(self._worker, "model_runner", None))

    def _is_loaded(self, _result: Any) -> None:
        self._phase("weights_loaded")
        runner = getattr(self._worker, "model_runner", None)
        size = getattr(runner, "model_memory_usage", None)
        if size:
            self._memory("weights", "worker", "loaded", int(size))
        self._adapters.attach(getattr(runner, "lora_manager", None))

    def _is_profiled(self, _result: Any) -> None:
        memory.write_all(self._rings.mine())
        for name, (component, lifetime, owner) in PROFILED.items():
            size = getattr(self._worker, name, None)
            if isinstance(size, int | float):
                self._memory(component, lifetime, owner, int(size))

    def _pool_is_coming(self, config: Any = None, *_: Any) -> None:
        blocks = int(getattr(config, "num_blocks", 0))
        size = sum(int(tensor.size) for tensor in getattr(config, "kv_cache_tensors", ()))
        if blocks and size:
            self._memory("kv_pool", "worker", "allocated", size)
            values = [NULL_I32, blocks - 1, NULL_I32, NULL_I32, size // blocks, *KV_POOL.nulls[5:]]
            self._rings.mine().write(KV_POOL, pack_texts("device"), *values)

    def _pool_is_there(self, _result: Any) -> None:
        self._phase("kv_allocated")

    def _is_ready(self, _result: Any) -> None:
        self._graphs.settle()
        self._phase("ready")
        self._ready = self._words.ready = True

    def _rest(self, _result: Any) -> None:
        self._serving = False

    def _wake(self, _result: Any) -> None:
        self._phase("serving")
        self._serving = True
