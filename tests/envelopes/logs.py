"""Logs without an engine's header on their deciding lines, which can teach no prefix; made up for these tests.

The logs with headers are the scenarios, the readers' samples and the examples.
"""

# ruff: noqa: E501  a line of a log is one line

from pathlib import Path

from tests.logs.samples import SAMPLES
from tests.scenarios import catalogue, render_log

EXAMPLES = Path(__file__).parents[2] / "examples"

BARE = {
    "transformers": """\
Loading checkpoint shards:  33%|███▎      | 1/3 [00:04<00:09,  4.61s/it]
Traceback (most recent call last):
  File "/srv/app/serve.py", line 41, in <module>
    main()
  File "/srv/env/lib/python3.12/site-packages/transformers/modeling_utils.py", line 4264, in from_pretrained
    ) = cls._load_pretrained_model(
        ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/env/lib/python3.12/site-packages/transformers/modeling_utils.py", line 4777, in _load_pretrained_model
    param = param.to(device)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 0 has a total capacity of 23.52 GiB of which 1.12 GiB is free. Including non-PyTorch memory, this process has 22.39 GiB memory in use. Of the allocated memory 21.80 GiB is allocated by PyTorch, and 161.45 MiB is reserved by PyTorch but unallocated.
""",
    "a lone message": "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB. GPU 0 has a total capacity of 79.10 GiB of which 512.19 MiB is free.\n",
    "kernel": """\
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/kubepods/pod9,task=python3,pid=71245,uid=0
Memory cgroup out of memory: Killed process 71245 (VLLM::EngineCor) total-vm:98212345kB, anon-rss:62914560kB, file-rss:81920kB, shmem-rss:4096kB, UID:0 pgtables:130000kB oom_score_adj:0
""",
    "shell": "starting the server\n/srv/run.sh: line 12:  4182 Killed                  python3 -m serve --model otter\n",
    "llama.cpp": """\
ggml_cuda_init: found 1 CUDA devices:
llama_model_loader: loaded meta data with 33 key-value pairs and 579 tensors from /srv/m/otter-32b.gguf (version GGUF V3 (latest))
load_tensors: offloading 48 repeating layers to GPU
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 20480.00 MiB on device 0: cudaMalloc failed: out of memory
alloc_tensor_range: failed to allocate CUDA0 buffer of size 21474836480
llama_model_load: error loading model: unable to allocate CUDA0 buffer
""",
}


def fixtures(seed: int = 5) -> dict[str, str]:
    """Every log of the fixtures by name: each scenario in the words of each of its engines, and the others."""
    logs = {
        f"{scenario.name}, {engine}": render_log(scenario.name, seed=seed, ranks=2, engine=engine, filler_lines=6)
        for scenario in catalogue()
        for engine in scenario.engines
    }
    logs |= {path.name: path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*.log"))}
    return {**logs, **SAMPLES, **BARE}
