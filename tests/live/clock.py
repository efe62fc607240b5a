"""A clock that stands until it is moved."""

from dataclasses import dataclass


@dataclass
class Time:
    """Stands in for the recorder's clock."""

    now_s: float = 1000.0
    cpu_s: float = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_us(self) -> int:
        return int(self.now_s * 1e6)

    def thread_us(self) -> int:
        return int(self.cpu_s * 1e6)
