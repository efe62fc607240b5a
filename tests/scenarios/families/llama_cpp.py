"""llama.cpp's server: as of early 2024, of 2025, and of 2026 with relative times and level letters.

Forms as in public reports and source: ggml-cuda, ggml-vulkan, llama-model, llama-kv-cache, tools/server. Sizes in MiB
and, in the next line, in bytes. One process holds all devices, so there are no ranks.
"""

# ruff: noqa: E501  one printed line is one line

from tests.scenarios.families.dialect import Dialect, Fixture
from tests.scenarios.labels import Label, device

SERVER = Dialect(
    "2025",
    {"I": "", "W": "", "E": ""},
    {
        "start": """
| ggml_cuda_init: found 1 CUDA devices:
|   Device 0: NVIDIA L40S, compute capability 8.9, VMM: yes
I build: 6311 (7cd6d2f8) with cc (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0 for x86_64-linux-gnu
I main: HTTP server is listening, hostname: 0.0.0.0, port: 8080, http threads: 31
I main: loading model
""",
        "load": """
I srv    load_model: loading model '/models/{model}.gguf'
I llama_model_load_from_file_impl: using device CUDA0 (NVIDIA L40S) - {at_start:MiB.0} MiB free
I llama_model_loader: loaded meta data with 34 key-value pairs and 723 tensors from /models/{model}.gguf (version GGUF V3 (latest))
I print_info: file size   = {weights:GiB} GiB (4.82 BPW)
I load_tensors: loading model tensors, this can take a while... (mmap = true)
""",
        "loaded": """
I load_tensors: offloading 48 repeating layers to GPU
I load_tensors: offloaded 49/49 layers to GPU
I load_tensors:        CUDA0 model buffer size = {weights:MiB} MiB
""",
        "cache": """
I llama_context: constructing llama_context
I llama_context: n_ctx         = {pool_tokens}
I llama_kv_cache:      CUDA0 KV buffer size = {kv:MiB} MiB
I llama_kv_cache: size = {kv:MiB} MiB ({pool_tokens} cells,  48 layers,  4/1 seqs), K (f16): {half:MiB} MiB, V (f16): {half:MiB} MiB
""",
        "warm": """
I llama_context:      CUDA0 compute buffer size = {activation:MiB} MiB
I common_init_from_params: warming up the model with an empty run - please wait ... (--no-warmup to disable)
""",
        "ready": """
I srv          init: initializing slots, n_slots = 4
I main: server is listening on http://0.0.0.0:8080 - starting the main loop
I srv  update_slots: all slots are idle
""",
        "serve": """
I slot launch_slot_: id  0 | task {n} | processing task
I slot update_slots: id  0 | task {n} | new prompt, n_ctx_slot = {context}, n_keep = 0, n_prompt_tokens = 412
I slot      release: id  0 | task {n} | stop processing: n_past = 731, truncated = 0
I srv  log_server_r: request: POST /v1/chat/completions 127.0.0.1 200
""",
        "prompt": """
I slot launch_slot_: id  1 | task {n}8 | processing task
I slot update_slots: id  1 | task {n}8 | new prompt, n_ctx_slot = {context}, n_keep = 0, n_prompt_tokens = {prompt}
I slot update_slots: id  1 | task {n}8 | prompt processing progress, n_past = 2048, n_tokens = 2048, progress = 0.25
""",
        "restart": "| systemd[1]: llama-server.service: Found left-over process {other_pid} (llama-server) in control group while starting unit. Ignoring.",
        "stop": "I srv    operator(): operator(): cleaning up before exit...",
        "sleep": "I srv  handle_sleep: server is entering sleeping state",
        "wake": """
I srv  handle_sleep: server is exiting sleeping state
I srv    load_model: loading model '/models/{model}.gguf'
I llama_model_load_from_file_impl: using device CUDA0 (NVIDIA L40S) - {at_start:MiB.0} MiB free
""",
    },
)
STAMPED = SERVER.but("2026, relative times", {"I": "{up} I ", "W": "{up} W ", "E": "{up} E "})
OLD = Dialect(
    "early 2024",
    {},
    {
        "start": """
| ggml_init_cublas: found 1 CUDA devices:
|   Device 0: NVIDIA A10, compute capability 8.6, VMM: yes
| {{"timestamp":1706700000,"level":"INFO","function":"main","line":2867,"message":"build info","build":1965,"commit":"d2f650cb"}}
""",
        "load": """
| llama_model_loader: loaded meta data with 22 key-value pairs and 363 tensors from /models/{model}.gguf (version GGUF V3 (latest))
| llm_load_print_meta: model size       = {weights:GiB} GiB (4.83 BPW)
| llm_load_tensors: ggml ctx size =    0.28 MiB
""",
        "loaded": """
| llm_load_tensors: offloaded 41/41 layers to GPU
| llm_load_tensors:      CUDA0 buffer size = {weights:MiB} MiB
""",
        "cache": """
| llama_new_context_with_model: n_ctx      = {pool_tokens}
| llama_kv_cache_init:      CUDA0 KV buffer size = {kv:MiB} MiB
| llama_new_context_with_model: KV self size  = {kv:MiB} MiB, K (f16): {half:MiB} MiB, V (f16): {half:MiB} MiB
""",
        "warm": "| llama_new_context_with_model:      CUDA0 compute buffer size = {activation:MiB} MiB",
        "ready": '| {{"timestamp":1706700041,"level":"INFO","function":"main","line":3108,"message":"HTTP server listening","port":"8080"}}',
        "serve": """
| slot 0 is processing [task id: {n}]
| slot 0 : kv cache rm - [24, end)
| print_timings: prompt eval time =     188.20 ms /   377 tokens
| slot 0 released (1209 tokens in cache)
""",
        "prompt": "| slot 1 is processing [task id: {n}8]",
    },
)

_MALLOC = "E ggml_backend_cuda_buffer_type_alloc_buffer: allocating {buffer:MiB} MiB on device 0: cudaMalloc failed: out of memory\n"
_RANGE = _MALLOC + "E alloc_tensor_range: failed to allocate CUDA0 buffer of size {buffer}\n"
_UNLOADED = """
E llama_model_load: error loading model: unable to allocate CUDA0 buffer
E llama_model_load_from_file_impl: failed to load model
E common_init_from_params: failed to load model '/models/{model}.gguf'
E srv    load_model: failed to load model, '/models/{model}.gguf'
E main: exiting due to model loading error
"""
_POOL = "\n| CUDA error: out of memory\n|   current device: 0, in function alloc at /src/ggml/src/ggml-cuda/ggml-cuda.cu:452\n|   cuMemCreate(&handle, reserve_size, &prop, 0)\n| /src/ggml/src/ggml-cuda/ggml-cuda.cu:83: CUDA error\n"


def _fixture(story: str, variant: str, dialect: Dialect, failure: str, label: Label | None = None) -> Fixture:
    return Fixture("llama_cpp", story, variant, dialect, failure, label=label)


_RETRIES = "".join(
    f"""
E init_batch: failed to prepare attention ubatches
W decode: failed to find a memory slot for batch of size {size}
W srv        decode: failed to find free space in the KV cache, retrying with smaller batch size, off = 0, n_batch = {size // 2}, ret = 1
"""
    for size in (8, 4, 2)
)

FIXTURES = (
    _fixture("load_weights", "buffer", SERVER, _RANGE + _UNLOADED),
    _fixture("load_neighbour", "old_json", OLD, _RANGE.replace("E ", "| ").replace("alloc_tensor_range: failed to allocate CUDA0 buffer of size {buffer}", "llama_model_load: error loading model: failed to allocate buffer") + """
| llama_load_model_from_file: failed to load model
| llama_init_from_gpt_params: error: failed to load model '/models/{model}.gguf'
| {{"timestamp":1706700012,"level":"ERROR","function":"load_model","line":378,"message":"unable to load model","model":"/models/{model}.gguf"}}
""", device("load_time")),
    _fixture("load_weights", "vulkan", STAMPED, """
| ggml_vulkan: Device memory allocation of size {buffer} failed.
| ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory
E alloc_tensor_range: failed to allocate Vulkan0 buffer of size {buffer}
E llama_model_load: error loading model: unable to allocate Vulkan0 buffer
E llama_model_load_from_file_impl: failed to load model
E srv  llama_server: exiting due to model loading error
"""),
    _fixture("warm_up_pool", "kv_cache", SERVER, """
I llama_context: constructing llama_context
I llama_context: n_ctx         = {pool_tokens}
""" + _RANGE + """
E llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache
E common_init_from_params: failed to create context with model '/models/{model}.gguf'
E srv    load_model: failed to load model, '/models/{model}.gguf'
"""),
    _fixture("warm_up_run", "old_compute", OLD, """
| ggml_backend_cuda_buffer_type_alloc_buffer: allocating {buffer:MiB} MiB on device 1: cudaMalloc failed: out of memory
| ggml_gallocr_reserve_n: failed to allocate CUDA1 buffer of size {buffer}
| llama_new_context_with_model: failed to allocate compute buffers
| llama_init_from_gpt_params: error: failed to create context with model '/models/{model}.gguf'
"""),
    _fixture("warm_up_run", "stamped_reserve", STAMPED, _MALLOC + """
E ggml_gallocr_reserve_n_impl: failed to allocate CUDA0 buffer of size {buffer}
E graph_reserve: failed to allocate compute buffers
E llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers
E srv    load_model: failed to create_context with model '/models/{model}.gguf'
E srv  llama_server: exiting due to model loading error
"""),
    _fixture("warm_up_survived", "no_pipeline", STAMPED, _MALLOC + """
E ggml_gallocr_reserve_n_impl: failed to allocate CUDA0 buffer of size {buffer}
E graph_reserve: failed to allocate compute buffers
W sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism
"""),
    _fixture("warm_up_run", "empty_run", SERVER, "I common_init_from_params: warming up the model with an empty run - please wait ... (--no-warmup to disable)" + _POOL),
    _fixture("prefill_long_prompt", "pool", SERVER, _POOL + """
| /usr/local/lib/libggml-base.so(ggml_abort+0x152)[0x7f30a8b1c1f2]
| /usr/local/lib/libggml-cuda.so(_ZN18ggml_cuda_pool_vmm5allocEmPm+0x2b5)[0x7f30a3c2d155]
"""),
    _fixture("prefill_long_prompt", "stamped", STAMPED, _POOL.replace("452", "519")),
    _fixture("prefill_long_prompt", "image", SERVER, """
I srv  process_chun: processing image...
I encoding image slice...
""" + _MALLOC + """
E ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size {buffer}
| /src/ggml/src/ggml-backend.cpp:1691: GGML_ASSERT((int)sched->hash_set.size >= graph->n_nodes + graph->n_leafs) failed
"""),
    _fixture("decode_exhausted", "old_halving", OLD, "".join(f"| update_slots : failed to find free space in the KV cache, retrying with smaller n_batch = {size}\n" for size in (128, 32, 8, 2, 1)) + "| update_slots : failed to decode the batch, n_batch = 1, ret = 1"),
    _fixture("decode_exhausted", "slots", SERVER, """
I slot launch_slot_: id  2 | task {n}4 | processing task
W decode: failed to find a memory slot for batch of size 4
W srv  update_slots: failed to find free space in the KV cache, retrying with smaller batch size, i = 0, n_batch = 2, ret = 1
W decode: failed to find a memory slot for batch of size 2
W srv  update_slots: failed to find free space in the KV cache, retrying with smaller batch size, i = 0, n_batch = 1, ret = 1
W decode: failed to find a memory slot for batch of size 1
E srv  update_slots: failed to decode the batch: KV cache is full - try increasing it via the context size, i = 0, n_batch = 1, ret = 1
E srv    send_error: task id = {n}, error: failed to decode the batch: KV cache is full - try increasing it via the context size
"""),
    _fixture("decode_exhausted", "stamped_unified", STAMPED, _RETRIES + """
E srv    send_error: task id = {n}, error: Context size has been exceeded.
I slot      release: id  3 | task {n} | stop processing: n_tokens = {context}, truncated = 0
"""),
    _fixture("recovery_restart", "left_over", SERVER, _RANGE + _UNLOADED),
    _fixture("recovery_wake", "sleep", STAMPED, _RANGE + """
E llama_model_load: error loading model: unable to allocate CUDA0 buffer
E llama_model_load_from_file_impl: failed to load model
| /src/tools/server/server-context.cpp:812: failed to reload model after sleeping
"""),
    _fixture("gate_request", "server", SERVER, """
I slot launch_slot_: id  0 | task {n}5 | processing task
E slot update_slots: id  0 | task {n}5 | the request exceeds the available context size, try increasing it
E srv    send_error: task id = {n}5, error: request ({prompt} tokens) exceeds the available context size ({pool_tokens} tokens), try increasing it
"""),
    _fixture("not_oom_illegal_access", "stamped", STAMPED, _POOL.replace("out of memory", "an illegal memory access was encountered").replace("in function alloc", "in function ggml_backend_cuda_synchronize").replace("cuMemCreate(&handle, reserve_size, &prop, 0)", "cudaStreamSynchronize(cuda_ctx->stream())")),
    _fixture("healthy", "old", OLD, ""),
    _fixture("healthy", "stamped", STAMPED, ""),
)  # fmt: skip
