"""`oomctl query FILE -i`: question after question, with the history and completion that the system's readline gives."""

import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from oomctl import queries
from oomctl.schemas.common import COMMON
from oomctl.schemas.ddl import TABLE
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.events import KINDS, view_columns

if TYPE_CHECKING:
    from oomctl.cli.answers import Answers
    from oomctl.cli.questions import Questions

HELP = (
    "A SELECT that ends with ;\n"
    "or a query's name, with its parameters behind it: longest_prompts window_s=30\n"
    "list: the names    help: this    quit: leave (or Ctrl-D)    Tab completes tables, columns and names\n"
)
KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "ASOF JOIN", "USING", "WITH", "DESCRIBE",
    "count(*)", "quantile_cont", "arg_max", "row_number() OVER", "date_diff", "DESC", "NULLS FIRST",
)  # fmt: skip
HISTORY_LINES = 1000


def ask_on(questions: "Questions", answers: "Answers") -> None:
    """Read questions until the end of the input.

    Args:
        questions: Of the loaded incident.
        answers: Where to.
    """
    with_readline = sys.stdin.isatty() and sys.stdout.isatty() and _set_up(words())
    if sys.stdin.isatty():
        sys.stderr.write(HELP)
    asked = ""
    try:
        while True:
            try:
                line = _line("   ...> " if asked else "oomctl> ", with_readline)
            except EOFError:
                if asked.strip():
                    _ask(questions, answers, asked)
                return
            except KeyboardInterrupt:
                sys.stderr.write("\n")
                asked = ""
                continue
            if not asked and line.strip().rstrip(";").lower() in ("quit", "exit", r"\q"):
                return
            asked = f"{asked}{line}\n"
            if not asked.strip():
                asked = ""
            elif line.rstrip().endswith(";") or _is_named(asked):
                _ask(questions, answers, asked)
                asked = ""
    finally:
        if with_readline:
            _keep_history()


def words() -> list[str]:
    """What Tab completes: names of queries, tables, columns, and a few words of SQL."""
    columns = {field.name for field in COMMON} | {column for kind in KINDS.values() for column, _ in view_columns(kind)}
    named = {name for view in queries.names("views") for name, _ in queries.load("views", view).columns}
    tables = {TABLE, *KINDS, *queries.names("views"), *queries.names("postmortem")}
    return sorted(columns | named | tables) + list(KEYWORDS)


def complete(known: list[str], text: str, state: int) -> str | None:
    """The state-th word that begins with the text, as readline asks for it."""
    lower = text.lower()
    found = [word for word in known if word.lower().startswith(lower)]
    return found[state] if state < len(found) else None


def _ask(questions: "Questions", answers: "Answers", asked: str) -> None:
    from oomctl.cli.boundary import tell

    text = asked.strip()
    name, _, rest = text.rstrip(";").partition(" ")
    try:
        if name.lower() == "help":
            sys.stderr.write(HELP)
        elif name.lower() == "list":
            answers.give_rows(*questions.catalogue())
        elif name in queries.names("postmortem"):
            questions.named(name, dict(re.findall(r"(\w+)=(\S+)", rest)), answers)
        else:
            questions.free(text, answers)
    except OomctlError as error:
        tell("error", error)
    except (KeyboardInterrupt, RuntimeError) as error:
        # DuckDB puts a RuntimeError in the place of an interrupt.
        if isinstance(error, RuntimeError) and str(error) != "Query interrupted":
            raise
        sys.stderr.write("interrupted\n")
    sys.stdout.flush()


def _is_named(asked: str) -> bool:
    first, *rest = asked.split()
    if first in ("help", "list"):
        return not rest
    return first in queries.names("postmortem") and all("=" in word for word in rest)


def _line(prompt: str, with_readline: bool) -> str:
    if with_readline:
        return input(prompt)
    if sys.stdin.isatty():
        # Not by input(): without readline it writes the prompt among the data.
        sys.stderr.write(prompt)
        sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def _history() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "oomctl" / "query_history"


def _set_up(known: list[str]) -> bool:
    """History and completion; False where this Python has no readline."""
    try:
        import readline
    except ImportError:
        return False
    with suppress(OSError):
        readline.read_history_file(_history())
    readline.set_completer(lambda text, state: complete(known, text, state))
    readline.set_completer_delims(" \t\n,;()=<>+-*/.'\"")
    editline = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if editline else "tab: complete")
    return True


def _keep_history() -> None:
    import readline

    path = _history()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        readline.set_history_length(HISTORY_LINES)
        readline.write_history_file(path)
