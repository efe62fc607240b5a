-- Functions that tell in which phase of a worker's life a traceback was taken
-- column phase: recovery, warm_up, load_time, serving, or any: what is done whenever the model runs
-- column part: what exactly was done there (wake_up, weights_update, capture, autotune, kv_pool, staging, prefill, decode, ...)
-- column function_pattern: regular expression of the whole function name
-- column file_pattern: regular expression found in the file's path, or NULL where the function's name is enough
-- column code_pattern: regular expression found in its source line, or NULL where the line need not tell more
-- column weight: how much one such frame convinces, 0 to 1
CREATE VIEW phase_marker AS
SELECT phase, part, function_pattern, file_pattern, code_pattern, CAST(weight AS DOUBLE) AS weight
FROM (VALUES
    ('recovery', 'wake_up', 'wake_?up|_wake_up\w*|materialize_with_tag', NULL, NULL, 0.9),
    ('recovery', 'wake_up', '(python_)?create_and_map', NULL, NULL, 0.8),
    ('recovery', 'wake_up', 'resume_memory_occupation|resume', 'memory_saver|scheduler|model_runner|tokenizer_manager', NULL, 0.85),
    ('recovery', 'weights_update', '_?update_weights?(_from_\w+|_inplace)?|reload_weights|finish_weight_update|receive_weights?', NULL, NULL, 0.9),
    ('recovery', 'weights_update', '__enter__|__exit__|rollout_mode|trainer_mode|update_params|sync_\w*weights?\w*|update_rollout_weights|broadcast_to_\w+|load_\w*weights_to_\w+', 'sharding_manager|fsdp_workers|megatron_workers|vllm_engine|weights_manager|weight_sync|rollout', NULL, 0.85),
    ('recovery', 'adapter', 'load_(lora_)?adapter|_load_adapter|add_lora|load_lora_weight_tensor|load_peft_weights', NULL, NULL, 0.85),
    ('recovery', 'transfer', 'getOrAllocateBuffers|start_load_kv|inject_kv\w*|recv_kv\w*|send_kv\w*|wait_for_layer_load', NULL, NULL, 0.75),
    ('recovery', 'transfer', 'register_(kv_caches|memory|buffers?)', 'nixl|mooncake|lmcache|kv_transfer|disaggregation', NULL, 0.7),
    ('warm_up', 'profile', 'determine_(num_)?available_\w+|profile_run|profile_num_available_blocks|_?profile_\w*memory\w*|get_available_gpu_memory_\w+', NULL, NULL, 0.9),
    ('warm_up', 'profile', '_?dummy_(run|batch\w*|forward)', NULL, NULL, 0.85),
    ('warm_up', 'kernels', 'Warmup|create_model_instance|_create_model_instance|graph_reserve', NULL, NULL, 0.85),
    ('warm_up', 'sampler', '_?dummy_(sampler|pooler)_run', NULL, NULL, 0.9),
    ('warm_up', 'capture', 'capture(_model|_graphs?|_begin|_end|_one_batch_size|_cudagraphs?|_full_cudagraph\w*)?|_capture\w*|_warmup_and_capture', NULL, NULL, 0.9),
    ('warm_up', 'capture', '\w*graph_capture|init_(device|cuda)_graphs?|profile_cudagraph_memory|patch_model', NULL, NULL, 0.9),
    ('warm_up', 'capture', '__(init|enter|exit|call)__', 'cuda_graph_runner|cudagraph|torch/cuda/graphs', NULL, 0.85),
    ('warm_up', 'kernels', 'compile_or_warm_up_model|_?warm_?up(_\w+)?|(kernel|model|flashinfer|deep_gemm|gemm|attention|moe)_(warmup|autotune)', NULL, NULL, 0.85),
    ('warm_up', 'autotune', 'run|_bench|benchmark|check_disk_cache|<dictcomp>|<lambda>', 'triton/runtime/autotuner', NULL, 0.9),
    ('warm_up', 'autotune', 'do_bench(_cudagraph)?', 'triton/testing', NULL, 0.9),
    ('warm_up', 'autotune', 'get_empty_cache_for_benchmark|autotune\w*|choose_one|_profile_single_kernel|_profile_runners', NULL, NULL, 0.85),
    ('warm_up', 'autotune', 'benchmark\w*|autotune_to_one_config|bench', '_inductor', NULL, 0.85),
    ('warm_up', 'compile', 'aot_compile\w*|compile_fx\w*|_compile_for_\w+', '_inductor|vllm/compilation', NULL, 0.5),
    ('warm_up', 'kv_pool', '_?allocate_kv_cache\w*|initialize_kv_cache\w*|_?init_(memory_pool|kv_pool\w*|cache_engine)|_init_pools', NULL, NULL, 0.85),
    ('warm_up', 'kv_pool', '_create_buffers|__init__', 'memory_pool|cache_engine|transformers/cache_utils|continuous_batching/cache', NULL, 0.8),
    ('warm_up', 'kv_pool', '(early|lazy)_initialization', 'transformers/cache_utils', 'torch\.(zeros|empty)', 0.8),
    ('warm_up', 'kv_pool', '_?build_cache_engine|allocate_gpu_cache|_?allocate_cache|_?create_engine', 'lmdeploy', NULL, 0.85),
    ('load_time', 'load', '_?load_model|load_model_\w+|_?initialize_model|get_model|init_model', NULL, NULL, 0.8),
    ('load_time', 'load', '_?load_weights\w*|\w*weight_loader\w*|load_state_dict|_load_state_dict\w*|load_single_module|load_tensors', NULL, NULL, 0.85),
    ('load_time', 'load', 'from_pretrained|_load_pretrained_model|_load_parameter_into_model|set_module_tensor_to_device|dispatch_model|materialize_\w+', NULL, NULL, 0.85),
    ('load_time', 'load', '_?create_(shared_)?weights?(_func)?|_?build_model|get_(partial_)?sharded|get_multi_weights\w*|get_(tensor|weights)(_row|_col\w*)?|load_multi\w*', 'turbomind|lmdeploy|text_generation_server|lorax_server', NULL, 0.85),
    ('load_time', 'load', '.+', NULL, '\w\.from_pretrained\(', 0.7),
    ('load_time', 'reservation', 'caching_allocator_warmup', NULL, NULL, 0.9),
    ('load_time', 'staging', '_?process_weights?(_after_loading)?|\w*repack\w*|_maybe_quant_weights\w*|quantize_weights?|convert_\w*weights?\w*|_?quantize_\w*weights?\w*', NULL, NULL, 0.9),
    ('load_time', 'create', 'create_weights|make_layers', NULL, NULL, 0.85),
    ('load_time', 'move', '_apply|convert|cuda', 'torch/nn/modules/module', NULL, 0.5),
    ('serving', 'step', 'run_busy_loop|_process_engine_step|execute_model|event_loop_\w+|run_engine_loop|forward_batch_generation|run_scheduler_process|process_batch\w*|forwardAsync|executeContext|forwardSync|generate_token', NULL, NULL, 0.5),
    ('serving', 'step', '_async_step\w*|_?async_model_forward|_forward_impl|_async_loop\w*|_schedule_(prefill|decoding)', 'lmdeploy', NULL, 0.5),
    ('serving', 'generate', 'generate|_sample|_greedy_search|chat|stream_generate', NULL, NULL, 0.4),
    ('serving', 'generate', '_?\w+_search|_assisted_decoding|_?contrastive_search', 'transformers/generation', NULL, 0.4),
    ('serving', 'generate', '_inner_generation_loop|_generation_step|_run_generation_loop', 'continuous_batching', NULL, 0.4),
    ('serving', 'prefill', '_sample|\w+_search|_assisted_decoding', 'transformers/generation', '\b_prefill\(', 0.7),
    ('serving', 'layer', 'forward|\w*attention_forward', 'transformers/(models|integrations)|(^|/)modeling_\w+\.py$', NULL, 0.4),
    ('any', 'layer', '\w+', '(vllm|sglang)/(\w+/){0,2}(models|layers)/', NULL, 0.4),
    ('any', 'adapter', '_?(add|apply|run)_(lora|shrink|expand)\w+', '/lora/', NULL, 0.4),
    ('serving', 'prefill', 'forward_extend|\w*[Pp]refill\w*|prepare_for_extend|alloc_for_extend|alloc_paged_token_slots_extend|\w*_ragged\w*', NULL, NULL, 0.7),
    ('serving', 'encoder', '_?execute_mm_encoder|get_\w+_features?|(get_|_?embed_|_?process_)multimodal\w*|encode_(images?|videos?|audios?)|\w*_mm_(embeddings?|inputs)|_?process_(image|video|audio)_input', NULL, NULL, 0.7),
    ('serving', 'encoder', '\w+', NULL, '\.(embed_multimodal|get_multimodal_embeddings|get_(image|video|audio)_features?|encode_(images?|videos?|audios?))\(', 0.7),
    ('serving', 'encoder', '\w+', NULL, 'self\.(visual|vision\w*|vit|image_encoder|\w*audio_(tower|encoder|model)|video_(tower|encoder))\(', 0.7),
    ('serving', 'encoder', 'forward', '(^|[/_])(vision|visual|vit|siglip\d?|clip|\w+vit|vision_model|audio|audio_encoder|whisper_encoder)\w*\.py$', NULL, 0.6),
    ('serving', 'logits', '_?get_logits|compute_logits|compute_logprobs|(calculate|compute)_log_probs?\w*|gather_logprobs|_?get_prompt_logprobs\w*|log_softmax|\w*mqa_logits\w*', NULL, NULL, 0.6),
    ('serving', 'logits', 'forward|rejection_sample|expand_batch_to_tokens|generate_\w*probs|sample_recovered_tokens|apply_sampling_\w+', 'rejection_sampler|spec_decode/.*sampler', NULL, 0.6),
    ('serving', 'logits', 'forward', 'transformers/models|(^|/)modeling_\w+\.py$', '\blm_head\(', 0.6),
    ('serving', 'decode', '_sample|\w+_search', 'transformers/generation', '\bmodel_forward\(', 0.6),
    ('serving', 'decode', 'Decode|forward_decode|prepare_for_decode|alloc_for_decode|alloc_paged_token_slots_decode|allocateBlock|addSequence|kvCacheAddSequences|_schedule_decoding|retract_decode|check_decode_mem|update_running_batch|append_slots?|_preempt\w*', NULL, NULL, 0.6)
) AS marker (phase, part, function_pattern, file_pattern, code_pattern, weight);
