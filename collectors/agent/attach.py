"""What the entry points of all engines have in common: whether to attach at all, and where to write."""

import atexit
import os
from collections.abc import Callable
from multiprocessing.util import Finalize

from oomctl.collectors.agent import settings
from oomctl.collectors.agent.rings import Identity, Rings, tell
from oomctl.collectors.agent.settings import Settings


def attach_if_wanted(attach: Callable[[Settings], None]) -> None:
    """Attach to this process's engine if OOMCTL_RING is set. Never raises: the engine must not hear of it."""
    try:
        wanted = settings.read()
        if wanted is None:
            return
        os.environ[settings.INCARNATION] = wanted.incarnation
        if not wanted.folder.is_dir():
            tell(f"OOMCTL_RING is no directory: {wanted.folder}; nothing is recorded by this process")
            return
        attach(wanted)
    except Exception as error:
        tell(f"cannot attach: {error!r}; nothing is recorded by this process")


def make_rings(wanted: Settings, role: str, engine: str, rank: int = -1, rank_name: str = "", device_id: int = -1) -> Rings:
    """The rings of one role of this process, closed at its orderly end.

    Args:
        wanted: The folder, and whose they are.
        role: api_server, core or worker.
        engine: Name and version.
        rank: Global rank; -1 where it has none.
        rank_name: As the engine prints it.
        device_id: -1 where it has none.
    """
    identity = Identity(
        role=role,
        worker=wanted.worker,
        incarnation=wanted.incarnation,
        engine=engine,
        rank=rank,
        rank_name=rank_name,
        device_id=device_id,
    )
    rings = Rings(wanted.folder, identity, wanted.capacity)
    # A spawned child runs atexit, a forked one only multiprocessing's finalizers.
    atexit.register(rings.close)
    Finalize(None, rings.close, exitpriority=0)
    return rings
