"""What helps a program that calls transformers itself: no pool is spoken of where there is none."""

import pytest

from oomctl.schemas.verdict import Incident
from tests.triage.engines.test_transformers import CAT, GENERATE, LAYER, LOADED, LOADER, NEXT, frames, oom
from tests.triage.logs import triaged


def told(log: str) -> Incident:
    (found,) = triaged(log)
    return found


def settings(found: Incident) -> list[str]:
    return [remedy.setting or "" for remedy in found.remedies if remedy.when == "change"]


def test_a_cache_that_grew_without_a_pool() -> None:
    found = told(LOADED + frames(GENERATE, NEXT, CAT) + oom("512.00 MiB"))
    assert found.oom_class == "decode_growth"
    assert "pool" not in found.summary
    assert settings(found)[:3] == [
        "max_new_tokens lower", "cache_implementation='offloaded'", "cache_implementation='quantized'",
    ]  # fmt: skip


def test_weights_that_do_not_fit() -> None:
    found = told(frames(LOADER) + oom("512.00 MiB"))
    assert found.oom_class == "load_time"
    assert settings(found)[0].startswith("quantization_config=") and "device_map='auto'" in settings(found)


@pytest.mark.parametrize("file", ["acme/model.py", "vllm/model_executor/models/mistral.py"])
def test_another_library_has_not_its_options(file: str) -> None:
    found = told(frames((file, "forward", "x = torch.cat([self.keys, k])")) + oom("512.00 MiB"))
    assert not any("cache_implementation" in setting for setting in settings(found))


def test_a_layer_in_the_loop_is_of_transformers_too() -> None:
    found = told(LOADED + frames(GENERATE, LAYER) + oom("6.00 GiB"))
    assert found.oom_class == "prefill_spike"
    assert settings(found)[0].startswith("prefill_chunk_size")
