"""A call that may take long, or for ever, beside a loop that must not wait."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Call(Generic[T]):
    """Runs a function once in a thread of its own.

    An executor's threads are waited for when Python ends; a driver call that hangs would keep the recorder from ending.
    This thread is not.

    Args:
        function: Called at once, without arguments.
        name: Of the thread.
    """

    def __init__(self, function: Callable[[], T], name: str) -> None:
        self._function = function
        self._value: list[T] = []
        self._error: BaseException | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def done(self) -> bool:
        """Whether it came back."""
        return self._ended.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for it; False if it did not come back in time."""
        return self._ended.wait(timeout_s)

    def result(self) -> T:
        """What it gave; raises what it raised. Only once it is done."""
        if self._error is not None:
            raise self._error
        return self._value[0]

    def _run(self) -> None:
        try:
            self._value.append(self._function())
        except BaseException as error:
            self._error = error
        finally:
            self._ended.set()
