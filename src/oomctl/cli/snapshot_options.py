"""Which verb of `oomctl snapshot` reads which option."""

from oomctl.schemas.errors import ExitCode, OomctlError

REPORT = "no verb"
SETTINGS = (
    "--expandable-segments",
    "--max-split-size",
    "--garbage-collection-threshold",
    "--roundup-power2-divisions",
)
_GOES_WITH: dict[str, tuple[str, ...]] = {
    "--at": (REPORT, "fit", "growth"),
    "--by": (REPORT, "fit"),
    "--request": ("fit",),
    "--free": ("fit",),
    "--stream": ("fit",),
    "--pool": ("fit",),
    "--since": ("growth",),
    "--room": ("whatif",),
    "--limit": (REPORT, "fit", "whatif"),
    "--html": (REPORT, "fit"),
    "--force": (REPORT, "fit"),
} | dict.fromkeys(SETTINGS, ("whatif",))
"""The verbs that read an option: beside any other it would be ignored in silence."""


def refuse_stray(verb: str, given: set[str]) -> None:
    """Refuse an option that would be ignored.

    Args:
        verb: One of them, or REPORT.
        given: Options that were given, by name.

    Raises:
        OomctlError: For the first that the verb does not read.
    """
    for name, verbs in _GOES_WITH.items():
        if name in given and verb not in verbs:
            raise OomctlError(
                f"{name} goes with {' or '.join(verbs)}, not with {verb}", "see oomctl snapshot --help", ExitCode.USAGE
            )
    if "--force" in given and "--html" not in given:
        raise OomctlError("--force goes with --html", "see oomctl snapshot --help", ExitCode.USAGE)
