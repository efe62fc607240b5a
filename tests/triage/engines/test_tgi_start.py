# ruff: noqa: E501  (lines as the engine prints them)
"""TGI's warm-up that fails, told by its launcher, its shard and its router, as a container's runtime wraps them."""

import pytest

from oomctl.schemas.verdict import Incident
from tests.logs.reading import reading
from tests.triage.logs import triaged

ARGS = '2025-09-14T06:00:00.120000Z  INFO text_generation_launcher: Args {{ model_id: "acme/otter-32b", sharded: {sharded}, num_shard: {shards}, quantize: None, max_input_tokens: Some(12000), max_total_tokens: None, max_batch_prefill_tokens: Some(48000), cuda_memory_fraction: 1.0 }}'
WARM = """\
2025-09-14T06:00:51.000000Z  INFO shard-manager: text_generation_launcher: Shard ready in 48.1s rank=0
2025-09-14T06:00:52.000000Z  INFO text_generation_launcher: Starting Webserver
2025-09-14T06:00:53.000000Z  INFO text_generation_router_v3: backends/v3/src/lib.rs:125: Warming up model
2025-09-14T06:00:57.000000Z ERROR text_generation_launcher: Method Warmup encountered an error.
Traceback (most recent call last):
  File "/usr/src/server/text_generation_server/models/flash_causal_lm.py", line 9, in warmup
    _, _batch, _ = self.generate_token(batch)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 47.53 GiB of which 1.00 GiB is free. Process 21 has 46.52 GiB memory in use. Of the allocated memory 45.70 GiB is allocated by PyTorch, and 90.00 MiB is reserved by PyTorch but unallocated.
RuntimeError: Not enough memory to handle 48000 prefill tokens. You need to decrease `--max-batch-prefill-tokens`"""
ENDS = {
    "the webserver": "2025-09-14T06:00:59.000000Z ERROR text_generation_launcher: Webserver Crashed",
    "the router's result": 'Error: Backend(Warmup(Generation("Not enough memory to handle 48000 prefill tokens. You need to decrease `--max-batch-prefill-tokens`")))',
    "the launcher's result": "Error: WebserverFailed",
}  # fmt: skip


def cri(*lines: str) -> str:
    """As a container's runtime writes them."""
    return "".join(
        f"2025-09-14T06:01:{n:02d}.000000001Z stderr F {line}\n" for n, line in enumerate("\n".join(lines).split("\n"))
    )


def told(*lines: str, shards: str = "Some(2)") -> Incident:
    (found,) = triaged(cri(ARGS.format(sharded="Some(true)", shards=shards), WARM, *lines))
    return found


@pytest.mark.parametrize("end", ENDS)
def test_its_figures_its_cause_and_its_end(end: str) -> None:
    found = told(ENDS[end])
    assert (found.oom_class, found.causes[0].cause, found.survived) == ("warm_up", "profiling_run", False)
    assert (found.requested_bytes, found.short_bytes) == (3 << 30, 2 << 30)
    assert found.memory_at_oom is not None
    assert not any("carries no figures" in item.what for item in found.missing)


def test_without_any_of_these_nothing_tells_of_its_end() -> None:
    assert told().survived is None


@pytest.mark.parametrize(("shards", "setting"), [("Some(2)", "--num-shard 4"), ("None", "--num-shard 2")])
def test_arguments_as_rust_prints_them(shards: str, setting: str) -> None:
    settings = [remedy.setting for remedy in told(shards=shards).remedies]
    assert settings[1] == "--max-batch-prefill-tokens 12000", "half of it would free 1.5 GiB of the 2 that were short"
    assert setting in settings


def test_one_engine_wrote_it() -> None:
    """`Warming up model` is what others print too."""
    written, _ = reading(cri(ARGS.format(sharded="None", shards="None"), WARM, *ENDS.values()))
    assert written.engines == ("tgi",)
