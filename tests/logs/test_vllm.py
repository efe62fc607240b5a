"""vLLM's lines: one per rule and version, in the engine's format with this test's figures."""

# ruff: noqa: E501  a line of a log is one line

from typing import Any

import pytest

from oomctl.collectors.artifacts.logs.units import size
from tests.logs.reading import of_kind, read

HEAD = "(Worker_TP1 pid=77) INFO 03-14 15:09:40 [v1/worker/gpu_worker.py:430] "
RESOLUTION = 5368709
"""Half of 0.01 GiB."""


def gib(number: float) -> int:
    return round(number * 2**30)


def facts(text: str, head: str = HEAD) -> list[tuple[str, dict[str, Any]]]:
    return [(row["kind"], row[row["kind"]]) for row in read(f"{head}{text}\n") if row["kind"] != "log"]


def said(text: str, kind: str, head: str = HEAD) -> list[dict[str, Any]]:
    return [fields for found, fields in facts(text, head) if found == kind]


def component(
    name: str, number: float, owner: str | None, lifetime: str = "worker", resolution: int = RESOLUTION
) -> dict[str, Any]:
    fields: dict[str, Any] = {"component": name, "lifetime": lifetime, "bytes": gib(number), "resolution_bytes": resolution}
    return fields if owner is None else {**fields, "owner": owner}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Model loading took 17.25 GiB memory and 5.204 seconds", [component("weights", 17.25, "steady")]),
        ("Model loading took 9.0231 GB and 3.60 seconds", [component("weights", 9.0231, "steady", resolution=53687)]),
        ("Loading model weights took 7.5068 GB", [component("weights", 7.5068, "steady", resolution=53687)]),
        ("Peak GPU memory after loading weights: 18.11 GiB", [component("weights", 18.11, "load_peak")]),
        ("Available KV cache memory: 14.99 GiB", [component("kv_pool", 14.99, "available")]),
        ("Available KV cache memory: -3.27 GiB", [component("kv_pool", -3.27, "available")]),
        ("Estimated CUDA graph memory: 1.69 GiB total", [component("graph_pool", 1.69, "estimate")]),
        ("Graph capturing finished in 11 secs, took 0.38 GiB", [component("graph_pool", 0.38, "captured")]),
        (
            "CUDA graph pool memory: 0.9 GiB (actual), 1.69 GiB (estimated), difference: 0.79 GiB (46.7%).",
            [component("graph_pool", 0.9, "actual", resolution=53687091), component("graph_pool", 1.69, "estimate")],
        ),
        (
            "Memory profiling takes 19.45 seconds. Total non KV cache memory: 11.47GiB; torch peak memory increase: 1.89GiB; "
            "non-torch forward increase memory: 2.07GiB; weights memory: 7.51GiB.",
            [
                component("activation", 1.89, "peak", "iteration"),
                component("non_torch", 2.07, "forward_increase"),
                component("weights", 7.51, "steady"),
            ],
        ),
        (
            "Memory profiling results: total_gpu_memory=47.50GiB initial_memory_usage=1.31GiB peak_torch_memory=17.20GiB "
            "memory_usage_post_profile=18.02GiB non_torch_memory=0.66GiB kv_cache_size=24.89GiB gpu_memory_utilization=0.90.",
            [
                component("activation", 17.2, "peak_with_weights", "iteration"),
                component("non_torch", 0.66, None),
                component("kv_pool", 24.89, "available"),
            ],
        ),
        (
            "model weights take 9.02GiB; non_torch_memory takes 0.10GiB; PyTorch activation peak memory takes 1.42GiB; the rest "
            "of the memory reserved for KV Cache is 3.65GiB.",
            [
                component("weights", 9.02, "steady"),
                component("non_torch", 0.1, None),
                component("activation", 1.42, "peak", "iteration"),
                component("kv_pool", 3.65, "available"),
            ],
        ),
        (
            "Free memory on device cuda:0 (78.61/79.25 GiB) on startup. Desired GPU memory utilization is (0.9, 71.32 GiB). Actual "
            "usage is 38.42 GiB for weight, 1.11 GiB for peak activation, 1.3 GiB for non-torch memory, and 0.56 GiB for "
            "CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=1`. Current kv cache memory in use is 29.43 GiB.",
            [
                component("weights", 38.42, "steady"),
                component("activation", 1.11, "peak", "iteration"),
                component("non_torch", 1.3, "forward_increase", resolution=53687091),
                component("graph_pool", 0.56, "actual"),
                component("kv_pool", 29.43, "in_use"),
            ],
        ),
        (
            "Free memory on device (78.61/79.25 GiB) on startup. Desired GPU memory utilization is (0.9, 71.32 GiB). Actual usage is "
            "39.72 GiB for consumed memory (weights + non-torch), 1.11 GiB for peak activation, and 0.56 GiB for CUDAGraph memory.",
            [
                component("weights", 39.72, "with_non_torch"),
                component("activation", 1.11, "peak", "iteration"),
                component("graph_pool", 0.56, "actual"),
            ],
        ),
    ],
)  # fmt: skip
def test_components(text: str, expected: list[dict[str, Any]]) -> None:
    found = said(text, "memory")
    assert sorted(found, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "worker init memory snapshot: torch_peak=0.01GiB, free_memory=77.66GiB, total_memory=79.19GiB, cuda_memory=1.53GiB, torch_memory=0.02GiB",
            {"free_bytes": gib(77.66), "total_bytes": gib(79.19), "used_bytes": gib(1.53)},
        ),
        ("worker requested memory: 75.23GiB", {"budget_bytes": gib(75.23)}),
        ("Initial free memory: 77.66 GiB; Requested memory: 0.950000 (util), 75.23 GiB", {"budget_bytes": gib(75.23)}),
        ("Memory profiling results: total_gpu_memory=47.50GiB initial_memory_usage=1.31GiB non_torch_memory=0.66GiB", {"total_bytes": gib(47.5), "used_bytes": gib(1.31)}),
        ("the current vLLM instance can use total_gpu_memory (15.77GiB) x gpu_memory_utilization (0.90) = 14.19GiB", {"total_bytes": gib(15.77), "budget_bytes": gib(14.19)}),
        ("Free memory on device (78.61/79.25 GiB) on startup. Desired GPU memory utilization is (0.9, 71.32 GiB).", {"free_bytes": gib(78.61), "total_bytes": gib(79.25), "budget_bytes": gib(71.32)}),
    ],
)  # fmt: skip
def test_device(text: str, expected: dict[str, int]) -> None:
    assert said(text, "device") == [{**expected, "resolution_bytes": RESOLUTION}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GPU KV cache size: 205,712 tokens", {"tier": "device", "total_tokens": 205712}),
        ("CPU KV cache size: 5,712 tokens", {"tier": "host", "total_tokens": 5712}),
        ("GPU KV cache size: 1,044,688 tokens, Maximum concurrency for 8,192 tokens per request: 127.53x", {"tier": "device", "total_tokens": 1044688, "max_concurrency": 127.53}),
        ("Maximum concurrency for 8,192 tokens per request: 127.53x", {"tier": "device", "max_concurrency": 127.53}),
        ("# GPU blocks: 4659, # CPU blocks: 4096", {"tier": "device", "total_blocks": 4659}),
        ("# cuda blocks: 1869, # CPU blocks: 2048", {"tier": "device", "total_blocks": 1869}),
        ("vllm cache_config_info with initialization after num_gpu_blocks is: 65293", {"tier": "device", "total_blocks": 65293}),
    ],
)  # fmt: skip
def test_kv_pool(text: str, expected: dict[str, Any]) -> None:
    assert said(text, "kv_pool") == [expected]


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("vLLM API server version 0.17.1", "spawned"),
        ("Initializing a V1 LLM engine (v0.17.1) with config: model='m'", "spawned"),
        ("Initializing an LLM engine (v0.6.4) with config: model='m'", "spawned"),
        ("Starting to load model acme/otter-9b...", "loading"),
        ("Loading weights on cuda:0 ...", "loading"),
        ("Model loading took 17.25 GiB memory and 5.2 seconds", "weights_loaded"),
        ("Profiling CUDA graph memory: PIECEWISE=51 (largest=512)", "profiling"),
        ("GPU KV cache size: 205,712 tokens", "kv_allocated"),
        ("torch.compile took 21.40 s in total", "compiling"),
        ("Capturing the model for CUDA graphs. This may lead to", "capturing"),
        ("Capturing cudagraphs for decoding. This may lead", "capturing"),
        ("Warming up FlashInfer attention.", "capturing"),
        ("Sleep mode freed 21.00 GiB memory, 1.01 GiB memory is still in use.", "sleeping"),
        ("It took 1.204 seconds to fall asleep.", "sleeping"),
        ("It took 0.604 seconds to wake up tags {'weights'}.", "waking"),
    ],
)
def test_phase(text: str, phase: str) -> None:
    assert [fields["phase"] for fields in said(text, "lifecycle")] == [phase]


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        ("Loading safetensors checkpoint shards:   0% Completed | 0/4 [00:00<?, ?it/s]", "loading"),
        ("Capturing CUDA graphs (decode, FULL):   2%|▏         | 1/51 [00:00<00:12,  3.9it/s]", "capturing"),
        ("(APIServer pid=71) INFO:     Application startup complete.", "ready"),
        ('(APIServer pid=71) INFO:     127.0.0.1:40118 - "POST /sleep?level=1 HTTP/1.1" 200 OK', "sleeping"),
        ('(APIServer pid=71) INFO:     127.0.0.1:40118 - "POST /wake_up HTTP/1.1" 200 OK', "waking"),
        ('(APIServer pid=71) INFO:     127.0.0.1:40118 - "POST /v1/load_lora_adapter HTTP/1.1" 200 OK', "reloading"),
        ("(APIServer pid=71) INFO:     Shutting down", "draining"),
        ("(APIServer pid=71) INFO:     Application shutdown complete.", "stopped"),
    ],
)
def test_phase_of_a_bare_line(line: str, phase: str) -> None:
    assert [fields["phase"] for fields in said(line, "lifecycle", head="")] == [phase]


def test_arguments() -> None:
    text = (
        "non-default args: {'model': 'acme/otter-9b', 'max_model_len': 16384, 'gpu_memory_utilization': 0.95, 'api_key': "
        "['sk-000000000000000000000000'], 'enable_prefix_caching': False, 'chat_template': None}"
    )
    assert {fields["key"]: fields["value"] for fields in said(text, "manifest") if fields["section"] == "argument"} == {
        "model": "acme/otter-9b",
        "max_model_len": "16384",
        "gpu_memory_utilization": "0.95",
        "enable_prefix_caching": "False",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vLLM API server version 0.17.1", ("engine", "version", "0.17.1")),
        ("Initializing a V1 LLM engine (v0.33.0) with config: model='m'", ("engine", "version", "0.33.0")),
        ("args: Namespace(host=None, max_num_seqs=64, swap_space=4.0)", ("argument", "max_num_seqs", "64")),
        ("Chunked prefill is enabled with max_num_batched_tokens=8192.", ("argument", "max_num_batched_tokens", "8192")),
        ("Defaulting max_num_seqs to 1024 for OPENAI_API_SERVER usage context.", ("argument", "max_num_seqs", "1024")),
        ("Maximum concurrency for 8,192 tokens per request: 1.50x", ("argument", "max_model_len", "8192")),
        ("Loaded weight lm_head.weight with shape torch.Size([64128, 4096])", ("model", "vocab_rows", "64128")),
        (
            "Loaded weight model.embed_tokens.weight with shape torch.Size([64128, 4096])",
            ("model", "embedding_rows", "64128"),
        ),
        ("world_size=2 rank=1 local_rank=1 distributed_init_method=tcp://127.0.0.1:1", ("parallelism", "world_size", "2")),
        (
            "rank 1 in world size 2 is assigned as DP rank 0, PP rank 0, TP rank 1, EP rank 1",
            ("parallelism", "world_size", "2"),
        ),
    ],
)
def test_manifest(text: str, expected: tuple[str, str, str]) -> None:
    assert expected in [(fields["section"], fields["key"], fields["value"]) for fields in said(text, "manifest")]


def test_a_process_keeps_the_rank_that_it_announced() -> None:
    head = "(Worker pid=445) INFO 03-14 15:09:40 [a.py:1] "
    rows = read(f"{head}world_size=4 rank=3 local_rank=1 backend=nccl\n{head}Available KV cache memory: 14.99 GiB\n")
    assert next(row["rank"] for row in rows if row["kind"] == "memory") == 3
    assert (
        next(row["device_id"] for row in rows if row["kind"] == "manifest" and row["manifest"]["key"] == "world_size") == 1
    )


@pytest.mark.parametrize(
    ("number", "unit", "binary", "expected"),
    [
        ("14.99", "GiB", False, (gib(14.99), RESOLUTION)),
        ("14.99", "GB", True, (gib(14.99), RESOLUTION)),
        ("14.99", "GB", False, (14_990_000_000, 5_000_000)),
        ("1,024", "MiB", False, (2**30, 2**19)),
        ("0", "bytes", False, (0, 0)),
        ("512", "bytes", False, (512, 0)),
        ("17179869184.00", "GiB", False, None),
        ("1", "parsec", False, None),
        ("..", "GiB", False, None),
        ("", "GiB", False, None),
    ],
)
def test_size(number: str, unit: str, binary: bool, expected: tuple[int, int] | None) -> None:
    assert size(number, unit, binary=binary) == expected


def test_nothing_of_this_is_a_failure() -> None:
    assert of_kind(read(f"{HEAD}Available KV cache memory: 14.99 GiB\n"), "oom", "refusal", "fault") == []
