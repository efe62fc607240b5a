"""The seeded figures of one scenario: device, model, versions, pids and byte sizes, all scaled with the device."""

import random

from tests.scenarios.message import Neighbour, Shortage
from tests.scenarios.printing import MIB

_MODELS = ("aurora-{}b-chat", "/srv/models/linden-{}b", "borealis/heron-{}b-instruct", "/mnt/weights/quartz-{}b-v2")
_EPOCH_US = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z."""


class Figures:
    """Figures that differ by seed within what keeps a scenario's label true.

    Args:
        name: The scenario.
        seed: Any integer.
        ranks: Tensor-parallel workers, each with a device of its own.
        device_bytes: Capacity of one device.
    """

    def __init__(self, name: str, seed: int, ranks: int, device_bytes: int) -> None:
        self.random = random.Random(f"{name}/{seed}")
        self.ranks = ranks
        self.device_bytes = device_bytes
        self.start_us = _EPOCH_US + self.random.randrange(300 * 86_400) * 1_000_000
        self.model = self.random.choice(_MODELS).format(self.random.choice((7, 14, 32, 70)))
        self.vllm_version = self.random.choice(("0.11.2", "0.14.1", "0.19.0", "0.24.0", "0.33.0"))
        self.max_model_len = self.random.choice((8192, 16384, 32768))
        self.chunk_tokens = self.random.choice((4096, 8192))
        self.max_num_seqs = self.random.choice((128, 256, 512))
        self.utilization = self.random.choice((0.88, 0.9, 0.92))
        self.non_torch_bytes = self.share(0.006, 0.012)
        self.activation_bytes = self.share(0.02, 0.05)
        self.graph_bytes = self.share(0.004, 0.010)
        self.weights_bytes = self.share(0.30, 0.50)
        self.token_bytes = self.random.choice((64, 96, 128, 160)) * 1024
        self.first_pid = self.random.randrange(300, 9_000)
        self.port = self.random.randrange(32_000, 60_000)
        self.tells_components = self.random.random() < 0.75
        self.tells_budget = self.random.random() < 0.5
        self.tells_fatal = self.random.random() < 0.5
        self.tells_time = self.random.random() < 0.85
        self.interleaves = self.random.random() < 0.5
        self.hint = self.random.randrange(2)
        self.line_shift = self.random.randrange(400)

    def share(self, low: float, high: float) -> int:
        """A share of the device, a multiple of 2 MiB as the allocator rounds."""
        return max(2, round(self.device_bytes * self.random.uniform(low, high) / (2 * MIB)) * 2) * MIB

    def between(self, low: int, high: int) -> int:
        """An integer, both ends included."""
        return self.random.randint(low, high)

    @property
    def kv_bytes(self) -> int:
        """What the budget leaves for the KV pool."""
        used = self.weights_bytes + self.activation_bytes + self.non_torch_bytes
        return round(self.device_bytes * self.utilization) - used

    @property
    def kv_tokens(self) -> int:
        """Size of the KV pool, in whole blocks of 16 tokens."""
        return max(1, self.kv_bytes // self.token_bytes // 16) * 16

    def pid(self, process: str, rank: int = 0, incarnation: int = 1) -> int:
        """Process id of the API server, the engine core or a worker."""
        base = self.first_pid + (incarnation - 1) * 1_117
        return base + {"api": 0, "core": 131}.get(process, 262 + rank)

    def shortage(
        self,
        requested: tuple[float, float],
        free: tuple[float, float],
        cached: tuple[float, float],
        *,
        pools: bool = False,
        neighbours: tuple[Neighbour, ...] = (),
        own_pid: int | None = None,
    ) -> Shortage:
        """A failed allocation; shares of the device for `requested`, of the request for the others."""
        requested_bytes = self.share(*requested)
        cached_bytes = round(requested_bytes * self.random.uniform(*cached))
        return Shortage(
            total_bytes=self.device_bytes,
            requested_bytes=requested_bytes,
            free_bytes=round(requested_bytes * self.random.uniform(*free)),
            cached_bytes=cached_bytes,
            pool_free_bytes=self.graph_bytes // 3 if pools else 0,
            non_torch_bytes=self.non_torch_bytes,
            neighbours=neighbours,
            own_pid=own_pid,
            hint=self.hint,
        )
