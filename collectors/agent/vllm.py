"""Where the agent meets vLLM: the entry point of its general plugins, and what it attaches to in each process."""

import importlib
import multiprocessing
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from oomctl.collectors.agent import timer
from oomctl.collectors.agent.attach import attach_if_wanted, make_rings
from oomctl.collectors.agent.client import ClientWatch
from oomctl.collectors.agent.kinds import LIFECYCLE, MANIFEST, PHASES
from oomctl.collectors.agent.last_words import LastWords
from oomctl.collectors.agent.layout import NULL_I32, pack_texts
from oomctl.collectors.agent.ring import Ring
from oomctl.collectors.agent.rings import Rings, tell
from oomctl.collectors.agent.scheduler import SchedulerWatch
from oomctl.collectors.agent.settings import Settings
from oomctl.collectors.agent.worker import WorkerWatch

ARGUMENTS = (
    ("model_config", ("model", "revision", "dtype", "quantization", "max_model_len", "enforce_eager", "max_logprobs")),
    (
        "cache_config",
        ("gpu_memory_utilization", "block_size", "kv_cache_memory_bytes", "num_gpu_blocks_override",
         "enable_prefix_caching", "cache_dtype", "swap_space", "cpu_offload_gb"),
    ),
    (
        "scheduler_config",
        ("max_num_seqs", "max_num_batched_tokens", "enable_chunked_prefill", "async_scheduling"),
    ),
    ("parallel_config", ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "enable_expert_parallel")),
    ("lora_config", ("max_loras", "max_lora_rank", "max_cpu_loras")),
)  # fmt: skip
"""Of vLLM's configuration, what matters for memory; named as its command line names it."""
RENAMED = {"cache_dtype": "kv_cache_dtype"}

_attached: list[Any] = []
_schedulers: dict[int, SchedulerWatch] = {}


def register() -> None:
    """Called by vLLM in each of its processes. Does nothing unless OOMCTL_RING is set, and never raises."""
    if not _attached:
        attach_if_wanted(attach)


def attach(wanted: Settings) -> None:
    """Wrap the constructors: vLLM loads plugins before it makes the objects, but after it made the engine core."""
    scheduler = importlib.import_module("vllm.v1.core.sched.scheduler").Scheduler
    worker = importlib.import_module("vllm.v1.worker.worker_base").WorkerBase
    core = importlib.import_module("vllm.v1.engine.core").EngineCore
    words = LastWords("vllm", lambda role: _rings(wanted, role, rank_name=multiprocessing.current_process().name))
    _watch_init(scheduler, lambda made: _attach_scheduler(made, wanted, words), partial(words.heard, role="core"))
    _watch_init(worker, lambda made: _attach_worker(made, wanted, words), partial(words.heard, role="worker"))
    # Where it is constructed in a process of its own, this comes too late, and its log tells instead.
    _watch_init(core, lambda made: None, partial(words.heard, role="core"))
    _watch_step_failures(core)
    if multiprocessing.parent_process() is None:
        client = importlib.import_module("vllm.v1.engine.async_llm").AsyncLLM
        _watch_init(client, lambda made: _attach_client(made, wanted))
    _attached.append(wanted)


def _watch_init(cls: type, then: Callable[[Any], None], failed: Callable[..., None] | None = None) -> None:
    original = cls.__init__  # type: ignore[misc]

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            original(self, *args, **kwargs)
        except Exception as error:
            if failed is not None:
                failed(error, fatal=True)
            raise
        try:
            then(self)
        except Exception as error:
            tell(f"cannot attach to {cls.__name__}: {error!r}; it is not recorded")

    cls.__init__ = __init__  # type: ignore[misc]


def _attach_scheduler(scheduler: Any, wanted: Settings, words: LastWords) -> None:
    config = scheduler.vllm_config
    rank = getattr(config.parallel_config, "data_parallel_rank", 0)
    rings = _rings(wanted, "core", rank_name=f"EngineCore_DP{rank}")
    words.attach(rings)
    watch = SchedulerWatch(scheduler, rings, wanted)
    _schedulers[id(scheduler)] = watch
    _write_manifest(rings.mine(), config)
    rings.mine().write(LIFECYCLE, pack_texts("scheduler made"), PHASES.index("ready"), NULL_I32, NULL_I32)
    words.ready = True
    timer.start(rings, watch.guard, wanted.interval_s)


def _attach_worker(worker: Any, wanted: Settings, words: LastWords) -> None:
    config = worker.vllm_config
    rings = _rings(
        wanted, "worker", rank=int(worker.rank), rank_name=f"Worker_{worker.rank}", device_id=int(worker.local_rank)
    )
    words.attach(rings)
    watch = WorkerWatch(worker, rings, wanted, words)
    _write_manifest(rings.mine(), config)
    timer.start(rings, watch.guard, wanted.interval_s)


def _attach_client(client: Any, wanted: Settings) -> None:
    ClientWatch(client, _rings(wanted, "api_server", rank_name="APIServer"))


def _watch_step_failures(core: Any) -> None:
    """The step's own failure handler: it has the scheduler, the batch and the exception."""
    if not callable(getattr(core, "log_error_detail", None)):
        tell("vLLM has no EngineCore.log_error_detail here: who was alive at a failure is not recorded")
        return
    original: Callable[..., Any] = core.log_error_detail

    class Detail:
        __slots__ = ("core", "inner", "output")

        def __init__(self, core: Any, output: Any) -> None:
            self.core, self.output = core, output
            self.inner = original(core, output)

        def __enter__(self) -> Any:
            return self.inner.__enter__()

        def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
            if isinstance(error, Exception):
                watch = _schedulers.get(id(self.core.scheduler))
                if watch is not None:
                    watch.failed(error, self.output)
            return self.inner.__exit__(kind, error, trace)

    core.log_error_detail = lambda self, output: Detail(self, output)


def _rings(wanted: Settings, role: str, rank: int = -1, rank_name: str = "", device_id: int = -1) -> Rings:
    return make_rings(wanted, role, f"vllm {version()}", rank, rank_name, device_id)


def version() -> str:
    """vLLM's version, as it prints it."""
    return str(getattr(sys.modules.get("vllm"), "__version__", "unknown"))


def _write_manifest(ring: Ring, config: Any) -> None:
    ring.write(MANIFEST, pack_texts("engine", "name", "vllm"))
    ring.write(MANIFEST, pack_texts("engine", "version", version()))
    for part, names in ARGUMENTS:
        for name in names:
            value = getattr(getattr(config, part, None), name, None)
            if value is not None:
                section = "model" if name == "revision" else "argument"
                text = str(value).removeprefix("torch.")[:1000]
                ring.write(MANIFEST, pack_texts(section, RENAMED.get(name, name), text))
