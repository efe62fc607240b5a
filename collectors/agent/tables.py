"""The block tables of an engine's KV cache manager, and when a request can next get blocks."""

from typing import Any

from oomctl.collectors.agent.kinds import EVENT
from oomctl.collectors.agent.requests import Followed, count_blocks

Growth = list[tuple[Followed, int, int, int, int]]
"""Requests that got blocks: who, the event, how many it holds then, how many of them are new, and the tokens that it was
scheduled for."""
_BLOCKS_CHANGED, _RESUMED = EVENT["blocks_changed"], EVENT["resumed"]


class BlockTables:
    """Finds who of the requests that are followed got blocks.

    A request that decodes gets a block every so many tokens. To look for it in the whole batch at each step would cost more
    than all else that the agent does in a step. So each is looked at when, at the earliest, its next token finds no room.

    Args:
        scheduler: vLLM's Scheduler, constructed.
    """

    __slots__ = ("_block_size", "_due", "_lookahead", "_manager", "_tables", "_tokens_a_step")

    def __init__(self, scheduler: Any) -> None:
        self._manager = scheduler.kv_cache_manager
        self._block_size = int(getattr(scheduler, "block_size", 0))
        self._lookahead = int(getattr(scheduler, "num_lookahead_tokens", 0))
        self._tokens_a_step = 1 + int(getattr(scheduler, "num_spec_tokens", 0))
        managers = getattr(getattr(self._manager, "coordinator", None), "single_type_managers", ())
        tables = [(getattr(one, "req_to_blocks", None), getattr(one, "block_size", 0)) for one in managers]
        # A version that keeps its tables elsewhere is asked for them.
        self._tables = tables if all(hasattr(table, "get") for table, _ in tables) else []
        self._due: dict[int, list[Followed]] = {}

    def forget(self) -> None:
        """Look at nobody any more."""
        self._due.clear()

    def held(self, request_id: str) -> tuple[int, int]:
        """Blocks that a request holds, over all KV cache groups, and the tokens that have room in them."""
        if not self._tables:
            blocks = count_blocks(self._manager.get_block_ids(request_id))
            return blocks, blocks * self._block_size
        counts = [(len(table.get(request_id) or ()), size) for table, size in self._tables]
        return sum(count for count, _ in counts), min(count * size for count, size in counts)

    def look(self, followed: Followed, step_id: int) -> None:
        """Look at it in that step."""
        followed.due_step = step_id
        self._due.setdefault(step_id, []).append(followed)

    def grown(self, step_id: int, output: Any) -> Growth:
        """Who got blocks in a step that was just scheduled.

        Args:
            step_id: Its number.
            output: Its SchedulerOutput.
        """
        growth: Growth = []
        for followed in self._due.pop(step_id, ()):
            if followed.due_step != step_id:
                # It was preempted, or has ended.
                continue
            request = followed.request
            tokens = output.num_scheduled_tokens.get(request.request_id, 0)
            blocks, room = self.held(request.request_id)
            if tokens and blocks != followed.blocks:
                again = request.request_id in output.scheduled_cached_reqs.resumed_req_ids
                event = _RESUMED if again else _BLOCKS_CHANGED
                growth.append((followed, event, blocks, blocks - followed.blocks, tokens))
                followed.blocks = blocks
            computed = request.num_computed_tokens
            # Steps of a prompt take as many tokens as the scheduler likes.
            one_by_one = 0 < tokens <= self._tokens_a_step and computed >= followed.prompt_tokens
            spare = (room - computed - self._lookahead) // self._tokens_a_step if one_by_one else 0
            self.look(followed, step_id + 1 + max(spare, 0))
        return growth
