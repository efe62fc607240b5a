"""The framework's out-of-memory message, and the row that a reader makes of it."""

from dataclasses import dataclass

from tests.scenarios.entries import Fact, Value
from tests.scenarios.printing import torch_size

HINTS = (
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory "
    "Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)",
    "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory "
    "Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html"
    "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)",
)


@dataclass(frozen=True)
class Neighbour:
    """A process that the message names beside the own one; on device n its pid is `pid` + n."""

    pid: int
    used_bytes: int
    owner_incarnation: str | None = None


@dataclass(frozen=True)
class Shortage:
    """The state of a device at a failed allocation, before printing.

    The figures add up: total = own + neighbours + free, and own = allocated + cached + pool_free + non_torch.

    Attributes:
        total_bytes: Device capacity.
        requested_bytes: Asked for.
        free_bytes: Free on the device.
        cached_bytes: Free blocks that the allocator keeps outside private pools.
        pool_free_bytes: Free blocks cached in private pools (CUDA graphs): printed as "allocated in private
            pools", counted into the printed allocated figure and not into the unallocated one.
        non_torch_bytes: Of this process, outside the allocator.
        neighbours: Others on the device.
        own_pid: Where set, this process is named by its pid, as in a container that hides it from itself.
        hint: Which wording of the advice.
    """

    total_bytes: int
    requested_bytes: int
    free_bytes: int
    cached_bytes: int
    non_torch_bytes: int
    pool_free_bytes: int = 0
    neighbours: tuple[Neighbour, ...] = ()
    own_pid: int | None = None
    hint: int = 0

    @property
    def own_bytes(self) -> int:
        """This process, as the driver counts it."""
        return self.total_bytes - self.free_bytes - sum(each.used_bytes for each in self.neighbours)

    @property
    def allocated_bytes(self) -> int:
        """The allocated figure as the framework prints it, private pools' free blocks included."""
        return self.own_bytes - self.non_torch_bytes - self.cached_bytes

    def text(self, device: int) -> str:
        """The message as PyTorch 2.3 and newer print it."""
        named = [
            f"Process {each.pid + device} has {torch_size(each.used_bytes).text} memory in use. "
            for each in self.neighbours
        ]
        own = torch_size(self.own_bytes).text
        if self.own_pid is None:
            named.append(f"Including non-PyTorch memory, this process has {own} memory in use. ")
        else:
            named.append(f"Process {self.own_pid} has {own} memory in use. ")
        pools = ""
        if self.pool_free_bytes:
            pools = f"with {torch_size(self.pool_free_bytes).text} allocated in private pools (e.g., CUDA Graphs), "
        return (
            f"CUDA out of memory. Tried to allocate {torch_size(self.requested_bytes).text}. GPU {device} has a total "
            f"capacity of {torch_size(self.total_bytes).text} of which {torch_size(self.free_bytes).text} is free. "
            f"{''.join(named)}Of the allocated memory {torch_size(self.allocated_bytes).text} is allocated by PyTorch, "
            f"{pools}and {torch_size(self.cached_bytes).text} is reserved by PyTorch but unallocated. "
            f"If reserved but unallocated memory is large try setting {HINTS[self.hint]}"
        )

    def facts(self, device: int, *, fatal: bool | None, stack_id: str | None) -> tuple[Fact, ...]:
        """The `oom` row of the message, and a `process` row for each process that it names by pid."""
        requested, free = torch_size(self.requested_bytes), torch_size(self.free_bytes)
        others = [torch_size(each.used_bytes) for each in self.neighbours]
        fields: dict[str, Value] = {
            "resource": "device",
            "api": "torch",
            "error_type": "torch.OutOfMemoryError",
            "message": self.text(device),
            "requested_bytes": requested.bytes,
            "total_bytes": torch_size(self.total_bytes).bytes,
            "free_bytes": free.bytes,
            "allocated_bytes": torch_size(self.allocated_bytes).bytes,
            "reserved_unallocated_bytes": torch_size(self.cached_bytes).bytes,
            "resolution_bytes": max(requested.resolution_bytes, free.resolution_bytes),
            "fatal": fatal,
            "stack_id": stack_id,
        }
        own = torch_size(self.own_bytes)
        fields["own_process_bytes"] = own.bytes
        if self.neighbours:
            fields["other_processes_bytes"] = sum(size.bytes for size in others)
        if self.pool_free_bytes:
            fields["private_pool_bytes"] = torch_size(self.pool_free_bytes).bytes
        rows = [Fact("oom", fields)]
        named = [
            (each.pid + device, size, False, each.owner_incarnation)
            for each, size in zip(self.neighbours, others, strict=True)
        ]
        if self.own_pid is not None:
            named.append((self.own_pid, own, True, None))
        for pid, size, is_own, owner in named:
            process: dict[str, Value] = {"pid": pid, "used_bytes": size.bytes, "own": is_own, "owner_incarnation": owner}
            rows.append(Fact("process", process | {"resolution_bytes": size.resolution_bytes}))
        return tuple(rows)
