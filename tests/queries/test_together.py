"""What is asked about several failures at once is answered as it is about each alone."""

from typing import Any

import pytest

from oomctl import queries
from oomctl.analyzers.triage.evidence import Answers, ask
from tests.queries.fixtures import EVIDENCE, database, parameters
from tests.triage.test_repeats import loop

ASKED_OF = [name for name in queries.names("evidence") if queries.load("evidence", name).params and name != "lines"]
"""Those that are asked about a failure, or another row."""
INSTANTS = (0, 5, 16, 17, 60, 10**9)


def subjects(name: str) -> tuple[Any, list[dict[str, Any]]]:
    """A connection, and the failure of the query's fixture at several instants, with several tracebacks."""
    connection = database(EVIDENCE[name])
    given = parameters(connection, EVIDENCE[name].incident)
    found = connection.execute("SELECT stack_id FROM oom UNION SELECT stack_id FROM refusal ORDER BY ALL").fetchall()
    instants = [given["seq"], *INSTANTS]
    return connection, [{**given, "seq": seq, "line": seq, "stack_id": stack} for (stack,) in found for seq in instants]


@pytest.mark.parametrize("name", ASKED_OF)
def test_together_as_alone(name: str) -> None:
    connection, asked = subjects(name)
    answers = Answers(connection)
    for each in asked:
        answers.concern(each)
    alone = [ask(connection, name, each) for each in asked]
    assert [answers.about(name, [each]) for each in asked] == alone
    assert answers.about(name, asked) == [row for rows in alone for row in rows]
    assert any(alone), "a fixture that gives no row shows nothing"


def test_queries_do_not_grow_with_the_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    original = Answers._asked

    def counted(self: Answers, query: queries.Query, subjects: Any) -> Any:
        asked.append(query.name)
        return original(self, query, subjects)

    monkeypatch.setattr(Answers, "_asked", counted)
    assert loop(10).root().repeats == 9
    of_ten = asked.copy()
    assert loop(40).root().repeats == 39
    assert asked == of_ten * 2
    assert len(of_ten) == len(set(of_ten)) > 5
