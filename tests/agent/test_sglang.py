"""The agent in SGLang, on a stand-in with the interface that SGLang documents for plugins: no SGLang was run."""

import enum
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from oomctl.collectors.agent import sglang
from oomctl.collectors.agent.decode import Record
from oomctl.collectors.agent.reader import read_ring, ring_paths

PAGE = 16
PAGES = 100


class HookType(enum.Enum):
    """As docs.sglang.io names them."""

    BEFORE = "before"
    AFTER = "after"
    AROUND = "around"
    REPLACE = "replace"


class Mode:
    def __init__(self, extend: bool) -> None:
        self._extend = extend

    def is_extend(self) -> bool:
        return self._extend

    def is_decode(self) -> bool:
        return not self._extend


class Batch:
    def __init__(self, requests: int, extended: int = 0) -> None:
        self.reqs = [object()] * requests
        self.forward_mode = Mode(extended > 0)
        self.extend_num_tokens = extended or None
        self.decoding_reqs: list[object] | None = None

    def retract_decode(self, server_args: Any) -> tuple[list[object], float, list[object]]:
        gone, self.reqs = self.reqs[1:], self.reqs[:1]
        return gone, 0.7, []


class Scheduler:
    def __init__(self, server_args: Any, port_args: Any, gpu_id: int, tp_rank: int) -> None:
        if server_args.mem_fraction_static > 1:
            raise RuntimeError("Not enough memory. Please try to increase --mem-fraction-static.")
        self.server_args = server_args
        self.waiting_queue: list[object] = []
        self.running_batch = Batch(0)
        self.free_tokens = PAGES * PAGE
        self.token_to_kv_pool_allocator = SimpleNamespace(
            size=PAGES * PAGE, page_size=PAGE, available_size=lambda: self.free_tokens
        )
        self.tree_cache = SimpleNamespace(evictable_size=lambda: 2 * PAGE)

    def run_batch(self, batch: Batch) -> str:
        if len(batch.reqs) > 8:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return "result"

    def process_batch_result(self, batch: Batch, result: str) -> None:
        batch.reqs = batch.reqs[:1]


class Engine:
    """SGLang's process, as far as a plugin sees it: it loads the plugins, then applies their hooks."""

    def __init__(self) -> None:
        self.hooks: dict[str, Callable[..., Any]] = {}

    def register(self, target: str, hook: Callable[..., Any], hook_type: HookType) -> None:
        assert hook_type is HookType.AROUND
        self.hooks[target] = hook

    def hooked(self, cls: type, method: str, target: str) -> type:
        """A class whose method runs through the hook."""
        original, hook = getattr(cls, method), self.hooks[target]

        def around(*args: Any, **kwargs: Any) -> Any:
            return hook(original, *args, **kwargs)

        return type(cls.__name__, (cls,), {method: around})


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    found = Engine()
    names = ("sglang", "sglang.srt", "sglang.srt.plugins", "sglang.srt.plugins.hook_registry")
    modules = {name: ModuleType(name) for name in names}
    modules["sglang"].__version__ = "0.5.23"  # type: ignore[attr-defined]
    registry = modules[names[-1]]
    registry.HookRegistry = SimpleNamespace(register=found.register)  # type: ignore[attr-defined]
    registry.HookType = HookType  # type: ignore[attr-defined]
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("OOMCTL_RING", str(tmp_path))
    monkeypatch.setenv("OOMCTL_INCARNATION", "b:1:2")
    monkeypatch.setattr("oomctl.collectors.agent.timer.start", lambda *_: None)
    monkeypatch.setattr(sglang, "_watches", [])
    yield found


def start(engine: Engine, **arguments: Any) -> tuple[Any, type]:
    sglang.register()
    scheduler = engine.hooked(Scheduler, "__init__", sglang.INIT)
    settings = SimpleNamespace(model_path="tiny", mem_fraction_static=0.9, page_size=PAGE, **arguments)
    batch = engine.hooked(Batch, "retract_decode", sglang.RETRACT)
    return scheduler(settings, None, 1, tp_rank=3), batch


def records(folder: Path) -> list[Record]:
    (path,) = ring_paths(folder)
    header, batch = read_ring(path)
    assert (header.engine, header.rank, header.rank_name, header.device_id) == ("sglang 0.5.23", 3, "TP3", 1)
    assert (header.role, header.errors) == ("core", 0)
    return batch.records


def of(found: list[Record], kind: str) -> list[dict[str, Any]]:
    return [record.values for record in found if record.kind.name == kind]


def test_steps_and_pool_are_those_of_the_engine(engine: Engine, tmp_path: Path) -> None:
    scheduler, _ = start(engine)
    scheduler.free_tokens -= 10 * PAGE
    scheduler.waiting_queue = [object()] * 5
    for batch in (Batch(2, extended=300), Batch(4)):
        scheduler.running_batch = batch
        assert scheduler.run_batch(batch) == "result"
        scheduler.process_batch_result(batch, "result")
    mixed = Batch(3, extended=65)
    mixed.decoding_reqs = [object()]
    scheduler.process_batch_result(mixed, "result")
    found = records(tmp_path)
    assert [entry["phase"] for entry in of(found, "lifecycle")] == ["loading", "ready"]
    assert {entry["key"]: entry["value"] for entry in of(found, "manifest")} == {
        "name": "sglang", "version": "0.5.23", "model_path": "tiny", "mem_fraction_static": "0.9", "page_size": "16",
    }  # fmt: skip
    steps = of(found, "step")
    assert [(step["prefill_tokens"], step["decode_tokens"]) for step in steps] == [(300, 0), (0, 4), (64, 1)]
    assert [step["waiting_requests"] for step in steps] == [5, 5, 5]
    assert [step["duration_us"] is None for step in steps] == [False, False, True]
    pool = of(found, "kv_pool")[-1]
    # Cached pages that can be evicted are free.
    assert (pool["total_blocks"], pool["free_blocks"], pool["used_blocks"]) == (PAGES, 92, 8)
    assert pool["block_size_tokens"] == PAGE


def test_retractions_are_out_of_memory_events_that_it_survives(engine: Engine, tmp_path: Path) -> None:
    _, batch = start(engine)
    assert len(batch(4).retract_decode(None)[0]) == 3
    batch(1).retract_decode(None)
    (event,) = of(records(tmp_path), "oom")
    assert (event["resource"], event["error_type"], event["fatal"], event["requests"]) == (
        "kv_blocks", "retraction", False, 3,
    )  # fmt: skip


def test_a_failing_batch_is_recorded_and_the_engine_gets_its_exception(engine: Engine, tmp_path: Path) -> None:
    scheduler, _ = start(engine)
    with pytest.raises(RuntimeError, match="CUDA out of memory"):
        scheduler.run_batch(Batch(9))
    (event,) = of(records(tmp_path), "oom")
    assert (event["resource"], event["fatal"], event["requests"]) == ("device", True, 9)


def test_a_start_that_fails_is_recorded(engine: Engine, tmp_path: Path) -> None:
    sglang.register()
    scheduler = engine.hooked(Scheduler, "__init__", sglang.INIT)
    with pytest.raises(RuntimeError):
        scheduler(SimpleNamespace(mem_fraction_static=2), None, 1, 3)
    found = records(tmp_path)
    assert [entry["phase"] for entry in of(found, "lifecycle")] == ["loading"]
    assert [record.kind.name for record in found if record.kind.name in ("oom", "fault")] != []


def test_what_it_does_not_understand_never_reaches_the_engine(engine: Engine, tmp_path: Path) -> None:
    scheduler, _ = start(engine)
    strange = SimpleNamespace(reqs=None)
    scheduler.token_to_kv_pool_allocator = None
    scheduler.running_batch = None
    sglang._watches[0].retracted(7)
    scheduler.run_batch = scheduler.run_batch  # as another plugin would
    with pytest.raises(TypeError):
        scheduler.process_batch_result(strange, "result")
    scheduler.process_batch_result(Batch(2), "result")
    (path,) = ring_paths(tmp_path)
    header, found = read_ring(path)
    assert header.errors == 2
    assert [record.kind.name for record in found.records if record.kind.name == "step"] == ["step"]


def test_without_a_folder_it_asks_for_nothing(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OOMCTL_RING")
    sglang.register()
    assert engine.hooks == {}
