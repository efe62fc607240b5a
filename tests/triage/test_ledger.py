"""memory_at_oom: the device as a tree that adds up, whatever the figures."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oomctl import queries
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import Answers
from oomctl.analyzers.triage.groups import incidents
from oomctl.analyzers.triage.ledger import memory_at_oom
from oomctl.schemas import ddl, storage
from oomctl.schemas.events import KINDS
from oomctl.schemas.verdict import MemoryNode
from tests.scenarios import catalogue
from tests.triage import tables
from tests.triage.tables import GIB, LOADING, SERVING, STEP_FRAME, WARMING, Table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

DEVICE = [s.name for s in catalogue() if s.label["resource"] == "device" and s.label["verdict"] == "oom"]
amount = st.none() | st.integers(1, 2**38)
FIGURES = (
    "requested_bytes", "total_bytes", "free_bytes", "own_process_bytes", "other_processes_bytes", "allocated_bytes",
    "reserved_bytes", "reserved_unallocated_bytes", "private_pool_bytes", "limit_bytes",
)  # fmt: skip
figures = st.fixed_dictionaries(dict.fromkeys(FIGURES, amount))
components = st.lists(
    st.tuples(
        st.sampled_from(("weights", "kv_pool", "activation", "graph_pool", "adapter")),
        st.sampled_from(("steady", "available", "in_use", "load_peak", "estimate", "k", "v", None)),
        st.integers(0, 2**37),
        st.sampled_from((None, 0, 1)),
    ),
    max_size=6,
)


@pytest.fixture(scope="module")
def connection() -> Iterator["DuckDBPyConnection"]:
    connection = storage.connect()
    queries.install(connection)
    yield connection
    connection.close()


def ledger(connection: "DuckDBPyConnection", table: Table) -> MemoryNode | None:
    for kind in KINDS.values():
        connection.execute(f"DELETE FROM {ddl.stored(kind)}")
    storage.load_rows(connection, table.rows)
    members = incidents(connection)[0]
    return memory_at_oom(Case(Answers(connection), members[0], members))


def nodes(node: MemoryNode) -> Iterator[MemoryNode]:
    yield node
    for child in node.children:
        yield from nodes(child)


def told(node: MemoryNode) -> int:
    """Bytes of a node; of an unknown one what its children tell."""
    return node.bytes if node.bytes is not None else sum(map(told, node.children))


def tells(node: MemoryNode) -> bool:
    return node.bytes is not None or any(map(tells, node.children))


def child(node: MemoryNode | None, *names: str) -> MemoryNode:
    """A descendant by its path."""
    assert node is not None
    for name in names:
        node = next(found for found in node.children if found.name == name)
    return node


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(figures, components, st.sampled_from((None, 0, 1)))
def test_children_sum_exactly_to_their_parent(
    connection: "DuckDBPyConnection",
    given_figures: dict[str, int | None],
    given_components: list[tuple[str, str | None, int, int | None]],
    rank: int | None,
) -> None:
    table = Table(*WARMING)
    for component, owner, size, at_rank in given_components:
        table.add("memory", rank=at_rank, component=component, owner=owner, bytes=size, resolution_bytes=5)
    root = ledger(connection, table.stack(STEP_FRAME).oom(rank=rank, **given_figures))
    if root is None:
        assert given_figures["total_bytes"] is None
        return
    for node in nodes(root):
        assert (node.bytes is None) == (node.quality is None)
        assert node.bytes is not None or node.note, "what is unknown says so"
        if node.bytes is not None and any(map(tells, node.children)):
            assert sum(map(told, node.children)) == node.bytes, node.name


@pytest.mark.parametrize("name", DEVICE)
def test_scenarios_add_up(name: str) -> None:
    for ranks in (1, 2):
        root = tables.first(name, ranks=ranks).memory_at_oom
        for node in nodes(root) if root is not None else ():
            if node.bytes is not None and any(map(tells, node.children)):
                assert sum(map(told, node.children)) == node.bytes


def test_the_tree_of_a_whole_message(connection: "DuckDBPyConnection") -> None:
    table = Table(*WARMING).add("memory", component="weights", owner="steady", bytes=30 * GIB, resolution_bytes=5)
    root = ledger(connection, table.oom(**tables.figures(cached=2 * GIB), private_pool_bytes=GIB))
    assert root is not None and root.bytes == 80 * GIB
    assert child(root, "own_process").bytes == 79 * GIB
    assert child(root, "own_process", "non_framework").bytes == GIB
    framework = child(root, "own_process", "framework")
    assert framework.bytes == 78 * GIB
    assert [(node.name, node.bytes) for node in framework.children] == [
        ("weights", 30 * GIB),
        ("cached_free", 2 * GIB),
        ("private_pool_free", GIB),
        ("other_tensors", 45 * GIB),
    ]
    assert child(root, "unexplained").bytes == 0


def test_negative_remainders_are_kept(connection: "DuckDBPyConnection") -> None:
    table = Table(*WARMING).add("memory", component="kv_pool", owner="available", bytes=90 * GIB)
    root = ledger(connection, table.oom(**tables.figures()))
    assert child(root, "own_process", "framework", "other_tensors").bytes == -12 * GIB - 100 * tables.MIB
    shrunk = tables.figures() | {"own_process_bytes": 85 * GIB}
    root = ledger(connection, Table(*WARMING).oom(**shrunk))
    assert child(root, "others").bytes == -6 * GIB


def test_unknown_is_none_not_zero(connection: "DuckDBPyConnection") -> None:
    """A message without the in-use clause, as ROCm prints it."""
    partly = {**tables.figures(), "own_process_bytes": None}
    root = ledger(connection, Table(*SERVING).stack(STEP_FRAME).oom(**partly))
    assert root is not None
    for name in ("own_process", "others"):
        node = child(root, name)
        assert (node.bytes, node.quality, node.note) == (None, None, "not printed")
    assert child(root, "own_process", "framework").bytes == 78 * GIB
    assert child(root, "unexplained").bytes == GIB


def test_a_message_without_figures_has_no_tree(connection: "DuckDBPyConnection") -> None:
    assert ledger(connection, Table(*LOADING).stack(STEP_FRAME).oom()) is None


def test_keys_and_values_are_added(connection: "DuckDBPyConnection") -> None:
    """SGLang prints the two halves of its KV pool apart, for each rank."""
    table = Table(*WARMING)
    for rank, size in ((0, 7), (1, 9)):
        for owner in ("k", "v"):
            table.add("memory", rank=rank, component="kv_pool", owner=owner, bytes=size * GIB, resolution_bytes=5)
    root = ledger(connection, table.oom(rank=1, **tables.figures()))
    pool = child(root, "own_process", "framework", "kv_pool")
    assert (pool.bytes, pool.resolution_bytes, len(pool.cites)) == (18 * GIB, 10, 2)


def test_a_gate_shows_what_was_taken(connection: "DuckDBPyConnection") -> None:
    root = tables.first("gate_start_memory").memory_at_oom
    assert root is not None and root.bytes == 80 * GIB
    assert [node.name for node in root.children] == ["others", "free"]
    assert sum(map(told, root.children)) == root.bytes
