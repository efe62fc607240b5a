"""Device graphs as they are captured: what each shape took, what all took, or that the engine runs without."""

from collections.abc import Callable
from typing import Any

from oomctl.collectors.agent import memory
from oomctl.collectors.agent.guard import Guard, Patches
from oomctl.collectors.agent.kinds import GRAPH, LIFECYCLE, PHASES
from oomctl.collectors.agent.layout import NULL_I32, NULL_I64, NULL_U8, pack_texts
from oomctl.collectors.agent.rings import Rings
from oomctl.collectors.agent.watch import Watch


class GraphWatch(Watch):
    """Watches one model runner."""

    def __init__(self, rings: Rings, guard: Guard, patches: Patches) -> None:
        super().__init__(rings, guard, patches)
        self._captured = False

    def attach(self, runner: Any) -> None:
        """From now on; the V1 runner tells each shape, the V2 runner only the whole."""
        if runner is None:
            return
        if callable(getattr(runner, "_warmup_and_capture", None)):
            self._patches.wrap(runner, "_warmup_and_capture", self._one)
        if callable(getattr(runner, "capture_model", None)):
            self._patches.wrap(runner, "capture_model", self._all)

    def settle(self) -> None:
        """The warm-up is over: without a capture the engine runs eagerly."""
        if not self._captured:
            self._rings.mine().write(GRAPH, pack_texts(None, None, "eager"), *GRAPH.nulls[:3], NULL_U8)

    def _one(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def warmup_and_capture(*args: Any, **kwargs: Any) -> Any:
            before = memory.used_bytes()
            result = original(*args, **kwargs)
            try:
                desc = args[0] if args else kwargs.get("desc")
                mode = kwargs.get("cudagraph_runtime_mode") or (args[1] if len(args) > 1 else None)
                self._write(str(getattr(desc, "num_tokens", desc)), before, getattr(mode, "name", None))
            except Exception as error:
                self._guard.failed("warmup_and_capture", error)
            return result

        return warmup_and_capture

    def _all(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def capture_model(*args: Any, **kwargs: Any) -> Any:
            before = memory.used_bytes()
            try:
                self._rings.mine().write(LIFECYCLE, pack_texts(), PHASES.index("capturing"), NULL_I32, NULL_I32)
            except Exception as error:
                self._guard.failed("capture_model", error)
            result = original(*args, **kwargs)
            try:
                if result:
                    self._write("all", before, None, int(result))
            except Exception as error:
                self._guard.failed("capture_model", error)
            return result

        return capture_model

    def _write(self, shape: str, before: int, mode: str | None, size: int = NULL_I64) -> None:
        self._captured = True
        after = memory.used_bytes()
        if size == NULL_I64 and before != NULL_I64:
            size = after - before
        self._rings.mine().write(GRAPH, pack_texts(shape, None, mode), before, after, size, NULL_U8)
