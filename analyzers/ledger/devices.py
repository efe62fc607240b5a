"""Device memory as engines report it, which is less than the name says."""

from oomctl.schemas.errors import ExitCode, OomctlError
from oomctl.schemas.ledger import GIB

# GiB that vLLM printed as the device's total; the driver keeps the rest.
DEVICES: dict[str, float] = {
    "H100-80GB": 79.19,
    "H200-141GB": 139.80,
    "H20-3E-141GB": 139.72,
    "A100-40GB": 39.38,
    "RTX-3090": 23.58,
}


def device_bytes(name: str) -> int:
    """Total bytes of a device of this name.

    Raises:
        OomctlError: It is not known; what was not seen in print is not guessed.
    """
    wanted = name.upper().replace(" ", "-").replace("_", "-")
    if wanted not in DEVICES:
        raise OomctlError(
            f'device "{name[:40]}" is not known', f"give its total in bytes, or one of {', '.join(DEVICES)}", ExitCode.USAGE
        )
    return int(DEVICES[wanted] * GIB)
