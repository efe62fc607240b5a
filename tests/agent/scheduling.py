"""A stand-in for vLLM's scheduler, with as much of it as the agent looks at. The real one is in tests/engine."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

BLOCK_TOKENS = 4


@dataclass(eq=False)
class Request:
    request_id: str
    num_prompt_tokens: int = 4
    max_tokens: int = 10
    num_computed_tokens: int = 0
    num_output_tokens: int = 0
    state: str = "WAITING"
    blocks: int = 0
    lora_request: Any = None

    @property
    def status(self) -> Any:
        return SimpleNamespace(name=self.state)

    def is_finished(self) -> bool:
        return self.state.startswith("FINISHED")


class BlockPool:
    def __init__(self, total: int) -> None:
        self.blocks = [0] * (total + 1)
        self.free_block_queue = SimpleNamespace(num_free_blocks=total)

    def get_new_blocks(self, count: int) -> list[int]:
        self.free_block_queue.num_free_blocks -= count
        return [1] * count

    def touch(self, blocks: list[int]) -> None:
        self.free_block_queue.num_free_blocks -= len(blocks)

    def free_blocks(self, blocks: Iterable[int]) -> None:
        self.free_block_queue.num_free_blocks += len(list(blocks))


class Manager:
    def __init__(self, total: int) -> None:
        self.block_pool = BlockPool(total)
        self.held: dict[str, int] = {}

    def get_block_ids(self, request_id: str) -> tuple[list[int]]:
        return ([1] * self.held.get(request_id, 0),)

    def free(self, request: Request) -> None:
        self.block_pool.free_blocks([1] * self.held.pop(request.request_id, 0))


@dataclass
class Scheduler:
    """Schedules everybody for the tokens that `budget` says, one where it says nothing."""

    total_blocks: int = 100
    budget: dict[str, int] = field(default_factory=dict)
    block_size: int = BLOCK_TOKENS
    connector: Any = None

    def __post_init__(self) -> None:
        self.kv_cache_manager = Manager(self.total_blocks)
        self.requests: dict[str, Request] = {}
        self.running: list[Request] = []
        self.waiting: list[Request] = []
        self.preempted: set[str] = set()

    def get_request_counts(self) -> tuple[int, int]:
        return len(self.running), len(self.waiting)

    def add_request(self, request: Request) -> None:
        there = self.requests.get(request.request_id)
        if there is not None:
            # More of its prompt, which it goes on with.
            there.num_prompt_tokens += request.num_prompt_tokens
            self.running.remove(there)
            self.waiting.append(there)
            return
        self.requests[request.request_id] = request
        self.waiting.append(request)

    def schedule(self) -> Any:
        new, ids, blocks, computed, outputs, scheduled = [], [], [], [], [], {}
        resumed = set()
        for request in [*self.running, *self.waiting]:
            name = request.request_id
            scheduled[name] = tokens = self.budget.get(name, 1)
            first = request in self.waiting and name not in self.preempted
            if request in self.waiting and not first:
                resumed.add(name)
            if first:
                self._grow(request, tokens)
                new.append(SimpleNamespace(
                    req_id=name, num_computed_tokens=request.num_computed_tokens, sampling_params=None,
                    block_ids=self.kv_cache_manager.get_block_ids(name),
                ))  # fmt: skip
            else:
                ids.append(name)
                computed.append(request.num_computed_tokens)
                outputs.append(request.num_output_tokens)
                grown = self._grow(request, tokens)
                blocks.append((grown,) if grown else None)
            request.num_computed_tokens += tokens
            request.state = "RUNNING"
        self.running += self.waiting
        self.waiting.clear()
        self.preempted.clear()
        cached = SimpleNamespace(
            req_ids=ids, resumed_req_ids=resumed, new_block_ids=blocks, num_computed_tokens=computed,
            num_output_tokens=outputs,
        )  # fmt: skip
        return SimpleNamespace(
            num_scheduled_tokens=scheduled, scheduled_new_reqs=new, scheduled_cached_reqs=cached,
            scheduled_spec_decode_tokens={}, total_num_scheduled_tokens=sum(scheduled.values()),
        )  # fmt: skip

    def update_from_output(self, output: Any, ends: Iterable[str]) -> None:
        for name in output.num_scheduled_tokens:
            request = self.requests.get(name)
            if request is not None and request.num_computed_tokens >= request.num_prompt_tokens:
                request.num_output_tokens += 1
        for name in ends:
            self.finish(self.requests[name])

    def finish(self, request: Request, state: str = "FINISHED_STOPPED") -> None:
        request.state = state
        self.running.remove(request)
        self._free_request(request)

    def preempt(self, request: Request) -> None:
        self.running.remove(request)
        self._preempt_request(request, 0.0)

    def _preempt_request(self, request: Request, _now: float) -> None:
        self.kv_cache_manager.free(request)
        request.num_computed_tokens = 0
        request.state = "PREEMPTED"
        self.preempted.add(request.request_id)
        self.waiting.insert(0, request)

    def _free_request(self, request: Request) -> None:
        self.kv_cache_manager.free(request)
        del self.requests[request.request_id]

    def _grow(self, request: Request, tokens: int) -> list[int]:
        held = self.kv_cache_manager.held
        need = -(-(request.num_computed_tokens + tokens) // BLOCK_TOKENS) - held.get(request.request_id, 0)
        held[request.request_id] = held.get(request.request_id, 0) + need
        return self.kv_cache_manager.block_pool.get_new_blocks(need) if need else []
