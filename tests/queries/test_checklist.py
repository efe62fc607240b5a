"""Each item of the deployment checklist: what meets it, what does not, and an empty table, which says nothing."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from oomctl import queries
from oomctl.analyzers.checklist import go_through
from oomctl.schemas import storage
from oomctl.schemas.rows import Row, make_row
from tests.cli.run import oomctl

MIB = 1 << 20


def rows(*kinds: tuple[str, dict[str, Any]]) -> list[Row]:
    return [
        make_row(kind, {k: v for k, v in fields.items() if k != "life"},
                 {"stream": "s", "seq": n, "worker": "w", "incarnation": fields.get("life", "1")})
        for n, (kind, fields) in enumerate(kinds, 1)
    ]  # fmt: skip


def states(made: Sequence[Row]) -> dict[str, str]:
    connection = storage.connect()
    try:
        storage.load_rows(connection, made)
        queries.install(connection)
        return {item.name: item.state for item in go_through(connection)}
    finally:
        connection.close()


def manifest(key: str, value: str) -> tuple[str, dict[str, Any]]:
    return "manifest", {"section": "argument", "key": key, "value": value}


def memory(component: str, owner: str | None = None, size: int | None = MIB) -> tuple[str, dict[str, Any]]:
    return "memory", {"component": component, "owner": owner, "bytes": size}


def request(event: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    return "request", {"request_id": "r", "event": event, **fields}


MET: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "units": [memory("weights")],
    "disk_and_runtime_weights": [memory("weights", "disk"), memory("weights", "steady")],
    "quantisation": [manifest("quantization", "fp8")],
    "resident_parameters": [manifest("world_size", "1"), memory("weights")],
    "shards": [manifest("tensor_parallel_size", "2")],
    "adapters": [manifest("enable_lora", "False")],
    "kv_heads": [("kv_pool", {"bytes_per_block": 2 * MIB, "block_size_tokens": 16})],
    "kv_format": [manifest("kv_cache_dtype", "fp8")],
    "logical_and_physical": [("kv_pool", {"logical_tokens": 20, "physical_tokens": 16})],
    "prefix_boundaries": [request("admitted", prefix_id="ab")],
    "prefill_and_logits": [memory("activation"), memory("logits")],
    "workspaces": [memory("workspace")],
    "collectives": [manifest("world_size", "4"), memory("collective")],
    "allocator_and_device": [("allocator", {"allocated_bytes": 1, "reserved_bytes": 2}), ("device", {"free_bytes": 3})],
    "graphs": [manifest("enforce_eager", "True")],
    "admission": [request("admitted", reserved_output_tokens=9)],
    "load": [*(request("finished", request_id=str(n)) for n in range(1000)), ("throughput", {"waiting_requests": 5})],
    "tool_waits": [request("tool_wait_started", tool_action="offload")],
    "blocks_return": [request("cancelled"), request("blocks_freed")],
    "restart": [("lifecycle", {"phase": "ready", "life": "1"}), ("lifecycle", {"phase": "ready", "life": "2"})],
}
NOT_MET: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "units": [memory("weights", size=None), memory("kv_pool")],
    "disk_and_runtime_weights": [memory("weights", "steady")],
    "resident_parameters": [manifest("world_size", "2"), memory("weights")],
    "adapters": [manifest("enable_lora", "True")],
    "kv_heads": [("kv_pool", {"total_blocks": 10})],
    "logical_and_physical": [("kv_pool", {"logical_tokens": 20})],
    "prefix_boundaries": [request("admitted", cached_tokens=9)],
    "prefill_and_logits": [memory("activation")],
    "workspaces": [memory("non_torch")],
    "collectives": [manifest("world_size", "4")],
    "allocator_and_device": [("device", {"free_bytes": 3})],
    "graphs": [("graph", {"shape": "8"})],
    "admission": [request("admitted")],
    "load": [request("finished")],
    "tool_waits": [request("tool_wait_started")],
    "blocks_return": [request("cancelled"), request("cancelled", request_id="x"), request("blocks_freed")],
    "restart": [*MET["restart"], ("oom", {"resource": "device", "fatal": True})],
}


def test_every_item_is_tried() -> None:
    names = {name.partition("_")[2] for name in queries.names("checklist")}
    assert names == set(MET)


@pytest.mark.parametrize("item", MET)
def test_met(item: str) -> None:
    assert states(rows(*MET[item]))[item] == "met"


@pytest.mark.parametrize("item", NOT_MET)
def test_not_met(item: str) -> None:
    assert states(rows(*NOT_MET[item]))[item] == "not met"


def test_an_empty_recording_has_observed_nothing() -> None:
    assert set(states([]).values()) == {"not observed"}


def test_the_command() -> None:
    ran = oomctl("doctor", "--checklist", "examples/vllm-graph-capture.log", "--json")
    found = {row["item"]: row for row in json.loads(ran.out)}
    assert found["shards"]["state"] == "met" and "tensor_parallel_size" in found["shards"]["evidence"]
    assert found["blocks_return"]["state"] == "not observed"
    oomctl("doctor", "--checklist", "no-such-file").assert_fails(3, "no such file")


def test_lives_that_only_their_page_tells() -> None:
    common = {"stream": "url", "worker": "w", "source": "prometheus"}
    lives = [make_row("kv_pool", {"usage_ratio": 0.5}, {**common, "seq": n, "incarnation": f"url#{n}"}) for n in (1, 2)]
    assert states(lives)["restart"] == "met"
    assert states(lives[:1])["restart"] == "not observed"
