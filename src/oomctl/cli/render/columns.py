"""Tables of figures: a name at the left, figures at the right of their columns; what is not told is a dash."""

from collections.abc import Sequence

from oomctl.cli.render.sheet import Sheet
from oomctl.cli.render.text import cells, cut, escape

Figure = float | int | str | None
INDENT = 2
GAP = 2
NAME_COLUMNS = 32


def table(sheet: Sheet, heads: Sequence[str], rows: Sequence[tuple[str, Sequence[Figure]]]) -> None:
    """Add a table. Columns in which nothing is told are left out, and those that do not fit beside each other go below.

    Args:
        sheet: Where to.
        heads: Of the columns of figures.
        rows: (name, figures), a figure a column.
    """
    texts = [[shown(figure) for figure in figures] for _, figures in rows]
    told = [place for place in range(len(heads)) if any(figures[place] is not None for _, figures in rows)]
    widths = [max(cells(head), *(cells(row[place]) for row in texts)) for place, head in enumerate(heads)]
    names = [cut(escape(name), NAME_COLUMNS) for name, _ in rows]
    name_width = max(map(cells, names), default=0)
    for places in _pieces(told, widths, sheet.width - INDENT - name_width):
        sheet.add(_line("", name_width, [(heads[place], widths[place]) for place in places]), "dim", INDENT)
        for name, row in zip(names, texts, strict=True):
            sheet.add(_line(name, name_width, [(row[place], widths[place]) for place in places]), "", INDENT)


def shown(figure: Figure) -> str:
    """A count with commas, a ratio with the digits that matter, a dash for what is not told."""
    if figure is None:
        return "-"
    if isinstance(figure, str):
        return figure
    if isinstance(figure, int) or abs(figure) >= 100 or figure == round(figure):
        return f"{figure:,.0f}"
    return f"{figure:.3g}"


def percent(share: float | None) -> str | None:
    """A share as text."""
    return None if share is None else f"{100 * share:.2f}%"


def _pieces(places: Sequence[int], widths: Sequence[int], room: int) -> list[list[int]]:
    """Columns that fit beside each other, one at least."""
    pieces: list[list[int]] = []
    left = 0
    for place in places:
        needed = widths[place] + GAP
        if not pieces or needed > left:
            pieces.append([])
            left = room
        pieces[-1].append(place)
        left -= needed
    return pieces


def _line(name: str, name_width: int, figures: Sequence[tuple[str, int]]) -> str:
    right = "".join(" " * (GAP + width - cells(text)) + text for text, width in figures)
    return name + " " * (name_width - cells(name)) + right
