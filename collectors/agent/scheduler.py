"""vLLM's scheduler, watched: wrapped on the one object, and let go again when told to pause."""

import time
from collections.abc import Callable
from typing import Any

from oomctl.collectors.agent import failure
from oomctl.collectors.agent.guard import LIMIT, Guard, Patches, pass_more, takes_only
from oomctl.collectors.agent.late_returns import LateReturns
from oomctl.collectors.agent.rings import Rings
from oomctl.collectors.agent.settings import Settings
from oomctl.collectors.agent.steps import StepRecorder
from oomctl.collectors.agent.tables import BlockTables
from oomctl.collectors.agent.timelines import Timelines

_monotonic_ns = time.monotonic_ns
_UNSET = object()


class SchedulerWatch:
    """Attached to one scheduler; `schedule` stays wrapped for as long as it lives, the rest while active.

    Args:
        scheduler: vLLM's Scheduler, constructed.
        rings: Where to.
        settings: What is wanted.
    """

    __slots__ = ("_attached", "_late", "_patches", "_ring", "_steps", "_timelines", "guard", "scheduler")

    def __init__(self, scheduler: Any, rings: Rings, settings: Settings) -> None:
        self.scheduler = scheduler
        self.guard = Guard(rings, self.detach)
        self._ring = rings.mine()
        tables = BlockTables(scheduler, self._ring)
        self._timelines = Timelines(scheduler, self._ring, settings.tracked_requests, tables)
        self._steps = StepRecorder(scheduler, self._ring, self.guard, self._timelines, tables)
        self._late = LateReturns(scheduler, self.guard, self._timelines, self._steps.plain)
        self._patches = Patches()
        self._attached = False
        always = Patches()
        always.wrap(scheduler, "schedule", self._schedule)
        self.guard.absent(always.absent)
        self.attach()

    def attach(self) -> None:
        """Wrap the methods, count anew from the pool, and take over the requests that are there."""
        scheduler = self.scheduler
        patches = self._patches = Patches()
        self._attached = True
        for pool in self._steps.pools:
            pool.attach(patches)
        patches.wrap(scheduler, "update_from_output", self._update_from_output)
        patches.wrap(scheduler, "add_request", self._add_request)
        patches.wrap(scheduler, "_preempt_request", self._preempt_request)
        patches.wrap(scheduler, "_free_request", self._free_request)
        self._late.attach(patches)
        self.guard.absent(patches.absent)
        self._timelines.adopt()
        self._steps.adopt()

    def detach(self) -> None:
        """Put all back but `schedule`, which looks whether to attach again."""
        self._patches.undo()
        self._attached = False
        self._late.forget()
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

    # The wrappers. Each calls the original once, and lets the engine's own exceptions through. Those of every step have the
    # arguments of the versions that are known, by name: `*args` and `**kwargs` cost 1.2 us more when the caches are cold.
    # Any other version's are packed into `call` (`pass_more`).

    def _schedule(self, original: Callable[..., Any]) -> Callable[..., Any]:
        ring, guard, steps, begin = self._ring, self.guard, self._steps, self._steps.begin
        main, *others = steps.pools

        def schedule(throttle_prefills: Any = _UNSET, call: Callable[..., Any] = original) -> Any:
            if not self._attached:
                if not ring.active or guard.errors >= LIMIT:
                    return call() if throttle_prefills is _UNSET else call(throttle_prefills)
                try:
                    self.attach()
                except Exception as error:
                    guard.failed("attach", error)
            try:
                if main.expected_free != main.queue.num_free_blocks:
                    steps.tell_mismatch(main)
                if others:
                    for pool in others:
                        if pool.expected_free != pool.queue.num_free_blocks:
                            steps.tell_mismatch(pool)
            except Exception as error:
                guard.failed("schedule", error)
            started_ns = _monotonic_ns()
            try:
                output = call() if throttle_prefills is _UNSET else call(throttle_prefills)
            except Exception as error:
                self.failed(error)
                raise
            try:
                begin(output, started_ns)
            except Exception as error:
                guard.failed("schedule", error)
            return output

        if takes_only(original) or takes_only(original, "throttle_prefills"):
            return schedule
        return pass_more(schedule, original, 0)

    def _update_from_output(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, end = self.guard, self._steps.end

        def update_from_output(scheduler_output: Any, model_runner_output: Any, call: Callable[..., Any] = original) -> Any:
            try:
                answer = call(scheduler_output, model_runner_output)
            except Exception as error:
                self.failed(error, scheduler_output)
                raise
            try:
                if not end(scheduler_output, model_runner_output):
                    self.detach()
            except Exception as error:
                guard.failed("update_from_output", error)
            return answer

        if takes_only(original, "scheduler_output", "model_runner_output"):
            return update_from_output
        return pass_more(update_from_output, original, 2)

    def _add_request(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, arrived = self.guard, self._timelines.arrived

        def add_request(request: Any, call: Callable[..., Any] = original) -> Any:
            answer = call(request)
            try:
                arrived(request)
            except Exception as error:
                guard.failed("add_request", error)
            return answer

        return add_request if takes_only(original, "request") else pass_more(add_request, original, 1)

    def _preempt_request(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, steps, timelines, followed = self.guard, self._steps, self._timelines, self._timelines.followed

        def preempt_request(request: Any, *args: Any, **kwargs: Any) -> Any:
            computed, one = getattr(request, "num_computed_tokens", 0), None
            try:
                one = followed.get(request.request_id)
                if one is not None:
                    timelines.leaves(one)
            except Exception as error:
                guard.failed("preempt_request", error)
            answer = original(request, *args, **kwargs)
            try:
                steps.preempted(request.request_id, computed)
                if one is not None:
                    timelines.preempted(one)
            except Exception as error:
                guard.failed("preempt_request", error)
            return answer

        return preempt_request

    def _free_request(self, original: Callable[..., Any]) -> Callable[..., Any]:
        guard, timelines, followed = self.guard, self._timelines, self._timelines.followed
        ended, returns_late = self._steps.ended, self._late.possible

        def free_request(request: Any, delay_free_blocks: Any = _UNSET, call: Callable[..., Any] = original) -> Any:
            one = None
            try:
                request_id = request.request_id
                ended(request_id)
                one = followed.get(request_id)
                if one is not None:
                    timelines.ended(one)
            except Exception as error:
                guard.failed("free_request", error)
            answer = call(request) if delay_free_blocks is _UNSET else call(request, delay_free_blocks)
            if one is not None and not returns_late:
                try:
                    timelines.returned(followed.pop(request_id))
                except Exception as error:
                    guard.failed("free_request", error)
            return answer

        if takes_only(original, "request") or takes_only(original, "request", "delay_free_blocks"):
            return free_request
        return pass_more(free_request, original, 1)
