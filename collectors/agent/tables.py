"""The block tables of an engine's KV cache manager, and when a request can next get blocks."""

import sys
from typing import Any

from oomctl.collectors.agent.kinds import EVENT
from oomctl.collectors.agent.requests import Followed, count_blocks
from oomctl.collectors.agent.ring import Ring

LOOK_STEPS = 8
"""A request that decodes is looked at in steps whose number is a multiple of this. The first look of a step costs 14 us,
because what it touches is in no cache; each one more half of that."""
FURTHEST_STEPS = 32 * LOOK_STEPS
"""However much room a request has, it is looked at then: who is due keeps the engine's request alive, also when it ended.
Blocks of a whole context, as state space models have them, would keep thousands."""

_BLOCKS_CHANGED, _RESUMED = EVENT["blocks_changed"], EVENT["resumed"]


class BlockTables:
    """Finds who of the requests that are followed got blocks, and writes it.

    A request that decodes gets a block every so many tokens. To look for it in the whole batch at each step would cost more
    than all else that the agent does in a step. So each is looked at when, at the earliest, its next token has found no
    room, together with others (LOOK_STEPS); what it got is written by then, and before it ends or is preempted. In its
    prompt it is looked at in every step.

    Args:
        scheduler: vLLM's Scheduler, constructed.
        ring: Of the thread that runs it.

    Attributes:
        due: Who is looked at in which step.
    """

    __slots__ = ("_block_size", "_lookahead", "_manager", "_ring", "_tables", "_tokens_a_step", "due")

    def __init__(self, scheduler: Any, ring: Ring) -> None:
        self._ring = ring
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
        """Blocks that a request holds, over all KV cache groups, and the tokens that have room in them.

        A block that its group's window has left behind counts too: the engine keeps its place in the table.
        """
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
        if step_id in self.due:
            self.due[step_id].append(followed)
        else:
            self.due[step_id] = [followed]

    def look_soon(self, followed: Followed, step_id: int) -> None:
        """Look at it in that step; where it decodes, together with others."""
        decodes = followed.request.num_computed_tokens >= followed.prompt_tokens
        self.look(followed, step_id + -step_id % LOOK_STEPS if decodes else step_id)

    def catch_up(self, followed: Followed, step_id: int) -> None:
        """Write what it got since it was looked at, and look no more: its blocks are about to come back."""
        followed.due_step = 0
        blocks, _ = self.held(followed.request.request_id)
        if blocks != followed.blocks:
            followed.write(self._ring, _BLOCKS_CHANGED, step_id, blocks - followed.blocks)

    def grown(self, step_id: int, output: Any) -> None:
        """Write who got blocks up to a step that was just scheduled: now, while the engine has it in the caches.

        Args:
            step_id: Its number.
            output: Its SchedulerOutput.
        """
        scheduled, resumed = output.num_scheduled_tokens, output.scheduled_cached_reqs.resumed_req_ids
        tables, lookahead, tokens_a_step, due = self._tables, self._lookahead, self._tokens_a_step, self.due
        for followed in due.pop(step_id):
            if followed.due_step != step_id:
                # It was preempted, or has ended.
                continue
            request = followed.request
            request_id = request.request_id
            computed = request.num_computed_tokens
            blocks, room = 0, sys.maxsize
            # As `held`, which costs more to call than this.
            for table, size in tables:
                count = len(table.get(request_id) or ())
                blocks += count
                if count * size < room:
                    room = count * size
            if not tables:
                blocks, room = self.held(request_id)
            if blocks != followed.blocks:
                event = _RESUMED if request_id in resumed else _BLOCKS_CHANGED
                tokens = scheduled.get(request_id, 0)
                followed.write(self._ring, event, step_id, blocks - followed.blocks, scheduled=tokens)
            next_step = step_id + 1
            # Steps of a prompt take as many tokens as the scheduler likes.
            if computed >= followed.prompt_tokens:
                steps = (room - computed - lookahead) // tokens_a_step
                if steps > 0:
                    next_step += steps if steps < FURTHEST_STEPS else FURTHEST_STEPS
                next_step += -next_step % LOOK_STEPS
            followed.due_step = next_step
            if next_step in due:
                due[next_step].append(followed)
            else:
                due[next_step] = [followed]
