"""Lines on their way to a terminal: wrapped, indented, coloured, and never steered by what they quote."""

from textwrap import wrap

from oomctl.cli.render.text import cells, cut, escape, paint


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
        """A cited line after its place. The place stays whole where it can, so that it can be clicked or copied."""
        room = self.width - indent
        place = cut(escape(place), max(room // 2, 12))
        rest = "" if text is None else cut(escape(text.strip()), room - cells(place) - 2)
        self._lines.append(" " * indent + paint(place, "cyan", self.colour) + (f": {rest}" if rest else ""))

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
