"""A config's fields under the names that models give them, with one clear error for what is missing."""

from collections.abc import Mapping
from typing import Any

from oomctl.schemas.errors import OomctlError


class Fields:
    """A JSON object with several spellings per field.

    Args:
        values: The object.
        where: Its file, for errors.
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values = values
        self.where = where

    def get(self, *names: str) -> Any:
        """The first of these fields that is there and not null."""
        return next((self._values[name] for name in names if self._values.get(name) is not None), None)

    def maybe(self, *names: str) -> int | None:
        """A count of at least 0, or None."""
        value = self.get(*names)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**48:
            raise OomctlError(f"{names[0]} is no count: {str(value)[:40]} ({self.where})")
        return value

    def need(self, *names: str) -> int:
        """A count of at least 1.

        Raises:
            OomctlError: It is missing, or no such count.
        """
        value = self.maybe(*names)
        if not value:
            raise OomctlError(
                f"{' or '.join(names)} is missing ({self.where})", "is it the config.json of a language model?"
            )
        return value

    def flag(self, *names: str, default: bool = False) -> bool:
        """A truth value."""
        value = self.get(*names)
        return default if value is None else bool(value)

    def words(self, name: str) -> list[str]:
        """A list of words; empty where there is none."""
        value = self.get(name)
        return [str(item) for item in value] if isinstance(value, list) else []

    def object(self, *names: str) -> "Fields":
        """A nested object; an empty one where there is none."""
        value = self.get(*names)
        return Fields(value if isinstance(value, Mapping) else {}, self.where)

    def __bool__(self) -> bool:
        return bool(self._values)
