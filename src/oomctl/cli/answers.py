"""Rows of an answer, to stdout or to a file, in the form that was asked for."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from oomctl.cli.options import Format, page_width, refuse_two, use_colour
from oomctl.cli.output import refuse_existing, refuse_folder
from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from oomctl.cli.sql import Result

TABLE_ROWS = 1000
"""So many rows are printed as a table on a terminal; a pipe, and every other form, get all."""


class AnswerFormat(StrEnum):
    """How rows are written: what every command has, and Parquet."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    MD = "md"
    PARQUET = "parquet"


SUFFIXES = {f".{form}": form for form in AnswerFormat} | {".txt": AnswerFormat.TABLE, ".markdown": AnswerFormat.MD}


class Answers:
    """Where answers go.

    Args:
        form: As given; None for a table, or what the file's name says.
        json: Whether --json was given.
        output: The file to write; None for stdout.
        force: Whether that file may be overwritten.
        limit: At most so many rows, 0 for all; None for the default.

    Raises:
        OomctlError: If they contradict each other, or the file is there already.
    """

    def __init__(self, form: AnswerFormat | None, json: bool, output: Path | None, force: bool, limit: int | None) -> None:
        refuse_two(form, json)
        named = SUFFIXES.get(output.suffix.lower()) if output is not None else None
        self.form = AnswerFormat.JSON if json else form or named or AnswerFormat.TABLE
        self._output = output
        on_terminal = output is None and sys.stdout.isatty()
        self._on_terminal = on_terminal
        self._limit = (TABLE_ROWS if on_terminal and self.form is AnswerFormat.TABLE else None) if limit is None else limit
        if output is not None:
            refuse_folder(output, "answer.csv")
            refuse_existing(output, force)
        if on_terminal and self.form is AnswerFormat.PARQUET:
            raise OomctlError("Parquet is not for a terminal", "add -o FILE.parquet, or pipe it on", ExitCode.USAGE)

    def give(self, result: "Result") -> int:
        """Write an answer.

        Returns:
            How many rows it had.
        """
        if self.form is AnswerFormat.PARQUET:
            written: int = self._put(lambda file: _write_parquet(result, file, self._limit or None))
            return written
        counted = _Counted(result.rows(self._limit or None))
        self._text(result.columns, counted)
        if self._limit and counted.n == self._limit and result.more():
            self.note(f"only the first {self._limit:,} rows are shown; --limit 0 shows all, --limit N the first N")
        return counted.n

    def give_rows(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Write rows that are no answer of DuckDB's."""
        if self.form is AnswerFormat.PARQUET:
            raise OomctlError("Parquet is for answers", "use another --format", ExitCode.USAGE)
        self._text(columns, rows)

    def give_words(self, columns: Sequence[str], words: str) -> None:
        """Write, in place of rows, why there are none: into what is for reading; beside what is for programs."""
        if self.form in (AnswerFormat.TABLE, AnswerFormat.MD):
            from oomctl.cli.render.text import escape, escape_md

            shown = escape_md(words) if self.form is AnswerFormat.MD else escape(words)
            self._put(lambda file: file.write(f"{shown}\n".encode()))
            return
        if self.form is not AnswerFormat.PARQUET:
            self._text(columns, ())
        self.note(words)

    def note(self, text: str) -> None:
        """Say on stderr what the rows cannot."""
        from oomctl.cli.boundary import note

        sys.stdout.flush()
        note(text)

    def _text(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        texts = chunks(columns, rows, Format(self.form.value), self._on_terminal)
        if self._output is None:
            sys.stdout.writelines(texts)
        else:
            self._put(lambda file: file.writelines(text.encode() for text in texts))

    def _put(self, write: Callable[[BinaryIO], Any]) -> Any:
        if self._output is None:
            sys.stdout.flush()
            return write(sys.stdout.buffer)
        from oomctl.schemas.whole import beside

        with beside(self._output) as scratch, scratch.open("wb") as file:
            return write(file)


class _Counted:
    """Rows, counted as they go by."""

    def __init__(self, rows: Iterable[Sequence[Any]]) -> None:
        self._rows = rows
        self.n = 0

    def __iter__(self) -> Iterator[Sequence[Any]]:
        for row in self._rows:
            self.n += 1
            yield row


def _write_parquet(result: "Result", file: BinaryIO, limit: int | None) -> int:
    import pyarrow.parquet

    batches = result.batches()
    first = next(batches)
    written = 0
    with pyarrow.parquet.ParquetWriter(file, first.schema, compression="zstd") as writer:
        for batch in batches:
            kept = batch if limit is None else batch.slice(0, limit - written)
            writer.write_batch(kept)
            written += kept.num_rows
            if limit is not None and written >= limit:
                break
    return written


def chunks(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], chosen: Format, terminal: bool | None = None
) -> Iterator[str]:
    """Rows as text.

    Args:
        columns: Names.
        rows: Plain values.
        chosen: The form.
        terminal: Whether a table has to fit one; None for what stdout is. Through a pipe every cell stays on its line.
    """
    from oomctl.cli.render import rows as render

    if chosen is Format.JSON:
        return render.rows_json(columns, rows)
    if chosen is Format.JSONL:
        return render.rows_jsonl(columns, rows)
    if chosen is Format.CSV:
        return render.rows_csv(columns, rows)
    if chosen is Format.MD:
        return render.rows_md(columns, rows)
    if terminal is None:
        terminal = sys.stdout.isatty()
    return render.rows_table(columns, rows, page_width() if terminal else None, terminal and use_colour())
