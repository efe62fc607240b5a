"""The state of a pool whose limits an experiment measured: `experiment.json` of `oomctl capacity experiment`."""

import json
from pathlib import Path
from typing import Any

from oomctl.analyzers.capacity.admission.state import Policy, State

SCHEMA = "oomctl.experiment/"
NAMES = ("block_tokens", "safety_blocks", "queue_limit", "prefill_tokens_per_s", "tpot_s")


def state_of(path: Path | str, policy: Policy, **given: Any) -> State:
    """A state with what was measured; what was not keeps the state's default.

    Args:
        path: The artifact.
        policy: As for `State`.
        given: Arguments of `State` that count more than what was measured.

    Raises:
        ValueError: If it is no artifact, or tells no size of the pool.
    """
    told = json.loads(Path(path).read_bytes())
    if not isinstance(told, dict) or not str(told.get("schema", "")).startswith(SCHEMA):
        raise ValueError(f"no artifact of an experiment: {path}")
    limits = told.get("limits") or {}
    if not limits.get("total_blocks") and "total_blocks" not in given:
        raise ValueError(f"tells no size of the KV pool: {path}")
    found = {name: limits[name] for name in NAMES if limits.get(name) is not None}
    return State(**{"total_blocks": limits.get("total_blocks"), **found, **given}, policy=policy)
