"""What triage reads of a recording: the rest, which is most of a long one, need not be loaded for it.

What happened to each block and each request is for people to ask. An evidence query takes of the requests only those of the
failing batch. The story of a worker's streams is told without the rest, loaded or not, so that a verdict is the same.
"""

from oomctl.schemas.storage import NOTHING, Cut

CUT: Cut = {
    **dict.fromkeys(("adapter", "graph", "kv_block", "loss", "metric", "transfer"), NOTHING),
    "request": "sampled_by IN ('scheduler_dump', 'oom')",
}
"""As the view `story` and the evidence queries have it."""
