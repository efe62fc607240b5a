"""Tells a story in a dialect: keeps the clock, the exact figures and the lines so far."""

import re
from datetime import UTC, datetime
from typing import Any

from tests.scenarios.families.dialect import Bytes, Fixture
from tests.scenarios.figures import Figures
from tests.scenarios.message import Shortage
from tests.scenarios.printing import GIB, torch_size

_FRAME = re.compile(r"(\S+):(\S+) (.*)")
BLOCK_TOKENS = 64
DEVICES_GIB = (24, 40, 48, 80, 96, 141)


class Teller:
    """The lines of one fixture.

    Attributes:
        figures: Seeded figures.
        values: What templates may print.
        lines: Printed so far.
    """

    def __init__(self, fixture: Fixture, seed: int) -> None:
        self.fixture = fixture
        first = Figures(fixture.name, seed, fixture.ranks, GIB)
        size = first.random.choice(DEVICES_GIB) * GIB
        self.figures = Figures(fixture.name, seed, fixture.ranks, size)
        self.lines: list[str] = []
        self.now_us = 0
        self._native = 0
        f = self.figures
        free = f.device_bytes - f.weights_bytes - f.non_torch_bytes
        self.values: dict[str, Any] = {
            "model": f.model,
            "ranks": f.ranks,
            "rank": 0,
            "chunk": f.chunk_tokens,
            "context": f.max_model_len,
            "slots": f.max_num_seqs,
            "pid": f.first_pid,
            "port": f.port,
            "total": Bytes(size),
            "block_tokens": BLOCK_TOKENS,
            "n": 0,
            "prompt": 0,
        }
        self.sizes(weights=f.weights_bytes, non_torch=f.non_torch_bytes, activation=f.activation_bytes, graph=f.graph_bytes)
        self.sizes(at_start=size - f.non_torch_bytes)
        self.pool(round(free * 0.85))
        self.usage(200, 4, 0)

    def sizes(self, **sizes: int) -> None:
        """Sizes in bytes that templates may print; `free_NAME` is what is free on the device once NAME is there."""
        self.values.update({name: Bytes(size) for name, size in sizes.items()})

    def pool(self, size: int) -> None:
        """The KV pool: bytes, tokens and blocks."""
        blocks = max(16, size // self.figures.token_bytes // BLOCK_TOKENS)
        size = blocks * BLOCK_TOKENS * self.figures.token_bytes
        self.sizes(kv=size, half=size // 2, block=BLOCK_TOKENS * self.figures.token_bytes)
        self.values |= {"blocks": blocks, "pool_tokens": blocks * BLOCK_TOKENS}

    def usage(self, tenths: int, running: int, waiting: int) -> None:
        """How full the pool is, in tenths of a percent."""
        blocks = self.values["blocks"]
        used = min(blocks, blocks * tenths // 1000)
        self.values |= {
            "usage": tenths / 1000,
            "percent": tenths / 10,
            "used": used,
            "unused": blocks - used,
            "used_tokens": used * BLOCK_TOKENS,
            "running": running,
            "waiting": waiting,
        }
        self.sizes(held=self.values["weights"] + self.values["kv"] * tenths // 1000)

    def shortage(self, shortage: Shortage) -> None:
        """The failed allocation that the failure prints."""
        self.values["shortage"] = shortage
        self.sizes(
            requested=shortage.requested_bytes,
            free=shortage.free_bytes,
            cached=shortage.cached_bytes,
            own=shortage.own_bytes,
            allocated=shortage.allocated_bytes,
            reserved=shortage.allocated_bytes + shortage.cached_bytes,
        )

    def wait(self, low_s: float, high_s: float) -> None:
        """Let time pass."""
        self.now_us += round(self.figures.random.uniform(low_s, high_s) * 1e6)

    def beat(self, name: str, **values: Any) -> None:
        """The words of a beat, where the dialect has any for it."""
        self.values |= values
        self._print(self.fixture.dialect.words.get(name, ""))
        self.wait(0.5, 4)

    def serve(self, usages: range | list[int], running: int, waiting: int = 0, **values: Any) -> None:
        """A report for each usage, in tenths of a percent."""
        for tenths in usages:
            self.usage(tenths, running, waiting)
            self.beat("serve", n=self.values["n"] + 1, port=33_000 + tenths * 17 % 9_000, **values)

    def fill(self) -> None:
        """Unrelated lines of an engine that starts."""
        for number in range(self.figures.line_shift % 7):
            self.beat("wait", n=number)

    def fail(self) -> None:
        """What goes wrong."""
        for rank in range(self.fixture.ranks):
            self.values["rank"] = rank
            self._print(self.fixture.failure)
        self.values["rank"] = 0

    def text(self) -> str:
        """The whole log."""
        text = "\n".join(self.lines) + "\n"
        finish = self.fixture.dialect.finish
        return finish(text) if finish else text

    def _print(self, template: str) -> None:
        for line in filter(None, template.split("\n")):
            mark, _, words = line.partition(" ")
            if mark.endswith("*"):
                for rank in range(self.fixture.ranks):
                    self._line(mark[:-1], words, rank)
            else:
                self._line(mark, words, self.values["rank"])

    def _line(self, mark: str, words: str, rank: int) -> None:
        self.now_us += 2_000
        now = datetime.fromtimestamp((self.figures.start_us + self.now_us) / 1e6, UTC)
        minutes, us = divmod(self.now_us, 60_000_000)
        up = f"{minutes}.{us // 1_000_000:02d}.{us // 1_000 % 1_000:03d}.{us % 1_000:03d}"
        values = self.values | {"rank": rank, "now": now, "up": up, "root": self.fixture.dialect.root}
        if shortage := self.values.get("shortage"):
            values |= messages(shortage, rank)
        prefix = "" if mark == "|" else self.fixture.dialect.marks.get(mark, "")
        prefix = prefix.format_map(values)
        if mark == "F":
            frame = _FRAME.fullmatch(words.format_map(values))
            assert frame is not None, words
            number = 40 + (len(frame[3]) * 37 + self.figures.line_shift) % 2_900
            file = frame[1] if frame[1].startswith("/") else self.fixture.dialect.root + frame[1]
            self.lines.append(f'{prefix}  File "{file}", line {number}, in {frame[2]}')
            self.lines.append(f"{prefix}    {frame[3]}")
            return
        if mark == "N":
            self._native += 1
            address = 0x7F1000000000 + (self._native * 7_919_113 + self.figures.line_shift * 4_096)
            self.lines.append(f"{self._native:<8}{address:#x} {words.format_map(values)} + {len(words) * 7}")
            return
        self._native = 0
        assert mark == "|" or mark in self.fixture.dialect.marks, f"{self.fixture.name}: no mark {mark!r}"
        self.lines.append(prefix + words.format_map(values))


def messages(shortage: Shortage, rank: int) -> dict[str, str]:
    """PyTorch's message as its versions print it: 2.3 and newer, 2.1, 2.0 and older, cut to one sentence, ROCm's."""
    size = {
        name: torch_size(value).text
        for name, value in (
            ("requested", shortage.requested_bytes),
            ("total", shortage.total_bytes),
            ("free", shortage.free_bytes),
            ("own", shortage.own_bytes),
            ("allocated", shortage.allocated_bytes),
            ("reserved", shortage.allocated_bytes + shortage.cached_bytes),
        )
    }
    new = shortage.text(rank)
    short = f"CUDA out of memory. Tried to allocate {size['requested']}"
    advice = "to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"
    return {
        "oom": new,
        "oom21": new.replace("capacity", "capacty").partition("try setting")[0] + f"try setting max_split_size_mb {advice}",
        "oom20": f"{short} (GPU {rank}; {size['total']} total capacity; {size['allocated']} already allocated; "
        f"{size['free']} free; {size['reserved']} reserved in total by PyTorch) If reserved memory is >> allocated "
        f"memory try setting max_split_size_mb {advice}",
        "oom_short": f"{short}.",
        "oom_hip": new.replace("CUDA out", "HIP out").replace("PYTORCH_CUDA_ALLOC", "PYTORCH_HIP_ALLOC"),
    }
