r"""How an engine writes: what stands before a line, how frames look, and the words of each beat of a story.

Words are templates, one printed line a line. The first word of a line is its mark: the prefix that it gets.

    I text      a prefix of the dialect's `marks`, here its INFO lines; `I*` prints it once for each rank
    | text      no prefix
    F file.py:function code     a Python frame, two lines
    N symbol                    a native frame, numbered from 1

The rest is a format string over the values of `teller.Teller`; sizes know their units: `{weights:GiB}` gives 61.20,
`{weights:MiB.0}` no digits, `{weights}` bytes. Braces that are meant stand doubled.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tests.scenarios.labels import Label
from tests.scenarios.printing import GIB, KIB, MIB, torch_size

UNITS = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "MB": 10**6, "GB": 10**9}


class Bytes(int):
    """A size that a format string prints in any unit: `GiB`, `MiB.0` (digits after the point), `torch`."""

    def __format__(self, spec: str) -> str:
        if spec == "torch":
            return torch_size(int(self)).text
        unit, _, digits = spec.partition(".")
        if unit in UNITS:
            return f"{self / UNITS[unit]:.{digits or '2'}f}"
        return int.__format__(self, spec)


@dataclass(frozen=True)
class Dialect:
    """One version's or front end's way of writing.

    Attributes:
        name: Of the dialect.
        marks: Prefix templates by mark; `F` stands before each line of a Python frame.
        words: Templates by beat: start, load, loaded, cache, warm, ready, wait, serve, prompt, stop, restart, ...
        root: Folder of the packages that frames name.
        finish: What becomes of the whole text at the end, such as JSON.
    """

    name: str
    marks: Mapping[str, str]
    words: Mapping[str, str]
    root: str = "/usr/local/lib/python3.12/dist-packages/"
    finish: Callable[[str], str] | None = None

    def but(
        self,
        name: str,
        marks: Mapping[str, str] | None = None,
        words: Mapping[str, str] | None = None,
        root: str = "",
        finish: Callable[[str], str] | None = None,
    ) -> "Dialect":
        """This dialect with some things said differently."""
        return replace(
            self,
            name=name,
            marks={**self.marks, **(marks or {})},
            words={**self.words, **(words or {})},
            root=root or self.root,
            finish=finish or self.finish,
        )


@dataclass(frozen=True)
class Fixture:
    """A labelled log: a story in a dialect, with the words of the failure.

    Attributes:
        family: Of engines.
        story: Key of `stories.STORIES`.
        variant: What is special about its shape.
        dialect: Its words.
        failure: Words of what goes wrong, as in `Dialect.words`.
        ranks: How many workers there are; each prints the failure.
        label: Where it is not the story's: what this log cannot show, or shows in addition.
    """

    family: str
    story: str
    variant: str
    dialect: Dialect
    failure: str = ""
    ranks: int = 1
    label: Label | None = None

    @property
    def name(self) -> str:
        """Unique over all families."""
        return f"{self.family}/{self.story}/{self.variant}"
