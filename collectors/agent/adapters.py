"""LoRA adapters as a worker loads and evicts them. Never on the step path: it asks for an adapter in every step."""

from collections.abc import Callable
from functools import partial
from typing import Any

from oomctl.collectors.agent.guard import Guard, Patches
from oomctl.collectors.agent.kinds import ADAPTER, ADAPTER_OPS
from oomctl.collectors.agent.layout import NULL_I32, pack_texts
from oomctl.collectors.agent.rings import Rings
from oomctl.collectors.agent.watch import Watch


class AdapterWatch(Watch):
    """Watches one worker's LoRA manager."""

    def __init__(self, rings: Rings, guard: Guard, patches: Patches) -> None:
        super().__init__(rings, guard, patches)
        self._resident: dict[int, tuple[str, int, int]] = {}

    def attach(self, manager: Any) -> None:
        """From now on; nothing where the engine serves no adapters."""
        if manager is None:
            return
        self._patches.wrap(manager, "_load_adapter", self._load)
        inner = getattr(manager, "_adapter_manager", None)
        for name in ("remove_adapter", "remove_oldest_adapter", "remove_all_adapters"):
            if callable(getattr(inner, name, None)):
                self._patches.wrap(inner, name, partial(self._remove, inner))

    def _load(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load_adapter(*args: Any, **kwargs: Any) -> Any:
            model = original(*args, **kwargs)
            try:
                request = args[0] if args else next(iter(kwargs.values()), None)
                name = str(getattr(request, "lora_name", model.id))
                rank = int(getattr(model, "rank", NULL_I32))
                self._resident[model.id] = name, rank, _size(model)
                self._write("loaded", name, rank, self._resident[model.id][2])
            except Exception as error:
                self._guard.failed("load_adapter", error)
            return model

        return load_adapter

    def _remove(self, inner: Any, original: Callable[..., Any]) -> Callable[..., Any]:
        def remove(*args: Any, **kwargs: Any) -> Any:
            try:
                before = set(inner.list_adapters())
            except Exception as error:
                before = set()
                self._guard.failed("remove_adapter", error)
            result = original(*args, **kwargs)
            try:
                for key in before.difference(inner.list_adapters()):
                    name, rank, size = self._resident.pop(key, (str(key), NULL_I32, 0))
                    self._write("evicted", name, rank, size)
            except Exception as error:
                self._guard.failed("remove_adapter", error)
            return result

        return remove

    def _write(self, op: str, name: str, rank: int, size: int) -> None:
        resident = sum(size for _, _, size in self._resident.values())
        tail = pack_texts(name)
        self._rings.mine().write(ADAPTER, tail, ADAPTER_OPS.index(op), rank, len(self._resident), size, resident)


def _size(model: Any) -> int:
    """Bytes of an adapter's tensors."""
    found = 0
    for layer in model.loras.values():
        for name in ("lora_a", "lora_b"):
            value = getattr(layer, name, None)
            for tensor in value if isinstance(value, list | tuple) else (value,):
                if tensor is not None:
                    found += int(tensor.numel()) * int(tensor.element_size())
    return found
