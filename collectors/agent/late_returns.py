"""Engines in which blocks may return later than their request ends: after a transfer, or as a step in flight lands."""

from collections.abc import Callable
from typing import Any

from oomctl.collectors.agent.guard import Guard, Patches
from oomctl.collectors.agent.requests import Followed
from oomctl.collectors.agent.timelines import Timelines


class LateReturns:
    """Writes when the blocks of a request that is followed are back.

    Args:
        scheduler: vLLM's Scheduler, constructed.
        guard: Counts the agent's own exceptions.
        timelines: Of the requests that are followed.
        plain: Nobody who ended waits for a transfer.

    Attributes:
        possible: Whether there are any here; else who ends has given all blocks back when `_free_request` returns.
    """

    def __init__(self, scheduler: Any, guard: Guard, timelines: Timelines, plain: bool) -> None:
        self._scheduler = scheduler
        self._guard = guard
        self._timelines = timelines
        self._defers = bool(getattr(scheduler, "defer_block_free", False))
        self._deferred: dict[int, Followed] = {}
        self.possible = self._defers or not plain

    def attach(self, patches: Patches) -> None:
        """From now on."""
        manager = self._scheduler.kv_cache_manager
        if self.possible:
            patches.wrap(manager, "free", self._free)
        if self._defers:
            patches.wrap(manager, "pop_blocks_for_free", self._pop_blocks_for_free)
            patches.wrap(self._scheduler, "_drain_deferred_frees", self._drain_deferred_frees)

    def forget(self) -> None:
        """Wait for nobody."""
        self._deferred.clear()

    def _free(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, timelines, followed = self._guard, self._timelines, self._timelines.followed

        def free(request: Any, *args: Any, **kwargs: Any) -> Any:
            answer = original(request, *args, **kwargs) if args or kwargs else original(request)
            try:
                # A preempted request gives its blocks back too, and lives on.
                if request.request_id in followed and request.is_finished():
                    timelines.returned(followed.pop(request.request_id))
            except Exception as error:
                guard.failed("free", error)
            return answer

        return free

    def _pop_blocks_for_free(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, timelines, followed = self._guard, self._timelines, self._timelines.followed

        def pop_blocks_for_free(request: Any, *args: Any, **kwargs: Any) -> Any:
            blocks = original(request, *args, **kwargs)
            try:
                if request.request_id in followed and request.is_finished():
                    one = followed.pop(request.request_id)
                    if blocks:
                        self._deferred[id(blocks)] = one
                    else:
                        timelines.returned(one)
            except Exception as error:
                guard.failed("pop_blocks_for_free", error)
            return blocks

        return pop_blocks_for_free

    def _drain_deferred_frees(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def drain_deferred_frees(*args: Any, **kwargs: Any) -> Any:
            answer = original(*args, **kwargs)
            try:
                if self._deferred:
                    pending = {id(blocks) for _, blocks in self._scheduler.deferred_frees}
                    for key in [key for key in self._deferred if key not in pending]:
                        self._timelines.returned(self._deferred.pop(key))
            except Exception as error:
                self._guard.failed("drain_deferred_frees", error)
            return answer

        return drain_deferred_frees
