"""Which part of an engine a stack belongs to: stacks as engines and libraries name their functions and files."""

import pytest

from oomctl.analyzers.allocator.components import component
from oomctl.schemas.heap import Frame

_HF = "/pkg/transformers/models/llama/modeling_llama.py:forward", "/pkg/transformers/generation/utils.py:_sample"
_CALL = "/pkg/torch/nn/modules/module.py:_call_impl"
_RUNNER = "/pkg/vllm/v1/worker/gpu_model_runner.py"

CASES = [
    ("kv_pool", [f"{_RUNNER}:_allocate_kv_cache_tensors", f"{_RUNNER}:initialize_kv_cache"]),
    ("kv_pool", ["/pkg/sglang/srt/mem_cache/memory_pool.py:_create_buffers", "/pkg/sglang/srt/model_executor/x.py:f"]),
    ("kv_pool", ["/pkg/lmdeploy/pytorch/engine/cache_engine.py:allocate_gpu_cache"]),
    # A cache that is filled during attention, within a loop that is called for its sampling.
    ("kv_pool", ["/pkg/transformers/cache_utils.py:update", _CALL, *_HF]),
    ("kv_pool", ["/home/me/my_cache_utils_v2.py:update_new", _CALL, *_HF]),
    ("activation", [_CALL, *_HF]),
    (
        "graph_pool",
        [_CALL, "/pkg/vllm/model_executor/models/llama.py:forward", f"{_RUNNER}:_dummy_run", f"{_RUNNER}:capture_model"],
    ),
    ("graph_pool", ["/x/memory_pool.py:get", "/pkg/sglang/srt/model_executor/cuda_graph_runner.py:capture"]),
    ("graph_pool", ["/pkg/text_generation_server/models/flash_causal_lm.py:cuda_graph_warmup"]),
    ("logits", ["/pkg/torch/nn/modules/linear.py:forward", "/pkg/vllm/model_executor/models/llama.py:compute_logits"]),
    (
        "logits",
        [
            "/pkg/vllm/v1/sample/ops/topk_topp_sampler.py:apply",
            "/pkg/vllm/v1/sample/sampler.py:forward",
            f"{_RUNNER}:execute_model",
        ],
    ),
    ("logits", ["/pkg/sglang/srt/layers/logits_processor.py:forward", "/pkg/sglang/srt/models/llama.py:forward"]),
    ("weights", ["/pkg/torch/nn/modules/linear.py:__init__", "/app/serve.py:main"]),
    (
        "weights",
        ["/pkg/torch/nn/modules/module.py:convert", "/pkg/torch/nn/modules/module.py:_apply", "/app/serve.py:main"],
    ),
    (
        "weights",
        [
            "/pkg/vllm/model_executor/layers/linear.py:create_weights",
            "/pkg/vllm/x.py:initialize_model",
            f"{_RUNNER}:load_model",
        ],
    ),
    ("weights", ["/pkg/transformers/modeling_utils.py:_load_state_dict_into_meta_model", "/x.py:from_pretrained"]),
    ("weights", ["/pkg/accelerate/utils/modeling.py:set_module_tensor_to_device"]),
    ("adapter", ["/pkg/vllm/lora/layers.py:create_lora_weights", "/pkg/vllm/lora/models.py:load_model"]),
    ("collective", ["/pkg/torch/distributed/distributed_c10d.py:all_gather", "/pkg/vllm/x.py:forward"]),
    ("activation", ["/pkg/vllm/model_executor/layers/activation.py:forward_cuda", f"{_RUNNER}:profile_run"]),
    ("unknown", ["/app/train.py:step", "/app/train.py:main"]),
    ("unknown", ["/app/megatron.py:initialize_model_parallel"]),
    ("unknown", []),
]


@pytest.mark.parametrize(("expected", "stack"), CASES, ids=[f"{n}-{case[0]}" for n, case in enumerate(CASES)])
def test_the_component_of_a_stack(expected: str, stack: list[str]) -> None:
    frames: list[Frame] = [(file, 1, function) for file, _, function in (frame.rpartition(":") for frame in stack)]
    assert component(frames) == expected


def test_of_two_that_fit_the_innermost_decides() -> None:
    """But what a capture calls is the graph's, and a model's own code decides only where nothing else does."""
    load, cache, graph = ("/a.py", 1, "load_weights"), ("/a.py", 1, "allocate_kv_cache"), ("/a.py", 1, "capture_model")
    assert component([load, cache]) == "weights"
    assert component([cache, load]) == "kv_pool"
    assert component([cache, load, graph]) == "graph_pool"
    assert component([("/a.py", 1, "forward"), cache]) == "kv_pool"
