"""What is said of programs that call transformers themselves: frames and library lines tell, no engine does.

Forms after transformers 4.36 to 5.x, peft, IPython 7 and 8, torch.distributed.elastic and torch.cuda.memory_summary().
"""

# ruff: noqa: E501  one printed line is one line

import pytest

from tests.triage.engines.reports import Report, check

OOM = (
    "{asked}. GPU 0 has a total capacity of 79.25 GiB of which {free} is free. Including non-PyTorch memory, this process has "
    "{own} memory in use. Of the allocated memory {allocated} is allocated by PyTorch, and {cached} is reserved by PyTorch but "
    "unallocated."
)


def oom(asked: str, cached: str = "210.11 MiB", allocated: str = "77.10 GiB", others: str = "") -> str:
    """PyTorch's words."""
    text = OOM.format(asked=asked, free="301.75 MiB", own="78.95 GiB", allocated=allocated, cached=cached)
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {text.replace('Including', others + 'Including')}\n"
    )


def frames(*frames: tuple[str, str, str]) -> str:
    """A traceback up to its exception line."""
    lines = [
        f'  File "/env/lib/python3.11/site-packages/{file}", line 77, in {name}\n    {code}\n'
        for file, name, code in frames
    ]
    return "Traceback (most recent call last):\n" + "".join(lines)


LOADED = (
    "Loading checkpoint shards:   0%|          | 0/4 [00:00<?, ?it/s]\n"
    "Loading checkpoint shards: 100%|##########| 4/4 [00:20<00:00,  5.10s/it]\n"
)
GENERATE = ("transformers/generation/utils.py", "generate", "result = self._sample(")
LAYER = (
    "transformers/models/mistral/modeling_mistral.py",
    "forward",
    "return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))",
)
UPDATE = (
    "transformers/models/mistral/modeling_mistral.py",
    "forward",
    "k, v = past_key_values.update(k, v, self.layer_idx)",
)
CAT = ("transformers/cache_utils.py", "update", "self.keys = torch.cat([self.keys, key_states], dim=-2)")
OLD_CAT = (
    "transformers/cache_utils.py",
    "update",
    "self.key_cache[layer_idx] = torch.cat([self.key_cache[layer_idx], key_states], dim=-2)",
)
FIRST = ("transformers/generation/utils.py", "_sample", "outputs = self(**model_inputs, return_dict=True)")
NEXT = ("transformers/generation/utils.py", "_sample", "outputs = model_forward(**model_inputs, return_dict=True)")
LOADER = ("transformers/modeling_utils.py", "from_pretrained", "model._load_pretrained_model(")
SERVING = LOADED + "INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)\n"
SUMMARY = """|===========================================================================|
|            CUDA OOMs: {ooms}            |        cudaMalloc retries: {retries}         |
|===========================================================================|
| Allocated memory      |  63000 MiB |  63000 MiB |  91022 GiB |  90955 GiB |
| Non-releasable memory |  14336 MiB |  14336 MiB |  61022 GiB |  61013 GiB |
|===========================================================================|
"""
IPYTHON_7 = """---------------------------------------------------------------------------
OutOfMemoryError                          Traceback (most recent call last)
<ipython-input-4-2c5a> in <module>
----> 1 model = AutoModelForCausalLM.from_pretrained(name).cuda()

/env/lib/python3.8/site-packages/torch/nn/modules/module.py in cuda(self, device)
    903         \"\"\"
--> 904         return self._apply(lambda t: t.cuda(device))
    905

/env/lib/python3.8/site-packages/torch/nn/modules/module.py in <lambda>(t)
--> 904         return self._apply(lambda t: t.cuda(device))

"""
BATCHES = """2026-03-02 09:00:01,118 - ContinuousBatchingLogger - INFO - PagedAttentionCache initialized with self.num_blocks = 900, self.block_size = 32, page_size = 1024
2026-03-02 09:00:09,118 - ContinuousBatchingLogger - DEBUG - Scheduled: 4, Waiting: 0, Active: 4. cum Q: 4. cum KV: 2048, free blocks: 700
2026-03-02 09:00:10,118 - ContinuousBatchingLogger - DEBUG - Scheduled: 1, Waiting: 0, Active: 1. cum Q: 9000. cum KV: 9000, free blocks: 400
"""
REPORTS = [
    Report("a layer of the first step", LOADED + frames(GENERATE, FIRST, LAYER) + oom("2.10 GiB"), "oom", "prefill_spike"),
    Report("a layer of a later step", LOADED + frames(GENERATE, NEXT, LAYER) + oom("2.10 GiB"), "oom", None),
    Report("a small request of a layer", LOADED + frames(GENERATE, FIRST, LAYER) + oom("20.00 MiB"), "oom", None),
    Report("the cache of a later step", LOADED + frames(GENERATE, NEXT, UPDATE, CAT) + oom("96.00 MiB"), "oom", "decode_growth"),
    Report("the first filling of a cache", LOADED + frames(GENERATE, FIRST, UPDATE, CAT) + oom("96.00 MiB"), "oom", None),
    Report("an entry that held something", LOADED + frames(GENERATE, FIRST, UPDATE, OLD_CAT) + oom("96.00 MiB"), "oom", "decode_growth"),
    Report("a notebook's first words", IPYTHON_7 + oom("500.00 MiB").removeprefix("torch."), "oom", "load_time"),
    Report("a loader after serving", SERVING + "loading configuration file b/config.json\n" + frames(LOADER) + oom("90.00 MiB"), "oom", "recovery"),
    Report("a loader at the start", "loading configuration file b/config.json\n" + frames(LOADER) + oom("90.00 MiB"), "oom", "load_time"),
    Report(
        "workers started anew beside an old one",
        SERVING
        + "I0714 10:05:47.201000 2210 torch/distributed/elastic/agent/server/api.py:900] [default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"
        + "systemd[1]: hf.service: Found left-over process 911 (python) in control group while starting unit. Ignoring.\n"
        + "Loading checkpoint shards:   0%|          | 0/4 [00:00<?, ?it/s]\n"
        + frames(LOADER) + oom("90.00 MiB", allocated="30.00 GiB", others="Process 911 has 47.10 GiB memory in use. "),
        "oom", "recovery",
    ),
    Report("an adapter while it serves", SERVING + frames(("peft/utils/save_and_load.py", "load_peft_weights", "weights = safe_load_file(filename, device=device)")) + oom("90.00 MiB"), "oom", "recovery"),
    Report("a pool of its own", LOADED + frames(("transformers/cache_utils.py", "lazy_initialization", "self.keys = torch.zeros(")) + oom("1.50 GiB"), "oom", "warm_up"),
    Report(
        "retries that helped", LOADED + frames(GENERATE, FIRST, LAYER) + oom("2.10 GiB", "14.00 GiB", "61.50 GiB") + SUMMARY.format(ooms=1, retries=6),
        "oom", "fragmentation",
    ),
    Report("no retry that helped", LOADED + frames(GENERATE, FIRST, LAYER) + oom("2.10 GiB", "3.00 GiB", "72.50 GiB") + SUMMARY.format(ooms=6, retries=6), "oom", "prefill_spike"),
    Report("a prompt in a batch of its own", LOADED + BATCHES + frames(("transformers/generation/continuous_batching/continuous_api.py", "_generation_step", "x()"), LAYER) + oom("900.00 MiB"), "oom", "prefill_spike"),
    Report("no block for anybody", LOADED + frames(("transformers/generation/continuous_batching/continuous_api.py", "_inner_generation_loop", "x()")) + "RuntimeError: No requests can be scheduled and no request can be offloaded.\n", "oom", "decode_growth", "kv_blocks"),
]  # fmt: skip


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_each(report: Report) -> None:
    check(report)
