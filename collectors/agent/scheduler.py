"""vLLM's scheduler, watched: wrapped on the one object, and let go again when told to pause."""

import time
from collections.abc import Callable
from typing import Any

from oomctl.collectors.agent import failure
from oomctl.collectors.agent.guard import LIMIT, Guard, Patches
from oomctl.collectors.agent.requests import Followed
from oomctl.collectors.agent.ring import Rings
from oomctl.collectors.agent.settings import Settings
from oomctl.collectors.agent.steps import Flight, StepRecorder

MAX_FLIGHTS = 16
"""Steps that may be between schedule and update_from_output; more have lost their end."""

_monotonic_ns = time.monotonic_ns


class SchedulerWatch:
    """Attached to one scheduler; `schedule` stays wrapped for as long as it lives, the rest while active.

    Args:
        scheduler: vLLM's Scheduler, constructed.
        rings: Where to.
        settings: What is wanted.
    """

    def __init__(self, scheduler: Any, rings: Rings, settings: Settings) -> None:
        self.scheduler = scheduler
        self.guard = Guard(rings, self.detach)
        self._ring = rings.mine()
        self._steps = StepRecorder(scheduler, self._ring, self.guard, settings)
        self._patches = Patches()
        self._attached = False
        self._flights: dict[int, Flight] = {}
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
        patches.wrap(scheduler, "get_grammar_bitmask", self._get_grammar_bitmask)
        patches.wrap(scheduler, "update_from_output", self._update_from_output)
        patches.wrap(scheduler, "add_request", self._add_request)
        patches.wrap(scheduler, "_preempt_request", self._preempt_request)
        patches.wrap(scheduler, "_free_request", self._free_request)
        patches.wrap(manager, "free", self._free)
        if getattr(scheduler, "defer_block_free", False):
            patches.wrap(manager, "pop_blocks_for_free", self._pop_blocks_for_free)
            patches.wrap(scheduler, "_drain_deferred_frees", self._drain_deferred_frees)
        self.guard.absent(patches.absent)
        self._steps.adopt()

    def detach(self) -> None:
        """Put all back but `schedule`, which looks whether to attach again."""
        self._patches.undo()
        self._attached = False
        self._flights.clear()
        self._deferred.clear()
        self._steps.forget()

    def failed(self, error: Exception, output: Any = None) -> None:
        """The engine failed in a step: what, where, in which batch, and with whom alive.

        Args:
            error: As caught.
            output: The step's SchedulerOutput, where it got that far.
        """
        try:
            flight = self._flights.pop(id(output), None)
            if flight is not None:
                self._steps.describe(flight)
                self._steps.write_step(flight, dumped=1)
            failure.record(self._ring, error, fatal=True, requests=len(getattr(output, "num_scheduled_tokens", ())))
            self._steps.alive(output)
        except Exception as own:
            self.guard.failed("failed", own)

    # The wrappers. Each calls the original once, and lets the engine's own exceptions through.

    def _schedule(self, original: Callable[..., Any]) -> Callable[..., Any]:
        ring, guard, flights, steps = self._ring, self.guard, self._flights, self._steps

        def schedule(*args: Any, **kwargs: Any) -> Any:
            if ring.active is not self._attached and guard.errors < LIMIT:
                try:
                    self.attach() if ring.active else self.detach()
                except Exception as error:
                    guard.failed("attach", error)
            if not self._attached:
                return original(*args, **kwargs)
            started = _monotonic_ns()
            try:
                output = original(*args, **kwargs)
            except Exception as error:
                self.failed(error)
                raise
            steps.steps += 1
            if len(flights) >= MAX_FLIGHTS:
                flights.clear()
            flights[id(output)] = Flight(output, started, steps.steps)
            return output

        return schedule

    def _get_grammar_bitmask(self, original: Callable[..., Any]) -> Callable[..., Any]:
        flights, guard, steps = self._flights, self.guard, self._steps

        def get_grammar_bitmask(output: Any, *args: Any, **kwargs: Any) -> Any:
            # The step was dispatched: from here on the engine waits for the device anyway.
            try:
                flight = flights.get(id(output))
                if flight is not None:
                    steps.describe(flight)
            except Exception as error:
                guard.failed("get_grammar_bitmask", error)
            return original(output, *args, **kwargs)

        return get_grammar_bitmask

    def _update_from_output(self, original: Callable[..., Any]) -> Callable[..., Any]:
        flights, guard, steps = self._flights, self.guard, self._steps

        def update_from_output(output: Any, result: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                # Before the original: a request that ends in this step has to have begun.
                flight = flights.get(id(output))
                if flight is not None and not flight.described:
                    steps.describe(flight)
            except Exception as error:
                guard.failed("update_from_output", error)
            try:
                answer = original(output, result, *args, **kwargs)
            except Exception as error:
                self.failed(error, output)
                raise
            try:
                flight = flights.pop(id(output), None)
                if flight is not None:
                    steps.end(flight, result)
            except Exception as error:
                guard.failed("update_from_output", error)
            return answer

        return update_from_output

    def _add_request(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def add_request(request: Any, *args: Any, **kwargs: Any) -> Any:
            answer = original(request, *args, **kwargs)
            try:
                self._steps.arrived(request)
            except Exception as error:
                self.guard.failed("add_request", error)
            return answer

        return add_request

    def _preempt_request(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def preempt_request(request: Any, *args: Any, **kwargs: Any) -> Any:
            computed = getattr(request, "num_computed_tokens", 0)
            answer = original(request, *args, **kwargs)
            try:
                self._steps.preempted(request, computed)
            except Exception as error:
                self.guard.failed("preempt_request", error)
            return answer

        return preempt_request

    def _free_request(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def free_request(request: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                self._steps.ended(request)
            except Exception as error:
                self.guard.failed("free_request", error)
            return original(request, *args, **kwargs)

        return free_request

    def _free(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def free(request: Any, *args: Any, **kwargs: Any) -> Any:
            answer = original(request, *args, **kwargs)
            try:
                # A preempted request gives its blocks back too, and lives on.
                if request.is_finished():
                    self._steps.returned(self._steps.followed.pop(request.request_id, None))
            except Exception as error:
                self.guard.failed("free", error)
            return answer

        return free

    def _pop_blocks_for_free(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def pop_blocks_for_free(request: Any, *args: Any, **kwargs: Any) -> Any:
            blocks = original(request, *args, **kwargs)
            try:
                if request.is_finished():
                    followed = self._steps.followed.pop(request.request_id, None)
                    if followed is not None and blocks:
                        self._deferred[id(blocks)] = followed
                    else:
                        self._steps.returned(followed)
            except Exception as error:
                self.guard.failed("pop_blocks_for_free", error)
            return blocks

        return pop_blocks_for_free

    def _drain_deferred_frees(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def drain_deferred_frees(*args: Any, **kwargs: Any) -> Any:
            answer = original(*args, **kwargs)
            try:
                if self._deferred:
                    pending = {id(blocks) for _, blocks in self.scheduler.deferred_frees}
                    for key in [key for key in self._deferred if key not in pending]:
                        self._steps.returned(self._deferred.pop(key))
            except Exception as error:
                self.guard.failed("drain_deferred_frees", error)
            return answer

        return drain_deferred_frees
