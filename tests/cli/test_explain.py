"""`oomctl explain`: it knows every word that a verdict prints."""

import ast
import re
from collections.abc import Iterator
from typing import get_args

import pytest

from oomctl.analyzers.allocator import advice
from oomctl.analyzers.triage.causes import TOLD_BY_FIGURES
from oomctl.cli import pages
from oomctl.schemas.kinds_memory import COMPONENTS
from oomctl.schemas.kinds_serving import PHASES
from oomctl.schemas.verdict import CODES, Quality, Resource, Verdict
from tests.cli.run import oomctl
from tests.working_tree import ROOT

TRIAGE = ROOT / "analyzers" / "triage"


def calls(*functions: str) -> Iterator[ast.Call]:
    """Calls of these functions in the modules that make verdicts."""
    for path in TRIAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in functions:
                yield node


def texts(*nodes: ast.AST) -> set[str]:
    """Texts written out that are one word."""
    found = (each.value for node in nodes for each in ast.walk(node) if isinstance(each, ast.Constant))
    return {value for value in found if isinstance(value, str) and value.replace("_", "a").isalnum()}


def tables_of_causes() -> Iterator[str]:
    """First members of the tables that name a cause by the part of the work."""
    for path in TRIAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Assign)
                and ast.unparse(node.targets[0]).endswith("CAUSES")
                and isinstance(node.value, ast.Dict)
            ):
                yield from (ast.literal_eval(value)[0] for value in node.value.values)
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("CAUSES.get"):
                yield ast.literal_eval(node.args[1])[0]  # where the part is not told
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "OTHER_DEATH":
                yield ast.literal_eval(node.value)


def causes() -> set[str]:
    """All that `causes` of a verdict may name; what the fit test alone calls by other names is in TOLD_BY_FIGURES."""
    named = {word for call in calls("Cause") for key in call.keywords if key.arg == "cause" for word in texts(key.value)}
    named |= {word for call in calls("_cause") for argument in call.args[1:2] for word in texts(argument)}
    return (named | set(tables_of_causes()) | set(get_args(advice.Cause))) - set(TOLD_BY_FIGURES)


def entries() -> set[str]:
    """Names of entries of the tree of the device's memory."""
    return {word for call in calls("_node", "_sum", "MemoryNode") for word in texts(*call.args[:1])} | set(COMPONENTS)


def collectors() -> set[str]:
    named = {
        word for call in calls("Missing") for key in call.keywords if key.arg == "collector" for word in texts(key.value)
    }
    return named | {"host"}


VOCABULARIES = {
    "verdict": {*get_args(Verdict), "undetermined"},
    "resource": set(get_args(Resource)),
    "quality": set(get_args(Quality)),
    "phase": set(PHASES),
    "fit test": set(get_args(advice.Cause)) & set(TOLD_BY_FIGURES),
    "memory": entries(),
    "collector": collectors(),
}


@pytest.mark.parametrize("axis", VOCABULARIES)
def test_every_word_is_explained(axis: str) -> None:
    words = pages.glossary()
    assert len(VOCABULARIES[axis]) >= 3
    unknown = {word for word in VOCABULARIES[axis] if word not in words and pages.find(word) is None}
    assert unknown == set()


@pytest.mark.parametrize("typed", ["preemption-storm", "Preemption Storm", "PREEMPTION_STORM"])
def test_a_word_is_known_however_it_is_typed(typed: str) -> None:
    ran = oomctl("explain", typed)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("# preemption_storm: ")


def test_every_cause_has_a_page_and_every_page_is_a_cause() -> None:
    assert {"warm_up_peak", "graph_capture", "other_failure", "exhaustion"} <= causes()
    assert {page.name for page in pages.causes()} == causes() - set(CODES)


def test_all_pages_are_listed() -> None:
    listed = oomctl("explain").out
    for page in (*pages.classes(), *pages.causes(), *pages.questions()):
        assert re.search(rf"\b{page.name}\b", listed), page.name
    assert max(map(len, listed.splitlines())) <= 124


def test_no_name_is_explained_in_two_places() -> None:
    names = [page.name for page in (*pages.classes(), *pages.causes(), *pages.questions())] + list(pages.glossary())
    assert len(names) == len(set(names))


def test_a_word_has_one_line() -> None:
    ran = oomctl("explain", "kv-blocks")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("kv_blocks (resource): ")
    assert max(map(len, ran.out.splitlines())) <= 100


def test_a_class_and_its_code_are_known_however_they_are_typed() -> None:
    assert oomctl("explain", "prefill-spike").out == oomctl("explain", "oom003").out != ""


def test_a_word_of_two_axes_is_told_twice() -> None:
    lines = [line for line in oomctl("explain", "device").out.splitlines() if not line.startswith(" ")]
    assert [line.partition(":")[0] for line in lines] == ["device (resource)", "device (memory)"]


def test_no_word_is_no_page() -> None:
    oomctl("explain", "").assert_fails(2, "no class, engine or word of a verdict ''")


def test_an_unknown_word() -> None:
    oomctl("explain", "preemtion_storm").assert_fails(2, "did you mean preemption_storm?")


def test_a_wrong_word_gets_a_short_answer() -> None:
    for word in ("WRONGWORD", "prefil"):
        ran = oomctl("explain", word)
        ran.assert_fails(2, f"no class, engine or word of a verdict '{word}'")
        assert max(map(len, ran.err.splitlines())) < 120
    assert "did you mean prefill_spike or prefill_activation" in ran.err
