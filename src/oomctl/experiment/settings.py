"""What an experiment was asked to do."""

from dataclasses import dataclass
from pathlib import Path

from oomctl.collectors.artifacts.logs.redact import redact
from oomctl.schemas.replay import Slo


@dataclass(frozen=True)
class Settings:
    """What an experiment was asked to do.

    Attributes:
        root: Its folder.
        launch: The server's command line, which the experiment starts and ends; None where it runs already.
        url: Of a server that runs already; None where it is launched.
        slo: When an answer is good.
        share: Of the requests that must be good.
        steady_s: Length of the steady phase.
        try_s: Length of one try of a rate.
        cohorts: A trace, or what `capacity cohorts --json` printed, from which lengths are drawn; or None.
        ledger: A prediction to hold the KV pool against; or None.
        floor_ratio: Of the KV blocks, what has to stay free.
        device_floor_ratio: Of the device's memory, or the host's where there is none, what has to stay free.
        error_ratio: Of the answers, how many may fail.
        seed: Of arrivals, lengths and tokens.
        max_rate: No try is faster, requests per second.
    """

    root: Path
    launch: str | None
    url: str | None
    slo: Slo
    share: float = 0.9
    steady_s: float = 1800.0
    try_s: float = 60.0
    cohorts: str | None = None
    ledger: Path | None = None
    floor_ratio: float = 0.05
    device_floor_ratio: float = 0.01
    error_ratio: float = 0.1
    seed: int = 0
    max_rate: float = 1000.0

    def asked(self) -> dict[str, str | float | int | bool | None]:
        """Those that decide what is measured; of the command no secret."""
        return {
            "launch": None if self.launch is None else redact(self.launch), "url": self.url,
            "ttft_s": self.slo.ttft_s, "tpot_s": self.slo.tpot_s,
            "share": self.share, "steady_s": self.steady_s, "try_s": self.try_s, "cohorts": self.cohorts,
            "ledger": None if self.ledger is None else str(self.ledger), "floor_ratio": self.floor_ratio,
            "device_floor_ratio": self.device_floor_ratio, "error_ratio": self.error_ratio, "seed": self.seed,
            "max_rate": self.max_rate,
        }  # fmt: skip
