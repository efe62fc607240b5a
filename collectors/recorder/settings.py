"""What a recorder records, and how much of it is kept."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from oomctl.collectors.live.access import Access
from oomctl.schemas.rows import Row


@dataclass(frozen=True)
class Settings:
    """What is recorded, and how much of it is kept.

    Attributes:
        root: The recording's folder.
        pid: The worker, or its server, as seen from here; None where it runs elsewhere and only its page is seen.
        node: This host.
        rings: Folder of its rings, or None.
        keep_rings: Whether those of dead processes stay once they are read to their end.
        log: Its log, or None.
        minutes: How much before its first sign an incident holds.
        budget_bytes: Of the whole folder.
        age_s: Of hours; incidents stay until the budget needs them.
        hook: Command or URL, or None.
        metrics: Pages to scrape.
        scrape_s: Between two scrapes.
        kv_events: (where an engine publishes, or a URL that is asked for events; where it replays or None).
        devices: Whether the devices' driver is asked.
        visible_devices: The worker's CUDA_VISIBLE_DEVICES; None where it is not set or not known.
        otlp_ports: (gRPC, HTTP) to listen on for traces, or None.
        access: Where to listen, and who may send.
        settle_s: From the first sign to the freeze, so that the other ranks and the log have their say.
    """

    root: Path
    pid: int | None
    node: str
    rings: Path | None = None
    keep_rings: bool = False
    log: Path | None = None
    minutes: float = 10.0
    budget_bytes: int = 2 << 30
    age_s: float = 7 * 86400.0
    hook: str | None = None
    metrics: tuple[str, ...] = ()
    scrape_s: float = 5.0
    kv_events: tuple[tuple[str, str | None], ...] = ()
    devices: bool = False
    visible_devices: str | None = None
    otlp_ports: tuple[int, int] | None = None
    access: Access = field(default_factory=Access)
    settle_s: float = 10.0


class Outlet(Protocol):
    """Takes copies of the rows elsewhere.

    Attributes:
        drop_reason: Why it drops rows, when it does.
    """

    drop_reason: str

    def offer(self, rows: Sequence[Row]) -> None:
        """Take rows, or count them as dropped; never waits."""

    def dropped(self) -> int:
        """Rows dropped since the last call."""

    def close(self) -> None:
        """Send what is left, within bounds."""
