"""ollama: its scheduler's lines around a llama.cpp runner, and its own engine's.

Forms as in public reports and source: server/sched.go, llm/server.go, runner/llamarunner, runner/ollamarunner, ml/device.go;
the runner's own output stands between the server's lines. Counted with llama.cpp: the same buffers, the same messages.
"""

# ruff: noqa: E501  one printed line is one line

from tests.scenarios.families.dialect import Dialect, Fixture
from tests.scenarios.labels import Label, device, label

_TIME = "time={now:%Y-%m-%dT%H:%M:%S.%f}Z level="
_BLOB = "/root/.ollama/models/blobs/sha256-4f1c{pid:08x}"
RUNNER = Dialect(
    "llama.cpp runner",
    {
        "D": _TIME + "DEBUG source=",
        "I": _TIME + "INFO source=",
        "W": _TIME + "WARN source=",
        "E": _TIME + "ERROR source=",
        "G": "[GIN] {now:%Y/%m/%d - %H:%M:%S} | ",
    },
    {
        "start": 'I routes.go:1258 msg="Listening on [::]:11434 (version 0.6.8)"\nI types.go:130 msg="inference compute" id=GPU-7f0c library=cuda variant=v12 compute=8.9 driver=12.4 name="NVIDIA L4" total="{total:GiB.1} GiB" available="{at_start:GiB.1} GiB"',
        "load": f"""
I sched.go:754 msg="new model will fit in available VRAM in single GPU, loading" model={_BLOB} gpu=GPU-7f0c parallel=2 available={{at_start}} required="{{weights:GiB.1}} GiB"
I server.go:409 msg="starting llama server" cmd="/usr/bin/ollama runner --model {_BLOB} --ctx-size {{context}} --batch-size 512 --n-gpu-layers 49 --parallel 2 --port {{port}}"
I server.go:624 msg="waiting for server to become available" status="llm server loading model"
| llama_model_loader: loaded meta data with 29 key-value pairs and 579 tensors from {_BLOB} (version GGUF V3 (latest))
| load_tensors: loading model tensors, this can take a while... (mmap = true)
""",
        "loaded": """
| load_tensors: offloaded 49/49 layers to GPU
| load_tensors:        CUDA0 model buffer size = {weights:MiB} MiB
""",
        "cache": """
| llama_context: n_ctx         = {pool_tokens}
| llama_kv_cache_unified:      CUDA0 KV buffer size = {kv:MiB} MiB
""",
        "warm": "| llama_context:      CUDA0 compute buffer size = {activation:MiB} MiB",
        "ready": 'I server.go:630 msg="llama runner started in 3.02 seconds"',
        "serve": 'G 200 |  2.104553182s |      10.0.3.9 | POST     "/api/chat"',
        "prompt": 'D cache.go:104 msg="loading cache slot" id=0 cache=0 prompt={prompt} used=0 remaining={prompt}',
        "swap": """
W sched.go:648 msg="gpu VRAM usage didn't recover within timeout" seconds=5.151842 model=/root/.ollama/models/blobs/sha256-9ab3
I server.go:409 msg="starting llama server" cmd="/usr/bin/ollama runner --model /root/.ollama/models/blobs/sha256-c0de --ctx-size {context} --n-gpu-layers 63"
| load_tensors: loading model tensors, this can take a while... (mmap = true)
""",
        "stop": 'G 200 |  9.870011201s |      10.0.3.9 | POST     "/api/generate"',
    },
)
ENGINE = RUNNER.but(
    "own engine",
    words={
        "load": f'I server.go:400 msg="starting runner" cmd="/usr/bin/ollama runner --ollama-engine --model {_BLOB} --port {{port}}"\nI runner.go:1172 msg=load request="{{{{Operation:alloc LoraPath:[] Parallel:1 BatchSize:512 FlashAttention:true KvSize:{{pool_tokens}}}}}}"\nI ggml.go:131 msg="" architecture=gemma3 file_type=Q4_K_M num_tensors=883',
        "loaded": 'I device.go:240 msg="model weights" device=CUDA0 size="{weights:GiB.1} GiB"\nI device.go:245 msg="model weights" device=CPU size="417.3 MiB"',
        "cache": 'I device.go:251 msg="kv cache" device=CUDA0 size="{kv:GiB.1} GiB"',
        "warm": 'I device.go:262 msg="compute graph" device=CUDA0 size="{activation:GiB.1} GiB"',
        "ready": 'I server.go:1289 msg="llama runner started in 4.40 seconds"',
        "swap": """
W sched.go:658 msg="gpu VRAM usage didn't recover within timeout" seconds=5.000921 runner.size="{kv:GiB.1} GiB" runner.vram="{kv:GiB.1} GiB" runner.parallel=1 runner.pid={pid} runner.model=/root/.ollama/models/blobs/sha256-9ab3
I server.go:400 msg="starting runner" cmd="/usr/bin/ollama runner --ollama-engine --model /root/.ollama/models/blobs/sha256-c0de --port {port}"
""",
    },
)

_BUFFER = """
| ggml_backend_cuda_buffer_type_alloc_buffer: allocating {buffer:MiB} MiB on device 0: cudaMalloc failed: out of memory
| alloc_tensor_range: failed to allocate CUDA0 buffer of size {buffer}
"""
_GONE = """
E server.go:457 msg="llama runner terminated" error="exit status 2"
E sched.go:457 msg="error loading llama server" error="llama runner process has terminated: WHY"
G 500 |  2.279007182s |      10.0.3.9 | POST     "/api/generate"
"""
_LOAD = (
    _BUFFER
    + """
| llama_model_load: error loading model: unable to allocate CUDA0 buffer
| llama_model_load_from_file_impl: failed to load model
| panic: unable to load model: /root/.ollama/models/blobs/sha256-c0de
|
| goroutine 34 [running]:
| github.com/ollama/ollama/runner/llamarunner.(*Server).loadModel(0xc0004a5560, 0x31)
"""
    + _GONE.replace("WHY", "cudaMalloc failed: out of memory")
)
_CUDA = """
| CUDA error: out of memory
|   current device: 0, in function alloc at //ml/backend/ggml/ggml/src/ggml-cuda/ggml-cuda.cu:522
|   cuMemCreate(&handle, reserve_size, &prop, 0)
| //ml/backend/ggml/ggml/src/ggml-cuda/ggml-cuda.cu:96: CUDA error
| SIGABRT: abort
"""


def _fixture(story: str, variant: str, dialect: Dialect, failure: str, label: Label | None = None) -> Fixture:
    return Fixture("llama_cpp", story, f"ollama_{variant}", dialect, failure, label=label)


_NOT_LOADED, _NOT_RUN = device("load_time", survived=True), device("warm_up", survived=True)
"""The server answers that its runner failed, and goes on."""


FIXTURES = (
    _fixture("load_weights", "runner", RUNNER, _LOAD, _NOT_LOADED),
    _fixture("warm_up_run", "runner", RUNNER, """
| ggml_backend_cuda_buffer_type_alloc_buffer: allocating {buffer:MiB} MiB on device 0: cudaMalloc failed: out of memory
| ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size {buffer}
| llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers
| panic: unable to create llama context
""" + _GONE.replace("WHY", "cudaMalloc failed: out of memory"), _NOT_RUN),
    _fixture("warm_up_run", "engine", ENGINE, """
| panic: insufficient memory - required allocations: {{InputWeights:550502400A CPU:{{Name:CPU Weights:[0U] Cache:[0U] Graph:0U}} GPUs:[{{Name:CUDA0 Weights:[{weights}A] Cache:[{kv}A] Graph:{buffer}F}}]}}
|
| goroutine 41 [running]:
| github.com/ollama/ollama/ml/backend/ggml.(*Context).Reserve(0xc000b82000)
| github.com/ollama/ollama/runner/ollamarunner.(*Server).reserveWorstCaseGraph(0xc0001ef9e0, 0x1)
""" + _GONE.replace("WHY", "exit status 2"), _NOT_RUN),
    _fixture("prefill_long_prompt", "runner", RUNNER, _CUDA + """
E server.go:484 msg="llama runner terminated" error="exit status 2"
G 500 | 14.918335112s |      10.0.3.9 | POST     "/api/chat"
E server.go:807 msg="post predict" error="Post \\"http://127.0.0.1:{port}/completion\\": EOF"
"""),
    _fixture("decode_exhausted", "runner", RUNNER, """
| panic: failed to decode batch: could not find a kv cache slot (length: {used_tokens})
|
| goroutine 7 [running]:
| github.com/ollama/ollama/runner/llamarunner.(*Server).run(0xc0000361b0, {{0x55d5c1a94f20, 0xc000086550}})
G 500 |  31.20119341s |      10.0.3.9 | POST     "/api/chat"
"""),
    _fixture("recovery_swap", "runner", RUNNER, _LOAD),
    _fixture("recovery_swap", "engine", ENGINE, """
| ggml_backend_cuda_buffer_type_alloc_buffer: allocating {buffer:MiB} MiB on device 0: cudaMalloc failed: out of memory
| ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size {buffer}
I sched.go:425 msg="Load failed" model=/root/.ollama/models/blobs/sha256-c0de error="memory layout cannot be allocated with num_gpu = 63"
G 500 |  7.300184211s |      10.0.3.9 | POST     "/api/generate"
"""),
    Fixture("llama_cpp", "gate_start", "ollama_system_memory", RUNNER, """
W sched.go:211 msg="model request too large for system" requested="{weights:GiB.1} GiB" available={left} total="62.7 GiB" free="{left:GiB.1} GiB" swap="0 B"
I sched.go:429 msg="NewLlamaServer failed" model=/root/.ollama/models/blobs/sha256-c0de error="model requires more system memory ({weights:GiB.1} GiB) than is available ({left:GiB.1} GiB)"
G 500 |  412.07133ms |      10.0.3.9 | POST     "/api/chat"
""", label=label("capacity_gate", None, "host", survived=True)),
    _fixture("healthy", "engine", ENGINE, ""),
)  # fmt: skip
