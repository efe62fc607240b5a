"""Lines on their way to a terminal: wrapped, indented, coloured, and never steered by what they quote."""

from textwrap import wrap

from oomctl.cli.render.text import cells, cut, cut_end, escape, gist, paint

QUOTED = 3
"""Terminal lines that a cited line may take: an allocator's message up to its last figure."""


class Sheet:
    """Collects lines. Every method escapes what it is given.

    Args:
        width: Columns.
        colour: Whether to use ANSI colours.
    """

    def __init__(self, width: int, colour: bool) -> None:
        self.width = width
        self.colour = colour
        self._lines: list[str] = []
        self._quoted: set[str] = set()

    def add(self, text: str, style: str = "", indent: int = 0) -> None:
        """One line, cut in its middle if it is too long."""
        self._lines.append(" " * indent + paint(cut(escape(text), self.width - indent), style, self.colour))

    def wrapped(self, text: str, indent: int = 0, hang: int = 0, style: str = "") -> None:
        """A paragraph.

        Args:
            text: What to say.
            indent: Columns before every line.
            hang: Further columns before all lines but the first, for a bullet or a number.
            style: Of the text.
        """
        lines = wrap(
            escape(text),
            max(self.width - indent, 20),
            subsequent_indent=" " * hang,
            break_on_hyphens=False,
        )
        self._lines += [" " * indent + paint(line, style, self.colour) for line in lines]

    def quote(self, place: str, text: str | None, indent: int) -> None:
        """A cited line after its place: what it says, without the header that all lines share, in at most QUOTED lines."""
        room = max(self.width - indent, 20)
        place = cut(escape(place), max(room // 2, 12))
        if place in self._quoted and text:
            self._lines.append(" " * indent + paint(place, "cyan", self.colour) + ": (quoted above)")
            return
        self._quoted.add(place)
        said = "" if text is None else escape(gist(text))
        if not said:
            self.add(place, "cyan", indent)
            return
        first, *rest = wrap(said, room, initial_indent=" " * (cells(place) + 2), break_on_hyphens=False) or [""]
        lines = [first[cells(place) + 2 :], *rest]
        if len(lines) > QUOTED:
            lines = [*lines[: QUOTED - 1], cut_end(lines[QUOTED - 1] + " …", room)]
        self._lines.append(" " * indent + paint(place, "cyan", self.colour) + f": {lines[0]}")
        self._lines += [" " * indent + line for line in lines[1:]]

    def heading(self, text: str) -> None:
        """A section's title, after an empty line."""
        self.gap()
        self.add(text, "bold")

    def gap(self) -> None:
        """An empty line, unless there is one already or nothing above it."""
        if self._lines and self._lines[-1]:
            self._lines.append("")

    def text(self) -> str:
        """All of it, ending with a newline."""
        return "\n".join(line.rstrip() for line in self._lines) + "\n"
