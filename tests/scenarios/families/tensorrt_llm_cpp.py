"""TensorRT-LLM's C++ runtime: alone, under Triton, and the old GptSession benchmark.

Forms as in public reports and source: runtime/tllmLogger, batch_manager/kvCacheManager, runtime/tllmBuffers, the
iteration statistics that the executor prints as JSON, Triton's klog lines.
"""

# ruff: noqa: E501  one printed line is one line

from tests.scenarios.families.dialect import Dialect, Fixture

_STATS = '"Active Request Count":{running},"Context Requests":0,"Free KV cache blocks":{unused},"Generation Requests":{running},"Iteration Counter":{n},"Max KV cache blocks":{blocks},"Max Request Count":{slots},"MicroBatch ID":0'
_LOADED = """
I [MemUsageChange] Allocated {activation:MiB} MiB for execution context memory.
I [MemUsageChange] TensorRT-managed allocation in IExecutionContext creation: CPU +0, GPU +0, now: CPU 0, GPU {weights:MiB.0} (MiB)
I [MemUsageChange] Allocated 8.31 MB GPU memory for runtime buffers.
I [MemUsageChange] Allocated 11.02 MB GPU memory for decoder.
I Memory usage when calculating max tokens in paged kv cache: total: {total:GiB} GiB, available: {left:GiB} GiB
"""
CPP = Dialect(
    "C++ executor",
    {"I": "[TensorRT-LLM][INFO] ", "W": "[TensorRT-LLM][WARNING] ", "E": "[TensorRT-LLM][ERROR] ", "F": ""},
    {
        "start": """
I Engine version 0.20.0 found in the config file, assuming engine(s) built by new builder API.
I* MPI size: {ranks}, MPI local size: {ranks}, rank: {rank}
I TRTGptModel maxNumSequences: {slots}
I TRTGptModel maxBatchSize: {slots}
I TRTGptModel maxSequenceLen: {context}
I TRTGptModel maxNumTokens: {chunk}
I Capacity Scheduler Policy: GUARANTEED_NO_EVICT
""",
        "load": "I* Loaded engine size: {weights:MiB.0} MiB",
        "loaded": _LOADED.replace("{left:GiB}", "{kv:GiB}"),
        "cache": """
I Number of blocks in KV cache primary pool: {blocks}
I Number of blocks in KV cache secondary pool: 0, onboard blocks to primary memory before reuse: true
I Number of tokens per block: {block_tokens}.
I [MemUsageChange] Allocated {kv:GiB} GiB for max tokens in paged KV cache ({pool_tokens}).
""",
        "ready": "I Executor instance created by worker",
        "serve": "I {{"
        + _STATS
        + ',"Scheduled Requests":{running},"Tokens per KV cache block":{block_tokens},"Total Context Tokens":0,"Used KV cache blocks":{used}}}',
        "prompt": "I {{"
        + _STATS.replace('"Context Requests":0', '"Context Requests":1')
        + ',"Scheduled Requests":{running},"Tokens per KV cache block":{block_tokens},"Total Context Tokens":{prompt},"Used KV cache blocks":{used}}}',
        "transfer": "W getOrAllocateBuffers: request {n} needs {prompt} tokens > max_tokens_in_buffer, allocating dynamically",
    },
)
_KLOG = "{now:%m%d %H:%M:%S.%f} {pid} "
TRITON = CPP.but(
    "Triton",
    {"T": "I" + _KLOG, "X": "E" + _KLOG},
    {
        "start": """
T cuda_memory_manager.cc:107] CUDA memory pool is created on device 0 with size 67108864
T model_lifecycle.cc:461] loading: tensorrt_llm:1
W max_num_sequences is not specified, will be set to the TRT engine max_batch_size
"""
        + CPP.words["start"],
        "ready": """
T model_lifecycle.cc:818] successfully loaded 'tensorrt_llm'
T grpc_server.cc:2519] Started GRPCInferenceService at 0.0.0.0:8001
T http_server.cc:4637] Started HTTPService at 0.0.0.0:8000
""",
        "stop": "T model_lifecycle.cc:461] loading: tensorrt_llm:2",
        "swap": """
I Engine version 0.20.0 found in the config file, assuming engine(s) built by new builder API.
I Loaded engine size: {weights:MiB.0} MiB
""",
    },
)
_ASYNC = "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mMemPool->getPool(), mCudaStream->get()): out of memory (/src/tensorrt_llm/cpp/tensorrt_llm/runtime/tllmBuffers.h:136)"
_BATCHING = "tensorrt_llm::batch_manager::TrtGptModelInflightBatching::"
BLOCKS = "Assertion failed: Can't allocate new blocks. No free blocks left. (/src/tensorrt_llm/cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp:{port})"
_DESERIALIZE = """
E [defaultAllocator.cpp::allocate::31] Error Code 1: Cuda Runtime (out of memory)
W Requested amount of GPU memory ({buffer} bytes) could not be allocated. There may not be enough free memory for allocation to succeed.
E [deserialize.cpp::load::572] Error Code 2: OutOfMemory (Requested size was {buffer} bytes.)
"""
_UNAVAILABLE = """
X model_lifecycle.cc:621] failed to load 'tensorrt_llm' version VERSION: Internal: unexpected error when creating modelInstanceState: WHY
"""
_LEFT = """
T model_lifecycle.cc:756] failed to load 'tensorrt_llm'
| error: creating server: Internal - failed to load all models
"""


def _fixture(story: str, variant: str, dialect: Dialect, failure: str, ranks: int = 1) -> Fixture:
    return Fixture("tensorrt_llm", story, variant, dialect, failure, ranks)


FIXTURES = (
    _fixture("load_weights", "cpp", CPP, f"""
{_DESERIALIZE}| terminate called after throwing an instance of 'tensorrt_llm::common::TllmException'
|   what():  [TensorRT-LLM][ERROR] Assertion failed: Failed to deserialize cuda engine. (/src/tensorrt_llm/cpp/tensorrt_llm/runtime/tllmRuntime.cpp:148)
N tensorrt_llm::common::throwRuntimeError(char const*, int, std::string const&)
N tensorrt_llm::runtime::TllmRuntime::TllmRuntime(tensorrt_llm::runtime::RawEngine const&, nvinfer1::ILogger*, float, bool)
"""),
    _fixture("load_weights", "triton", TRITON, _DESERIALIZE.replace("[defaultAllocator.cpp::allocate::31]", "1: [defaultAllocator.cpp::allocate::19]") + _UNAVAILABLE.replace("VERSION", "1").replace("WHY", "[TensorRT-LLM][ERROR] Assertion failed: Failed to deserialize cuda engine (/app/tensorrt_llm/cpp/tensorrt_llm/runtime/tllmRuntime.cpp:85)") + _LEFT),
    _fixture("warm_up_pool", "cpp", CPP, """
I Number of blocks in KV cache primary pool: {blocks}
| terminate called after throwing an instance of 'tensorrt_llm::common::TllmException'
|   what():  [TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMalloc(ptr, n): out of memory (/src/tensorrt_llm/cpp/tensorrt_llm/runtime/tllmBuffers.h:104)
N tensorrt_llm::runtime::GenericTensor<tensorrt_llm::runtime::CudaAllocator>::GenericTensor(nvinfer1::Dims32 const&, nvinfer1::DataType)
N tensorrt_llm::batch_manager::kv_cache_manager::BlockManager::allocatePools(bool)
N tensorrt_llm::batch_manager::kv_cache_manager::KVCacheManager::allocatePools(bool)
"""),
    _fixture("warm_up_run", "triton_buffers", TRITON, "E " + _ASYNC.partition("] ")[2] + f"""
N tensorrt_llm::runtime::BufferManager::gpu(nvinfer1::Dims32, nvinfer1::DataType) const
N {_BATCHING}createBuffers(tensorrt_llm::executor::DecodingConfig const&)
""" + _UNAVAILABLE.replace("VERSION", "1").replace("WHY", _ASYNC) + _LEFT),
    _fixture("prefill_long_prompt", "cpp_logits", CPP, """
W Gathering context logits for request {n} (prompt length {prompt}, vocab 128256)
E Encountered an error in forwardAsync function: """ + _ASYNC + f"""
N tensorrt_llm::runtime::BufferManager::gpu(nvinfer1::Dims32, nvinfer1::DataType) const
N {_BATCHING}setupContext(std::vector<std::shared_ptr<tensorrt_llm::batch_manager::LlmRequest>> const&)
N {_BATCHING}forwardAsync(std::list<std::shared_ptr<tensorrt_llm::batch_manager::LlmRequest>> const&)
"""),
    _fixture("prefill_long_prompt", "triton", TRITON, "E Encountered an error in forwardAsync function: " + _ASYNC + f"""
N tensorrt_llm::runtime::BufferManager::gpu(nvinfer1::Dims32, nvinfer1::DataType) const
N {_BATCHING}executeContext(int, int)
X pb_stub.cc:402] Failed to process the request(s) for model 'tensorrt_llm_bls_0_0', message: TritonModelException: Encountered an error in forwardAsync function
"""),
    _fixture("decode_exhausted", "session", CPP.but("GptSession", words={"serve": """
I Benchmarking: batch_size {running} input_length 64 output_length 512
| [BENCHMARK] batch_size {running} input_length 64 output_length 512 latency(ms) 3120.55 tokensPerSec 2210.3
"""}), "E [TensorRT-LLM][ERROR] " + BLOCKS + """
N tensorrt_llm::batch_manager::kv_cache_manager::BlockManager::allocateBlock(tensorrt_llm::batch_manager::kv_cache_manager::GenerationRequest&, bool)
N tensorrt_llm::batch_manager::kv_cache_manager::KVCacheManager::addToken(int)
N tensorrt_llm::runtime::GptSession::executeGenerationStep(int, std::vector<tensorrt_llm::runtime::GenerationInput> const&)
"""),
    _fixture("decode_exhausted", "triton", TRITON, "E Encountered an error in forwardAsync function: [TensorRT-LLM][ERROR] " + BLOCKS + f"""
N tensorrt_llm::batch_manager::kv_cache_manager::WindowBlockManager::allocateBlock(tensorrt_llm::batch_manager::kv_cache_manager::GenerationRequest&, bool)
N tensorrt_llm::batch_manager::kv_cache_manager::KVCacheManager::addToken(unsigned long)
N {_BATCHING}forwardAsync(std::list<std::shared_ptr<tensorrt_llm::batch_manager::LlmRequest>> const&)
"""),
    _fixture("decode_preempting", "triton_paused", TRITON, "I {{" + _STATS + ',"Paused Requests":{paused},"Scheduled Requests":{running},"Tokens per KV cache block":{block_tokens},"Total Context Tokens":640,"Used KV cache blocks":{used}}}'),
    _fixture("recovery_transfer", "cpp", CPP, "E Exception in sendRequestAndReceiveAsync: " + _ASYNC + """
N tensorrt_llm::batch_manager::kv_cache_manager::BaseTransBufferManager::getOrAllocateBuffers(std::optional<int>, int, unsigned long, ConcurrenceResource&)
"""),
    _fixture("recovery_swap", "triton_version", TRITON, _DESERIALIZE + _UNAVAILABLE.replace("VERSION", "2").replace("WHY", "[TensorRT-LLM][ERROR] Assertion failed: Failed to deserialize cuda engine. (/src/tensorrt_llm/cpp/tensorrt_llm/runtime/tllmRuntime.cpp:148)")),
    _fixture("not_oom_illegal_access", "cpp", CPP, "E Encountered an error in forward function: [TensorRT-LLM][ERROR] CUDA runtime error in ::cudaEventSynchronize(get()): an illegal memory access was encountered (/src/tensorrt_llm/cpp/include/tensorrt_llm/runtime/cudaEvent.h:66)"),
    _fixture("healthy", "triton", TRITON, ""),
)  # fmt: skip
