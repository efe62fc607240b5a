"""vLLM's API server, watched: when a client hung up, which the core hears of later, and whether the end was asked for."""

from collections.abc import Callable, Iterable
from typing import Any

from oomctl.collectors.agent.guard import Guard, Patches
from oomctl.collectors.agent.kinds import EVENT, FAULT, LIFECYCLE, PHASES, REQUEST, SAMPLED_BY
from oomctl.collectors.agent.layout import NULL_I32, NULL_I64, pack_texts
from oomctl.collectors.agent.rings import Rings


class ClientWatch:
    """Attached to one AsyncLLM.

    At an orderly end vLLM kills its core and workers within milliseconds, so their rings look as after a death. What
    tells the two apart is this process: it writes `draining` before it ends them, or that the engine was dead already.

    Args:
        client: vLLM's AsyncLLM, constructed.
        rings: Where to.
    """

    def __init__(self, client: Any, rings: Rings) -> None:
        self._client = client
        self._rings = rings
        self._ended = False
        patches = Patches()
        self._guard = Guard(rings, patches.undo)
        patches.wrap(client, "abort", self._abort)
        patches.wrap(client, "shutdown", self._shutdown)
        self._guard.absent(patches.absent)
        self._phase("spawned")

    def _abort(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def abort(request_id: str | Iterable[str], *args: Any, **kwargs: Any) -> Any:
            try:
                ids = [request_id] if isinstance(request_id, str) else list(request_id)
                request_id = ids
                ring = self._rings.mine()
                for one in ids if ring.active else ():
                    values = EVENT["cancelled"], SAMPLED_BY.index("all"), 1.0, NULL_I64, *[NULL_I32] * 8
                    ring.write(REQUEST, pack_texts(str(one)), *values)
            except Exception as error:
                self._guard.failed("abort", error)
            return original(request_id, *args, **kwargs)

        return abort

    def _shutdown(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def shutdown(*args: Any, **kwargs: Any) -> Any:
            # AsyncLLM calls it a second time when the object goes: an end is recorded once.
            again, self._ended = self._ended, True
            if again:
                return original(*args, **kwargs)
            self._record(self._begin_end)
            result = original(*args, **kwargs)
            self._record(lambda: self._phase("stopped"))
            return result

        return shutdown

    def _begin_end(self) -> None:
        if getattr(self._client, "errored", False):
            self._rings.mine().write(FAULT, pack_texts("engine_dead", "at the API server's end"), 1)
        else:
            self._phase("draining")

    def _record(self, what: Callable[[], None]) -> None:
        try:
            what()
        except Exception as error:
            self._guard.failed("shutdown", error)

    def _phase(self, phase: str) -> None:
        self._rings.mine().write(LIFECYCLE, pack_texts(None), PHASES.index(phase), NULL_I32, NULL_I32)
