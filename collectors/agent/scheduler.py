"""vLLM's scheduler, watched: wrapped on the one object, and let go again when told to pause."""

import time
from collections.abc import Callable
from typing import Any

from oomctl.collectors.agent import failure
from oomctl.collectors.agent.guard import LIMIT, Guard, Patches
from oomctl.collectors.agent.requests import Followed
from oomctl.collectors.agent.rings import Rings
from oomctl.collectors.agent.settings import Settings
from oomctl.collectors.agent.steps import StepRecorder
from oomctl.collectors.agent.tables import BlockTables
from oomctl.collectors.agent.timelines import Timelines

_monotonic_ns = time.monotonic_ns


class SchedulerWatch:
    """Attached to one scheduler; `schedule` stays wrapped for as long as it lives, the rest while active.

    Args:
        scheduler: vLLM's Scheduler, constructed.
        rings: Where to.
        settings: What is wanted.
    """

    __slots__ = ("_attached", "_deferred", "_patches", "_ring", "_steps", "_timelines", "guard", "scheduler")

    def __init__(self, scheduler: Any, rings: Rings, settings: Settings) -> None:
        self.scheduler = scheduler
        self.guard = Guard(rings, self.detach)
        self._ring = rings.mine()
        tables = BlockTables(scheduler)
        self._timelines = Timelines(scheduler, self._ring, settings.tracked_requests, tables)
        self._steps = StepRecorder(scheduler, self._ring, self.guard, self._timelines, tables)
        self._patches = Patches()
        self._attached = False
        self._deferred: dict[int, Followed] = {}
        always = Patches()
        always.wrap(scheduler, "schedule", self._schedule)
        self.guard.absent(always.absent)
        self.attach()

    def attach(self) -> None:
        """Wrap the methods, count anew from the pool, and take over the requests that are there."""
        scheduler, manager = self.scheduler, self.scheduler.kv_cache_manager
        patches = self._patches = Patches()
        self._attached = True
        for pool in self._steps.pools:
            pool.attach(patches)
        patches.wrap(scheduler, "update_from_output", self._update_from_output)
        patches.wrap(scheduler, "add_request", self._add_request)
        patches.wrap(scheduler, "_preempt_request", self._preempt_request)
        patches.wrap(scheduler, "_free_request", self._free_request)
        patches.wrap(manager, "free", self._free)
        if getattr(scheduler, "defer_block_free", False):
            patches.wrap(manager, "pop_blocks_for_free", self._pop_blocks_for_free)
            patches.wrap(scheduler, "_drain_deferred_frees", self._drain_deferred_frees)
        self.guard.absent(patches.absent)
        self._timelines.adopt()
        self._steps.adopt()

    def detach(self) -> None:
        """Put all back but `schedule`, which looks whether to attach again."""
        self._patches.undo()
        self._attached = False
        self._deferred.clear()
        self._steps.forget()
        self._timelines.forget()

    def failed(self, error: Exception, output: Any = None) -> None:
        """The engine failed in a step: what, where, in which batch, and with whom alive.

        Args:
            error: As caught.
            output: The step's SchedulerOutput, where it got that far.
        """
        try:
            self._steps.end(output, None, dumped=1)
            failure.record(self._ring, error, fatal=True, requests=len(getattr(output, "num_scheduled_tokens", ())))
            self._timelines.alive(output)
        except Exception as own:
            self.guard.failed("failed", own)

    # The wrappers. Each calls the original once, and lets the engine's own exceptions through. What may be passed in some
    # version is passed on, but only if it is there: a call with `**` costs 1.5 us more when the caches are cold.

    def _schedule(self, original: Callable[..., Any]) -> Callable[..., Any]:
        ring, guard, steps, begin, pools = self._ring, self.guard, self._steps, self._steps.begin, self._steps.pools

        def schedule(*args: Any, **kwargs: Any) -> Any:
            if not self._attached:
                if not ring.active or guard.errors >= LIMIT:
                    return original(*args, **kwargs)
                try:
                    self.attach()
                except Exception as error:
                    guard.failed("attach", error)
            try:
                for pool in pools:
                    if pool.expected_free != pool.queue.num_free_blocks:
                        steps.tell_mismatch(pool)
            except Exception as error:
                guard.failed("schedule", error)
            started_ns = _monotonic_ns()
            try:
                output = original(*args, **kwargs) if kwargs else original(*args)
            except Exception as error:
                self.failed(error)
                raise
            try:
                begin(output, started_ns)
            except Exception as error:
                guard.failed("schedule", error)
            return output

        return schedule

    def _update_from_output(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, end = self.guard, self._steps.end

        def update_from_output(output: Any, result: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                answer = original(output, result, *args, **kwargs) if args or kwargs else original(output, result)
            except Exception as error:
                self.failed(error, output)
                raise
            try:
                if not end(output, result):
                    self.detach()
            except Exception as error:
                guard.failed("update_from_output", error)
            return answer

        return update_from_output

    def _add_request(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, arrived = self.guard, self._timelines.arrived

        def add_request(request: Any, *args: Any, **kwargs: Any) -> Any:
            answer = original(request, *args, **kwargs) if args or kwargs else original(request)
            try:
                arrived(request)
            except Exception as error:
                guard.failed("add_request", error)
            return answer

        return add_request

    def _preempt_request(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, steps, timelines, followed = self.guard, self._steps, self._timelines, self._timelines.followed

        def preempt_request(request: Any, *args: Any, **kwargs: Any) -> Any:
            computed = getattr(request, "num_computed_tokens", 0)
            answer = original(request, *args, **kwargs)
            try:
                steps.preempted(request.request_id, computed)
                if request.request_id in followed:
                    steps.tell_growth()
                    timelines.preempted(followed[request.request_id])
            except Exception as error:
                guard.failed("preempt_request", error)
            return answer

        return preempt_request

    def _free_request(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, steps, timelines, followed = self.guard, self._steps, self._timelines, self._timelines.followed

        def free_request(request: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                steps.ended(request.request_id)
                if request.request_id in followed:
                    steps.tell_growth()
                    timelines.ended(followed[request.request_id])
            except Exception as error:
                guard.failed("free_request", error)
            return original(request, *args, **kwargs) if args or kwargs else original(request)

        return free_request

    def _free(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, timelines, followed = self.guard, self._timelines, self._timelines.followed

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
        guard, timelines, followed = self.guard, self._timelines, self._timelines.followed

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
                    pending = {id(blocks) for _, blocks in self.scheduler.deferred_frees}
                    for key in [key for key in self._deferred if key not in pending]:
                        self._timelines.returned(self._deferred.pop(key))
            except Exception as error:
                self.guard.failed("drain_deferred_frees", error)
            return answer

        return drain_deferred_frees
