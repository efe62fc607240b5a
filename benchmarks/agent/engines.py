"""A whole vLLM in this process, with the agent attached, and loads for it."""

import importlib
import os
import random
from pathlib import Path
from typing import Any

from benchmarks.agent.meter import Meter
from oomctl.collectors.agent import vllm as agent
from oomctl.collectors.agent.header import set_active
from oomctl.collectors.agent.reader import ring_paths

BLOCK_TOKENS = 32
PROMPT_TOKENS = 84
OUTPUT_TOKENS = 600
HOOKS = {
    ("vllm.v1.core.sched.scheduler", "Scheduler"): (
        "schedule", "update_from_output", "add_request", "_preempt_request", "_free_request",
    ),
    ("vllm.v1.core.block_pool", "BlockPool"): ("touch", "free_blocks"),
    ("vllm.v1.worker.cpu_worker", "CPUWorker"): ("execute_model", "sample_tokens"),
}  # fmt: skip
"""The methods that the agent wraps and that a step calls."""

_kept: list[Any] = []
"""Clients: when one is collected, it shuts its engine down."""


def make_core(model: Path, folder: Path, requests: int, tracked: int) -> Any:
    """An engine for so many requests at a time; its EngineCore.

    Args:
        model: The model's folder.
        folder: Where the rings go.
        requests: At most so many run.
        tracked: OOMCTL_TRACKED_REQUESTS.
    """
    _set_environment(folder, tracked)
    import vllm as engine

    agent.register()
    blocks = requests * (1024 // BLOCK_TOKENS) + 1
    made = engine.LLM(
        model=str(model), max_model_len=1024, max_num_seqs=requests, block_size=BLOCK_TOKENS, enforce_eager=True,
        kv_cache_memory_bytes=blocks * BLOCK_TOKENS * 1024, enable_prefix_caching=True, max_num_batched_tokens=8192,
    )  # fmt: skip
    _kept.append(made)
    return made.llm_engine.engine_core.engine_core


def make_metered_core(model: Path, folder: Path, requests: int, tracked: int) -> tuple[Any, Meter]:
    """The same, with clocks around each method that the agent wraps."""
    _set_environment(folder, tracked)
    meter = Meter({getattr(importlib.import_module(module), name): methods for (module, name), methods in HOOKS.items()})
    core = make_core(model, folder, requests, tracked)
    meter.watch(core.scheduler, core.scheduler.kv_cache_manager.block_pool, core.model_executor.driver_worker.worker)
    return core, meter


def _set_environment(folder: Path, tracked: int) -> None:
    """Read by vLLM when it is imported."""
    os.environ.update(
        OOMCTL_RING=str(folder), OOMCTL_TRACKED_REQUESTS=str(tracked), VLLM_ENABLE_V1_MULTIPROCESSING="0",
        HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", VLLM_CPU_OMP_THREADS_BIND="nobind", VLLM_LOGGING_LEVEL="ERROR",
        OMP_NUM_THREADS="1",
    )  # fmt: skip


class Switch:
    """Pauses and resumes the agent of this process by the control byte in its rings."""

    def __init__(self, folder: Path) -> None:
        self._rings = [path for path in ring_paths(folder) if path.name.startswith(("core-", "worker-"))]

    def __call__(self, active: bool) -> None:
        """Obeyed at the next step."""
        for path in self._rings:
            set_active(path, active)


class Load:
    """Keeps so many requests in an engine.

    Args:
        core: The EngineCore.
        running: How many.
    """

    def __init__(self, core: Any, running: int) -> None:
        self._core = core
        self._running = running
        self._rng = random.Random(5)

    def refill(self) -> None:
        """Add what has ended; at the first call, of any age."""
        from vllm import SamplingParams
        from vllm.v1.request import Request

        rng = self._rng
        while len(self._core.scheduler.requests) < self._running:
            parameters = SamplingParams(max_tokens=rng.randrange(OUTPUT_TOKENS // 2, OUTPUT_TOKENS), ignore_eos=True)
            prompt = [rng.randrange(4, 500) for _ in range(PROMPT_TOKENS)]
            name = f"cmpl-{rng.getrandbits(128):032x}-0-{rng.getrandbits(32):08x}"
            request = Request(name, prompt, parameters, None, block_hasher=self._core.request_block_hasher)
            self._core.scheduler.add_request(request)


def model_free_step(scheduler: Any) -> None:
    """One step of the real scheduler, with a made-up token for each request in place of a model."""
    from vllm.v1.outputs import ModelRunnerOutput

    output = scheduler.schedule()
    scheduler.get_grammar_bitmask(output)
    ids = list(output.num_scheduled_tokens)
    made = ModelRunnerOutput(
        req_ids=ids,
        req_id_to_index={name: index for index, name in enumerate(ids)},
        sampled_token_ids=[[7] for _ in ids],
    )
    scheduler.update_from_output(output, made)
