"""Which engine it was, where only the source files of a traceback tell."""

import pytest

from oomctl.collectors.artifacts.logs.registry import engine_of
from tests.logs.reading import reading
from tests.triage.logs import first

PACKAGES = "/usr/local/lib/python3.12/dist-packages"
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.19 GiB of "
    "which 1.31 GiB is free."
)
FRAMES = {
    "sglang": ["/w/sglang/python/sglang/srt/models/qwen2.py", f"{PACKAGES}/vllm/model_executor/layers/linear.py"],
    "vllm": [f"{PACKAGES}/ray/_private/worker.py", f"{PACKAGES}/vllm/v1/worker/gpu_model_runner.py"],
    "tgi": ["/usr/src/server/text_generation_server/models/flash_causal_lm.py"],
    "lmdeploy": ["/opt/lmdeploy/lmdeploy/pytorch/engine/model_agent.py"],
    "trtllm": [f"{PACKAGES}/tensorrt_llm/_torch/pyexecutor/py_executor.py"],
}


def log(files: list[str]) -> str:
    frames = "".join(f'  File "{file}", line {n}, in forward\n    x = y(x)\n' for n, file in enumerate(files, 7))
    return f"Traceback (most recent call last):\n{frames}{OOM}\n"


@pytest.mark.parametrize("engine", FRAMES)
def test_the_sources_name_the_engine(engine: str) -> None:
    read, _ = reading(log(FRAMES[engine]))
    assert read.engines == (engine,)
    assert first(log(FRAMES[engine])).engine == engine


def test_a_model_of_transformers_alone() -> None:
    files = [
        "/home/u/vllm/run.py",
        f"{PACKAGES}/transformers/generation/utils.py",
        f"{PACKAGES}/transformers/models/m/modeling_m.py",
    ]
    assert first(log(files)).engine == "transformers"
    assert first(log([f"{PACKAGES}/vllm/v1/engine/core.py", *files])).engine == "vllm"


def test_no_engine() -> None:
    assert engine_of(["/home/u/vllm/run.py", "/home/u/sglang/client.py", "/opt/my_tensorrt_llm/x.py", ""]) is None
    assert first(log(["/home/u/vllm/run.py"])).engine is None


def test_separators_of_windows_and_namespaces() -> None:
    assert engine_of([r"C:\py\Lib\site-packages\vllm\v1\worker\gpu_worker.py"]) == "vllm"
    assert engine_of(["tensorrt_llm::batch_manager::kv_cache_manager"]) == "trtllm"


def test_a_line_of_the_engine_counts_for_more() -> None:
    line = "(EngineCore pid=3) INFO 07-02 09:14:01 [core.py:105] Initializing a V1 LLM engine (v0.14.0) with config: x\n"
    assert reading(line + log(FRAMES["tgi"]))[0].engines == ("vllm",)
