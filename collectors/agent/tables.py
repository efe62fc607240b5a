"""The block tables of an engine's KV cache manager, and when a request can next get blocks."""

import sys
from typing import Any

from oomctl.collectors.agent.kinds import EVENT
from oomctl.collectors.agent.requests import Followed, count_blocks
from oomctl.collectors.agent.step_slots import Growth

_BLOCKS_CHANGED, _RESUMED = EVENT["blocks_changed"], EVENT["resumed"]


class BlockTables:
    """Finds who of the requests that are followed got blocks.

    A request that decodes gets a block every so many tokens. To look for it in the whole batch at each step would cost more
    than all else that the agent does in a step. So each is looked at when, at the earliest, its next token finds no room.

    Args:
        scheduler: vLLM's Scheduler, constructed.

    Attributes:
        due: Who is looked at in which step.
    """

    __slots__ = ("_block_size", "_lookahead", "_manager", "_tables", "_tokens_a_step", "due")

    def __init__(self, scheduler: Any) -> None:
        self._manager = scheduler.kv_cache_manager
        self._block_size = int(getattr(scheduler, "block_size", 0))
        self._lookahead = int(getattr(scheduler, "num_lookahead_tokens", 0))
        self._tokens_a_step = 1 + int(getattr(scheduler, "num_spec_tokens", 0))
        managers = getattr(getattr(self._manager, "coordinator", None), "single_type_managers", ())
        # A version that keeps its tables elsewhere is asked for them.
        known = all(hasattr(one, "req_to_blocks") and hasattr(one, "block_size") for one in managers)
        self._tables: list[tuple[Any, int]] = [(one.req_to_blocks, one.block_size) for one in managers] if known else []
        self.due: dict[int, list[Followed]] = {}

    def forget(self) -> None:
        """Look at nobody any more."""
        self.due.clear()

    def held(self, request_id: str) -> tuple[int, int]:
        """Blocks that a request holds, over all KV cache groups, and the tokens that have room in them."""
        if not self._tables:
            blocks = count_blocks(self._manager.get_block_ids(request_id))
            return blocks, blocks * self._block_size
        blocks, room = 0, sys.maxsize
        for table, size in self._tables:
            count = len(table.get(request_id) or ())
            blocks += count
            if count * size < room:
                room = count * size
        return blocks, room

    def look(self, followed: Followed, step_id: int) -> None:
        """Look at it in that step."""
        followed.due_step = step_id
        self.due.setdefault(step_id, []).append(followed)

    def grown(self, step_id: int, output: Any) -> Growth:
        """Who got blocks in a step that was just scheduled. All is noted now, while the engine has it in the caches.

        Args:
            step_id: Its number.
            output: Its SchedulerOutput.
        """
        growth: Growth = []
        for followed in self.due.pop(step_id, ()):
            if followed.due_step != step_id:
                # It was preempted, or has ended.
                continue
            request = followed.request
            request_id = request.request_id
            tokens = output.num_scheduled_tokens.get(request_id, 0)
            computed = request.num_computed_tokens
            blocks, room = 0, sys.maxsize
            # As `held`, which costs more to call than this.
            for table, size in self._tables:
                count = len(table.get(request_id) or ())
                blocks += count
                if count * size < room:
                    room = count * size
            if not self._tables:
                blocks, room = self.held(request_id)
            if tokens and blocks != followed.blocks:
                event = _RESUMED if request_id in output.scheduled_cached_reqs.resumed_req_ids else _BLOCKS_CHANGED
                outputs = request.num_output_tokens
                growth.append((followed, event, blocks, blocks - followed.blocks, tokens, computed, outputs))
                followed.blocks = blocks
            # Steps of a prompt take as many tokens as the scheduler likes.
            due = step_id + 1
            if 0 < tokens <= self._tokens_a_step and computed >= followed.prompt_tokens:
                steps = (room - computed - self._lookahead) // self._tokens_a_step
                if steps > 0:
                    due += steps
            followed.due_step = due
            if due in self.due:
                self.due[due].append(followed)
            else:
                self.due[due] = [followed]
        return growth
