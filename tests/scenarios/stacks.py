"""Tracebacks of both engines, by the place where memory ran out.

A frame is (file below the engine's package, function, source line); files that start with `~` belong to other packages.
"""

# ruff: noqa: E501  one frame is one line

from typing import Literal

Site = Literal[
    "create_weights", "process_weights", "capture", "sampler", "forward", "autotune", "illegal", "wake", "update_weights",
    "start_gate", "kv_gate", "no_blocks_prefill", "no_blocks_decode",
]  # fmt: skip
Frame = tuple[str, str, str]

_CORE_INIT: tuple[Frame, ...] = (
    ("v1/engine/core.py", "run_engine_core", "engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)"),
    ("v1/engine/core.py", "__init__", "super().__init__("),
)
_LOAD: tuple[Frame, ...] = (
    *_CORE_INIT,
    ("v1/executor/uniproc_executor.py", "_init_executor", "self.driver_worker.load_model()"),
    ("v1/worker/gpu_worker.py", "load_model", "self.model_runner.load_model(load_dummy_weights=load_dummy_weights)"),
    ("v1/worker/gpu_model_runner.py", "load_model", "self.model = model_loader.load_model("),
)
_WARM: tuple[Frame, ...] = (
    *_CORE_INIT,
    ("v1/engine/core.py", "_initialize_kv_caches", "self.model_executor.initialize_from_config(kv_cache_configs)"),
    ("v1/executor/abstract.py", "initialize_from_config", 'self.collective_rpc("compile_or_warm_up_model")'),
)
_STEP: tuple[Frame, ...] = (
    ("v1/engine/core.py", "run_busy_loop", "self._process_engine_step()"),
    ("v1/engine/core.py", "step", "model_output = future.result()"),
    ("v1/worker/gpu_worker.py", "execute_model", "output = self.model_runner.execute_model("),
    ("v1/worker/gpu_model_runner.py", "execute_model", "model_output = self._model_forward("),
)
VLLM: dict[Site, tuple[Frame, ...]] = {
    "create_weights": (
        *_LOAD,
        ("model_executor/model_loader/base_loader.py", "load_model", "model = initialize_model("),
        ("model_executor/layers/linear.py", "create_weights", "weight = ModelWeightParameter(data=torch.empty("),
    ),
    "process_weights": (
        *_LOAD,
        ("model_executor/model_loader/base_loader.py", "load_model", "process_weights_after_loading(model, model_config, target_device)"),
        ("model_executor/model_loader/utils.py", "process_weights_after_loading", "quant_method.process_weights_after_loading(module)"),
        ("model_executor/layers/quantization/fp8.py", "process_weights_after_loading", "qweight, weight_scale = ops.scaled_fp8_quant(layer.weight, scale=None)"),
        ("_custom_ops.py", "scaled_fp8_quant", "output = torch.empty(shape, device=input.device, dtype=out_dtype)"),
    ),
    "capture": (
        *_WARM,
        ("v1/worker/gpu_worker.py", "compile_or_warm_up_model", "cuda_graph_memory_bytes = self.model_runner.capture_model()"),
        ("v1/worker/gpu_model_runner.py", "capture_model", "self._capture_cudagraphs("),
        ("v1/worker/gpu_model_runner.py", "_dummy_run", "outputs = self.model("),
        ("compilation/cuda_graph.py", "__call__", "with torch.cuda.graph(cudagraph, pool=self.graph_pool):"),
        ("model_executor/layers/activation.py", "forward_cuda", "out = torch.empty(output_shape, dtype=x.dtype, device=x.device)"),
    ),
    "sampler": (
        *_WARM,
        ("v1/worker/gpu_worker.py", "compile_or_warm_up_model", "self.model_runner._dummy_sampler_run(hidden_states=last_hidden_states)"),
        ("v1/worker/gpu_model_runner.py", "_dummy_sampler_run", "sampler_output = self.sampler("),
        ("v1/sample/sampler.py", "sample", "random_sampled, processed_logprobs = self.topk_topp_sampler("),
        ("v1/sample/ops/topk_topp_sampler.py", "random_sample", "q = torch.empty_like(probs)"),
    ),
    "forward": (
        *_STEP,
        ("v1/worker/gpu_model_runner.py", "_model_forward", "return self.model("),
        ("model_executor/models/qwen2.py", "forward", "hidden_states = self.mlp(hidden_states)"),
        ("model_executor/layers/activation.py", "forward_cuda", "out = torch.empty(output_shape, dtype=x.dtype, device=x.device)"),
    ),
    "autotune": (
        *_STEP,
        ("v1/worker/gpu_model_runner.py", "_model_forward", "return self.model("),
        ("model_executor/layers/fla/ops/chunk.py", "chunk_gated_delta_rule", "g, o, A, final_state = chunk_gated_delta_rule_fwd("),
        ("~triton/runtime/autotuner.py", "run", "timings = {config: self._bench(*args, config=config, **kwargs) for config in pruned_configs}"),
        ("~triton/testing.py", "do_bench", "cache = runtime.driver.active.get_empty_cache_for_benchmark()"),
        ("~triton/backends/nvidia/driver.py", "get_empty_cache_for_benchmark", "return torch.empty(int(cache_size // 4), dtype=torch.int, device='cuda')"),
    ),
    "illegal": (
        *_STEP,
        ("v1/worker/gpu_model_runner.py", "execute_model", "sampler_output = self._sample(logits, spec_decode_metadata)"),
    ),
    "wake": (
        ("v1/engine/core.py", "run_busy_loop", "self._process_input_queue()"),
        ("v1/engine/core.py", "wake_up", "self.model_executor.wake_up(tags)"),
        ("v1/worker/gpu_worker.py", "wake_up", "allocator.wake_up(tags)"),
        ("device_allocator/cumem.py", "wake_up", "create_and_map(handle)"),
        ("device_allocator/cumem.py", "create_and_map", "python_create_and_map(*allocation_handle)"),
    ),
    "update_weights": (
        ("v1/engine/core.py", "run_busy_loop", "self._process_input_queue()"),
        ("v1/executor/abstract.py", "collective_rpc", "result = run_method(self.driver_worker, method, args, kwargs)"),
        ("v1/worker/gpu_worker.py", "reload_weights", "self.model_runner.reload_weights(*args, **kwargs)"),
        ("v1/worker/gpu_model_runner.py", "reload_weights", "model_loader.load_weights(self.get_model(), self.model_config)"),
        ("model_executor/models/utils.py", "load_weights", "staged = {name: tensor.to(device) for name, tensor in weights}"),
    ),
    "start_gate": (
        *_CORE_INIT,
        ("v1/worker/gpu_worker.py", "init_device", "self.requested_memory = request_memory(init_snapshot, self.cache_config)"),
        ("v1/worker/utils.py", "request_memory", "raise ValueError("),
    ),
    "kv_gate": (
        *_CORE_INIT,
        ("v1/engine/core.py", "_initialize_kv_caches", "kv_cache_configs = get_kv_cache_configs("),
        ("v1/core/kv_cache_utils.py", "get_kv_cache_configs", "_check_enough_kv_cache_memory("),
        ("v1/core/kv_cache_utils.py", "_check_enough_kv_cache_memory", "raise ValueError("),
    ),
}  # fmt: skip

_START: tuple[Frame, ...] = (
    ("managers/scheduler.py", "run_scheduler_process", "scheduler = Scheduler("),
    ("managers/tp_worker.py", "__init__", "self._init_model_runner()"),
)
_LOOP: tuple[Frame, ...] = (
    ("managers/scheduler.py", "run_scheduler_process", "scheduler.event_loop_overlap()"),
    ("managers/scheduler.py", "event_loop_overlap", "batch_result = self.run_batch(batch)"),
    ("managers/tp_worker.py", "forward_batch_generation", "out = self.model_runner.forward("),
    ("model_executor/model_runner.py", "forward_extend", "return self.model.forward("),
)
SGLANG: dict[Site, tuple[Frame, ...]] = {
    "create_weights": (
        *_START,
        ("model_executor/model_runner.py", "load_model", "self.model = self.loader.load_model("),
        ("model_loader/loader.py", "load_model", "model = _initialize_model("),
        ("layers/linear.py", "create_weights", "weight = ModelWeightParameter(data=torch.empty("),
    ),
    "process_weights": (
        *_START,
        ("model_executor/model_runner.py", "load_model", "self.model = self.loader.load_model("),
        ("model_loader/loader.py", "load_weights_and_postprocess", "quant_method.process_weights_after_loading(module)"),
        ("layers/quantization/fp8.py", "process_weights_after_loading", "qweight, weight_scale = per_token_group_quant_fp8(layer.weight, layer.weight.shape[-1])"),
    ),
    "capture": (
        *_START,
        ("model_executor/model_runner.py", "initialize", "self.init_device_graphs()"),
        ("model_executor/cuda_graph_runner.py", "__init__", "self.capture()"),
        ("model_executor/cuda_graph_runner.py", "capture_one_batch_size", "run_once()"),
        ("layers/activation.py", "forward_cuda", "out = torch.empty(output_shape, dtype=x.dtype, device=x.device)"),
    ),
    "forward": (
        *_LOOP,
        ("models/qwen2.py", "forward", "hidden_states = self.mlp(hidden_states)"),
        ("layers/activation.py", "forward_cuda", "out = torch.empty(output_shape, dtype=x.dtype, device=x.device)"),
    ),
    "autotune": (
        *_LOOP,
        ("layers/attention/fla/chunk.py", "chunk_gated_delta_rule", "g, o, A, final_state = chunk_gated_delta_rule_fwd("),
        ("~triton/runtime/autotuner.py", "run", "timings = {config: self._bench(*args, config=config, **kwargs) for config in pruned_configs}"),
        ("~triton/testing.py", "do_bench", "cache = runtime.driver.active.get_empty_cache_for_benchmark()"),
    ),
    "illegal": (
        *_LOOP,
        ("layers/sampler.py", "forward", "batch_next_token_ids = torch.argmax(logits, -1)"),
    ),
    "update_weights": (
        ("managers/scheduler.py", "run_scheduler_process", "scheduler.event_loop_overlap()"),
        ("managers/scheduler.py", "update_weights_from_tensor", "success, message = self.tp_worker.update_weights_from_tensor(recv_req)"),
        ("model_executor/model_runner.py", "update_weights_from_tensor", "named_tensors = [(name, _unwrap_tensor(tensor)) for name, tensor in named_tensors]"),
    ),
    "no_blocks_prefill": (
        ("managers/scheduler.py", "run_scheduler_process", "scheduler.event_loop_overlap()"),
        ("managers/scheduler.py", "get_new_batch_prefill", "new_batch.prepare_for_extend()"),
        ("managers/schedule_batch.py", "prepare_for_extend", "out_cache_loc, req_pool_indices_tensor = alloc_for_extend(self)"),
        ("mem_cache/common.py", "alloc_paged_token_slots_extend", "raise RuntimeError(error_msg)"),
    ),
    "no_blocks_decode": (
        ("managers/scheduler.py", "run_scheduler_process", "scheduler.event_loop_overlap()"),
        ("managers/scheduler.py", "get_next_batch_to_run", "self.running_batch = self.update_running_batch(self.running_batch)"),
        ("managers/schedule_batch.py", "prepare_for_decode", "self.out_cache_loc = alloc_for_decode(self, token_per_req=1)"),
        ("mem_cache/common.py", "alloc_paged_token_slots_decode", "raise RuntimeError(error_msg)"),
    ),
}  # fmt: skip
