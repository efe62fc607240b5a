"""The driver's side of the model: a device with so much room, and addresses to give out."""

from typing import Protocol

GRANULE = 2 << 20


class Driver(Protocol):
    """What the allocator asks for segments."""

    def allocate(self, size: int) -> int | None:
        """Address of a new segment, or None where the driver refuses."""
        ...

    def map(self, address: int, size: int, page: int) -> bool:
        """Whether whole pages could be put behind a reserved range."""
        ...

    def reserve(self, size: int) -> int:
        """A range of addresses with nothing behind it."""
        ...

    def give_back(self, address: int, size: int) -> None:
        """A segment, or mapped pages."""
        ...


class Device:
    """A driver that refuses beyond its room.

    Args:
        room_bytes: What this process may take; None without end.
    """

    def __init__(self, room_bytes: int | None = None, first_address: int = 0x7F00_0000_0000) -> None:
        self.room_bytes = room_bytes
        self.used_bytes = 0
        self.refuses = False
        """Whether it refuses whatever it has."""
        self._next = first_address

    @property
    def free_bytes(self) -> int | None:
        """What is left, where that is known."""
        return None if self.room_bytes is None else self.room_bytes - self.used_bytes

    def allocate(self, size: int) -> int | None:
        """Address of a new segment, or None."""
        return self.reserve(size) if self._take(size) else None

    def map(self, address: int, size: int, page: int) -> bool:
        """Put pages behind a range."""
        return self._take(size)

    def reserve(self, size: int) -> int:
        """Addresses: segments never touch, so that none is taken for a part of another."""
        address = self._next
        self._next += -(-size // GRANULE) * GRANULE + GRANULE
        return address

    def give_back(self, address: int, size: int) -> None:
        """Take memory back."""
        self.used_bytes -= size

    def _take(self, size: int) -> bool:
        if self.refuses or (self.room_bytes is not None and self.used_bytes + size > self.room_bytes):
            return False
        self.used_bytes += size
        return True
