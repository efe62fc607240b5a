"""Runs in the zipapp before oomctl: its native parts are of one version of Python, and another gets one clear line."""

import sys
from pathlib import Path

# shiv puts this name here: where the parts were unpacked to.
unpacked: Path = globals()["site_packages"]
here = f"cpython-{sys.version_info[0]}{sys.version_info[1]}-"
built = sorted({path.name.split(".")[1] for path in unpacked.glob("_duckdb.cpython-*.so")})
if not any(name.startswith(here) for name in built):
    sys.exit(
        f"oomctl: error: this zipapp is for {', '.join(built)}, not for {here.rstrip('-')} (sys.executable)\n"
        "hint: run it with that version of Python, or build it with this one: make OOMCTL_PYTHON=... zipapp"
    )
