"""The wall between the agent and the engine: what fails in here stays in here."""

import inspect
import traceback
from collections.abc import Callable
from typing import Any

from oomctl.collectors.agent.kinds import COLLECTOR
from oomctl.collectors.agent.layout import NULL_I64, pack_texts
from oomctl.collectors.agent.rings import Rings, tell

LIMIT = 100
"""Exceptions after which the agent detaches: it does not fit this engine."""


class Guard:
    """Counts the agent's own exceptions, tells the first, and gives up after too many.

    Args:
        rings: Where it is recorded.
        give_up: Detaches the agent.
    """

    def __init__(self, rings: Rings, give_up: Callable[[], None]) -> None:
        self._rings = rings
        self._give_up = give_up
        self.errors = 0

    def failed(self, where: str, error: Exception) -> None:
        """An exception of the agent's own, caught. Never raises."""
        try:
            self.errors += 1
            ring = self._rings.mine()
            ring.count_error()
            if self.errors == 1:
                text = f"{where}: {error!r}"
                frame = traceback.extract_tb(error.__traceback__)[-1]
                tell(f"{text}; kept from the engine, and later ones only counted")
                tail = pack_texts("agent", "degraded", f"{text} ({frame.name}:{frame.lineno})"[:1000])
                ring.write(COLLECTOR, tail, NULL_I64, self.errors, NULL_I64)
            elif self.errors == LIMIT:
                tell(f"{LIMIT} exceptions of its own: it detaches")
                ring.write(COLLECTOR, pack_texts("agent", "failed", "detached"), NULL_I64, self.errors, NULL_I64)
                self._give_up()
        except Exception:
            # The counter in the ring's header told already, if it could; the engine must not hear of this one either.
            return

    def absent(self, what: list[str]) -> None:
        """Say once what this engine does not have; the fields that need it stay NULL."""
        if what:
            tail = pack_texts("agent", "absent", ", ".join(what)[:2000])
            self._rings.mine().write(COLLECTOR, tail, NULL_I64, self.errors, NULL_I64)


class Patches:
    """Methods of single objects that were replaced, and can be put back."""

    def __init__(self) -> None:
        self._made: list[tuple[Any, str, Any]] = []
        self.absent: list[str] = []

    def wrap(self, target: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> bool:
        """Replace `target.name` on this one object by `make(the original)`.

        Returns:
            False, noting it in `absent`, where the object has no such method.
        """
        original = getattr(target, name, None)
        if not callable(original):
            self.absent.append(f"{type(target).__name__}.{name}")
            return False
        wrapper = make(original)
        setattr(target, name, wrapper)
        self._made.append((target, name, wrapper))
        return True

    def undo(self) -> None:
        """Put back each that is still ours; what somebody wrapped after us stays, and calls through us."""
        for target, name, wrapper in reversed(self._made):
            if vars(target).get(name) is wrapper:
                delattr(target, name)
        self._made.clear()


def takes_only(method: Callable[..., Any], *names: str) -> bool:
    """Whether a method takes these arguments and no other, by position and by name; False where it does not tell."""
    try:
        parameters = inspect.signature(method).parameters
    except (TypeError, ValueError):
        return False
    return tuple(parameters) == names and all(one.kind is one.POSITIONAL_OR_KEYWORD for one in parameters.values())


def pass_more(wrapper: Callable[..., Any], original: Callable[..., Any], first: int) -> Callable[..., Any]:
    """A wrapper that looks at the first arguments of a method, for a method that has others too.

    Args:
        wrapper: Gets those, and as `call` the original with the others.
        original: The method.
        first: How many; a call that does not pass them by position is not seen.
    """

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if len(args) < first:
            return original(*args, **kwargs)
        return wrapper(*args[:first], call=lambda *seen: original(*seen, *args[first:], **kwargs))

    return wrapped
