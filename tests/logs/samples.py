"""Small logs in the engines' formats; models, hosts and figures are made up for these tests."""

# ruff: noqa: E501  a line of a log is one line

VLLM_MESSAGE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB. GPU 0 has a total capacity of 44.39 GiB of "
    "which 211.31 MiB is free. Process 71244 has 1.50 GiB memory in use. Including non-PyTorch memory, this process has "
    "42.67 GiB memory in use. Of the allocated memory 40.11 GiB is allocated by PyTorch, with 96.00 MiB allocated in private "
    "pools (e.g., CUDA Graphs), and 1.02 GiB is reserved by PyTorch but unallocated."
)

VLLM = f"""\
(APIServer pid=71) INFO 03-14 15:09:26 [api_server.py:1346] vLLM API server version 0.17.1
(APIServer pid=71) INFO 03-14 15:09:26 [utils.py:253] non-default args: {{'model': 'acme/otter-9b', 'max_model_len': 16384}}
(EngineCore_DP0 pid=98) INFO 03-14 15:09:31 [core.py:90] Initializing a V1 LLM engine (v0.17.1) with config: model='acme/otter-9b'
(EngineCore_DP0 pid=98) INFO 03-14 15:09:33 [gpu_model_runner.py:3400] Starting to load model acme/otter-9b...
Loading safetensors checkpoint shards:   0% Completed | 0/4 [00:00<?, ?it/s]
Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:03<00:00,  1.24it/s]
(EngineCore_DP0 pid=98) INFO 03-14 15:09:40 [gpu_model_runner.py:3452] Model loading took 17.25 GiB memory and 5.204 seconds
(EngineCore_DP0 pid=98) INFO 03-14 15:09:52 [gpu_worker.py:341] Available KV cache memory: 19.62 GiB
(EngineCore_DP0 pid=98) INFO 03-14 15:09:52 [kv_cache_utils.py:1234] GPU KV cache size: 205,712 tokens
(EngineCore_DP0 pid=98) INFO 03-14 15:10:07 [gpu_model_runner.py:4370] Graph capturing finished in 11 secs, took 0.38 GiB
(APIServer pid=71) INFO:     Application startup complete.
(APIServer pid=71) INFO 03-14 15:12:08 [loggers.py:259] Engine 000: Avg prompt throughput: 812.4 tokens/s, Avg generation throughput: 96.1 tokens/s, Running: 5 reqs, Waiting: 1 reqs, GPU KV cache usage: 41.7%, Prefix cache hit rate: 2.0%
(EngineCore_DP0 pid=98) ERROR 03-14 15:12:11 [core.py:1108] EngineCore encountered a fatal error.
(EngineCore_DP0 pid=98) ERROR 03-14 15:12:11 [core.py:1108] Traceback (most recent call last):
(EngineCore_DP0 pid=98) ERROR 03-14 15:12:11 [core.py:1108]   File "/srv/env/vllm/v1/engine/core.py", line 1099, in run_busy_loop
(EngineCore_DP0 pid=98) ERROR 03-14 15:12:11 [core.py:1108]     self._process_engine_step()
(EngineCore_DP0 pid=98) ERROR 03-14 15:12:11 [core.py:1108]   File "/srv/env/vllm/v1/worker/gpu_model_runner.py", line 3027, in execute_model
(EngineCore_DP0 pid=98) ERROR 03-14 15:12:11 [core.py:1108]     model_output = self._model_forward(
(EngineCore_DP0 pid=98) ERROR 03-14 15:12:11 [core.py:1108]                    ^^^^^^^^^^^^^^^^^^^^
(EngineCore_DP0 pid=98) ERROR 03-14 15:12:11 [core.py:1108]   File "/srv/env/vllm/model_executor/layers/activation.py", line 88, in forward_cuda
(EngineCore_DP0 pid=98) ERROR 03-14 15:12:11 [core.py:1108]     out = torch.empty(output_shape, dtype=x.dtype, device=x.device)
(EngineCore_DP0 pid=98) ERROR 03-14 15:12:11 [core.py:1108] {VLLM_MESSAGE}
(APIServer pid=71) ERROR 03-14 15:12:11 [async_llm.py:708] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.
"""

SGLANG_MESSAGE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.75 GiB. GPU 0 has a total capacity of 79.11 GiB of which "
    "1.01 GiB is free. Including non-PyTorch memory, this process has 78.09 GiB memory in use. Of the allocated memory 74.20 "
    "GiB is allocated by PyTorch, and 2.31 GiB is reserved by PyTorch but unallocated."
)

SGLANG = f"""\
[2026-03-14 15:09:26] server_args=ServerArgs(model_path='acme/otter-9b', tp_size=2, mem_fraction_static=0.88)
[2026-03-14 15:09:33 TP0] Load weight begin. avail mem=78.20 GB
[2026-03-14 15:09:41 TP0] Load weight end. elapsed=8.02 s, type=OtterForCausalLM, avail mem=69.40 GB, mem usage=8.80 GB.
[2026-03-14 15:09:43 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 611231, K size: 29.15 GB, V size: 29.15 GB
[2026-03-14 15:09:44 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=10.02 GB
[2026-03-14 15:09:51 TP0] Capture cuda graph end. Time elapsed: 6.71 s. mem usage=0.44 GB. avail mem=9.58 GB.
[2026-03-14 15:09:52] The server is fired up and ready to roll!
[2026-03-14 15:12:04 TP0] Decode batch, #running-req: 9, #token: 250605, token usage: 0.41, cuda graph: True, gen throughput (token/s): 301.20, #queue-req: 0
[2026-03-14 15:12:07 TP1] Scheduler hit an exception: Traceback (most recent call last):
  File "/opt/sglang/srt/managers/scheduler.py", line 2711, in run_scheduler_process
    scheduler.event_loop_overlap()
  File "/opt/sglang/srt/model_executor/model_runner.py", line 1902, in forward_extend
    return self.model.forward(
  File "/opt/sglang/srt/layers/activation.py", line 61, in forward_cuda
    out = torch.empty(output_shape, dtype=x.dtype, device=x.device)
{SGLANG_MESSAGE}

[2026-03-14 15:12:08] Received sigquit from a child process. It usually means the child failed.
"""

SAMPLES = {"vllm": VLLM, "sglang": SGLANG}


def lines(log: str) -> list[str]:
    """The lines of a sample, without their endings."""
    return log.removesuffix("\n").split("\n")


def ranked(log: str, ranks: int) -> str:
    """The lines of the V1 sample's engine core, printed by so many workers, interleaved line by line."""
    result = []
    for line in lines(log):
        if line.startswith("(EngineCore_DP0 pid=98)"):
            rest = line.removeprefix("(EngineCore_DP0 pid=98)")
            result += [
                f"(Worker_TP{rank} pid={200 + rank}){rest}".replace("GPU 0 ", f"GPU {rank} ") for rank in range(ranks)
            ]
        else:
            result.append(line)
    return "\n".join(result) + "\n"
