"""Text Generation Inference: versions 1 and 3 as text, with a boxed traceback, and as JSON.

Forms as in public reports and source: launcher/src/main.rs (shards, their output, JSON), router and its client (spans), the
Python server's tracebacks. The launcher prints a shard's record in one piece; with `--json-output` its lines are in `message`.
"""

# ruff: noqa: E501  one printed line is one line

import json
import re

from tests.scenarios.families.dialect import Dialect, Fixture
from tests.scenarios.labels import Label, blocks, label

_RECORD = re.compile(
    r"(\S+Z) +(INFO|WARN|ERROR) (?:[\w{}=. ()\"µ:,<>-]*?: )?(text_generation\w*(?:::\w+)*): (.*)", re.DOTALL
)
_TIME = "{now:%Y-%m-%dT%H:%M:%S.%f}Z "


def as_json(text: str) -> str:
    """A text log as `--json-output` prints it: a record a line; the launcher nests its message, the router does not."""
    out = []
    for record in re.split(r"\n(?=\d{4}-\d\d-\d\dT|Error: |systemd)", text.rstrip("\n")):
        found = _RECORD.fullmatch(record)
        if found is None:
            out.append(record)
            continue
        event = {"timestamp": found[1], "level": found[2], "fields": {"message": found[4]}, "target": found[3]}
        if "launcher" not in found[3]:
            file, line, message = re.split(r":(\d+): ", found[4], maxsplit=1)
            event = {"timestamp": found[1], "level": found[2], "message": message, "target": found[3], "filename": file}
            event["line_number"] = int(line)
        out.append(json.dumps(event, ensure_ascii=False, separators=(",", ":")))
    return "\n".join(out) + "\n"


V1 = Dialect(
    "1.x",
    {
        "I": _TIME + " INFO text_generation_launcher: ",
        "S": _TIME + " INFO shard-manager: text_generation_launcher: ",
        "E": _TIME + "ERROR text_generation_launcher: ",
        "X": _TIME + "ERROR shard-manager: text_generation_launcher: ",
        "R": _TIME + " INFO text_generation_router: router/src/main.rs:",
        "G": _TIME
        + ' INFO generate{{parameters=GenerateParameters {{ best_of: None, temperature: Some(0.7), max_new_tokens: Some(256), truncate: None, watermark: false }} total_time="3.02s" validation_time="1.1ms" queue_time="88.1µs" inference_time="3.01s" time_per_token="24.1ms" seed="None"}}: text_generation_router::server: router/src/server.rs:',
        "P": _TIME
        + "ERROR batch{{batch_size=1}}:prefill:prefill{{id={n} size=1}}:prefill{{id={n} size=1}}: text_generation_client: router/client/src/lib.rs:",
        "D": _TIME
        + "ERROR batch{{batch_size={running}}}:decode:decode{{size=1}}:decode{{size=1}}: text_generation_client: router/client/src/lib.rs:",
        "W": _TIME
        + "ERROR warmup{{max_input_length=2048 max_prefill_tokens={chunk} max_total_tokens={context}}}:warmup: text_generation_client: router/client/src/lib.rs:",
        "F": "",
    },
    {
        "start": """
I Args {{ model_id: "{model}", sharded: None, num_shard: Some({ranks}), quantize: None, max_input_length: 2048, max_total_tokens: {context}, max_batch_prefill_tokens: {chunk}, cuda_memory_fraction: 1.0 }}
I Successfully downloaded weights.
""",
        "load": "I* Starting shard {rank}",
        "wait": "S Waiting for shard to be ready... rank=0",
        "loaded": """
I* Server started at unix:///tmp/text-generation-server-{rank}
S* Shard ready in 22.418103947s rank={rank}
I Starting Webserver
R 213: Warming up model
""",
        "warm": "R 240: Setting max batch total tokens to {pool_tokens}",
        "ready": "R 241: Connected",
        "serve": "G 457: Success",
        "stop": "I Shutting down shards\nS* Shard terminated rank={rank}",
        "restart": "| systemd[1]: tgi.service: Found left-over process {other_pid} (text-generation) in control group while starting unit. Ignoring.",
    },
    root="/opt/conda/lib/python3.10/site-packages/",
)
V3 = V1.but(
    "3.x",
    {
        "R": _TIME + " INFO text_generation_router_v3: backends/v3/src/lib.rs:",
        "P": _TIME
        + "ERROR batch{{batch_size=4}}:prefill:prefill{{id={n} size=4}}:prefill{{id={n} size=4}}: text_generation_router_v3::client: backends/v3/src/client/mod.rs:",
        "D": _TIME
        + "ERROR batch{{batch_size={running}}}:decode:decode{{size=1}}:decode{{size=1}}: text_generation_router_v3::client: backends/v3/src/client/mod.rs:",
        "W": _TIME
        + "ERROR warmup{{max_input_length=None max_prefill_tokens={chunk} max_total_tokens=None max_batch_size=None}}:warmup: text_generation_router_v3::client: backends/v3/src/client/mod.rs:",
    },
    {
        "cache": "I KV-cache blocks: {pool_tokens}, size: 1\nI Cuda Graphs are enabled for sizes [32, 16, 8, 4, 2, 1]",
        "warm": "R 137: Setting max batch total tokens to {pool_tokens}",
    },
    root="/usr/src/.venv/lib/python3.11/site-packages/",
)
JSON = V3.but("3.x as JSON", finish=as_json)
JSON1 = V1.but("1.x as JSON", finish=as_json)

_T = "\n| Traceback (most recent call last):\n"
_SERVER = "text_generation_server/models/"
_INIT = f"""{_T}F text_generation_server/server.py:serve_inner model = get_model(
F {_SERVER}flash_llama.py:__init__ model = FlashLlamaForCausalLM(config, weights)
F text_generation_server/utils/layers.py:load_multi weight = weights.get_multi_weights_col(
F text_generation_server/utils/weights.py:get_multi_weights_col w = [self.get_sharded(f"{{{{p}}}}.weight", dim=0) for p in prefixes]
| torch.cuda.OutOfMemoryError: MESSAGE
"""
_STOPPED = """
E Shard {rank} failed to start
I Shutting down shards
| Error: ShardCannotStart
"""
_LOAD = (
    "E Error when initializing model"
    + _INIT
    + "X Shard complete standard error output:\n|"
    + _INIT
    + "|  rank={rank}"
    + _STOPPED
)
_BOX = (
    """
X Shard complete standard error output:
|
| ╭─────────────────────────────── Traceback (most recent call last) ────────────────────────────────╮
| │ /usr/src/server/text_generation_server/cli.py:119 in serve                                       │
| │                                                                                                  │
| │ ❱ 119 │   server.serve(                                                                          │
| │                                                                                                  │
| │ /usr/src/server/text_generation_server/models/__init__.py:711 in get_model                       │
| │                                                                                                  │
| │ ❱ 711 │   │   │   │   return FlashCausalLM(                                                      │
| │                                                                                                  │
| │ /usr/src/server/text_generation_server/layers/linear.py:46 in from_unquant                       │
| │                                                                                                  │
| │ ❱ 46 │   │   weight = weights.get_multi_weights_col(prefixes, dim=0)                             │
| ╰──────────────────────────────────────────────────────────────────────────────────────────────────╯
| OutOfMemoryError: {oom}
|  rank={rank}
"""
    + _STOPPED
)


def _warmup(frames: str, tokens: str = "{chunk}") -> str:
    short = f"Not enough memory to handle {tokens} prefill tokens. You need to decrease `--max-batch-prefill-tokens`"
    return f"""
E Method Warmup encountered an error.{_T}{frames}
|
| The above exception was the direct cause of the following exception:
|{_T}F {_SERVER}flash_causal_lm.py:warmup raise RuntimeError(
| RuntimeError: {short}
W 33: Server error: {short}
| Error: Warmup(Generation("{short}"))
E Webserver Crashed
I Shutting down shards
| Error: WebserverFailed
"""


def _step(method: str, frames: str, message: str = "{oom}") -> str:
    client = "P" if method == "Prefill" else "D"
    return f"""
E Method {method} encountered an error.{_T}F text_generation_server/server.py:{method} generations, next_batch, timings = self.model.generate_token(batch)
{frames}
{client} 33: Server error: {message}
"""


_GENERATE = f"F {_SERVER}flash_causal_lm.py:generate_token out = self.forward(batch)\n"
_FORWARD = (
    _GENERATE
    + f"F {_SERVER}custom_modeling/flash_llama_modeling.py:forward return self.down_proj(self.act(gate_up_states[:, 0]) * gate_up_states[:, 1])\n| torch.cuda.OutOfMemoryError: MESSAGE"
)
_BLOCKS = f"F {_SERVER}flash_causal_lm.py:generate_token block_tables, block_tables_tensor, slots = get_cache_manager().allocate(\nF {_SERVER}cache_manager.py:allocate len(free_block_indices) >= blocks\n| AssertionError: Out of available cache blocks: asked 107, only {{unused}} free blocks"
_SHORT_OF = "Out of available cache blocks: asked 107, only {unused} free blocks"
_CAT = f"F {_SERVER}causal_lm.py:generate_token logits, speculative_logits, past = self.forward(\nF transformers/models/gpt_neox/modeling_gpt_neox.py:forward key = torch.cat((past_key, key), dim=-2)\n| torch.cuda.OutOfMemoryError: {{oom20}}"
_FRAGMENTED = label("oom", "fragmentation", "device", survived=None, also_classes=("prefill_spike",))


def _fixture(
    story: str, variant: str, dialect: Dialect, failure: str, ranks: int = 1, label: Label | None = None
) -> Fixture:
    return Fixture("tgi", story, variant, dialect, failure, ranks, label)


FIXTURES = (
    _fixture("load_weights", "v1", V1, _LOAD.replace("MESSAGE", "{oom20}")),
    _fixture("load_weights", "box", V3, _BOX),
    _fixture("load_staging", "json", JSON, _LOAD.replace("MESSAGE", "{oom}").replace("get_sharded(", "get_quantized(")),
    _fixture("load_neighbour", "v1_shards", V1, _LOAD.replace("MESSAGE", "{oom21}"), 2),
    _fixture("warm_up_run", "v1", V1, _warmup(_FORWARD.replace("MESSAGE", "{oom20}"))),
    _fixture("warm_up_run", "json_graphs", JSON, _warmup(f"F {_SERVER}flash_causal_lm.py:warmup self.cuda_graph_warmup(bs, max_total_tokens, max_total_tokens)\nF {_SERVER}flash_causal_lm.py:cuda_graph_warmup with torch.cuda.graph(graph, pool=MEM_POOL):\n| torch.OutOfMemoryError: {{oom}}")),
    _fixture("warm_up_pool", "v3_shards", V3, _warmup(f"F {_SERVER}flash_causal_lm.py:warmup self.init_kv_cache(\nF text_generation_server/layers/attention/kv_cache.py:__init__ torch.empty((num_blocks, num_heads, BLOCK_SIZE, head_size), dtype=dtype, device=device),\n| torch.OutOfMemoryError: {{oom}}"), 2),
    _fixture("warm_up_run", "no_figures", V1, """
W 33: Server error: Not enough memory to handle {chunk} prefill tokens. You need to decrease `--max-batch-prefill-tokens`
| Error: Warmup(Generation("Not enough memory to handle {chunk} prefill tokens. You need to decrease `--max-batch-prefill-tokens`"))
E Webserver Crashed
"""),
    _fixture("prefill_long_prompt", "v1", V1, _step("Prefill", _FORWARD.replace("MESSAGE", "{oom21}"), "{oom21}")),
    _fixture("prefill_long_prompt", "v3_shards", V3, _step("Prefill", _FORWARD.replace("torch.cuda.", "torch.").replace("MESSAGE", "{oom}"), "{oom_short}") + "E Shard {rank} crashed", 2),
    _fixture("prefill_long_prompt", "json", JSON, _step("Prefill", _GENERATE + f"F {_SERVER}custom_modeling/flash_qwen2_modeling.py:forward logits, speculative_logits = self.lm_head(hidden_states)\n| torch.OutOfMemoryError: {{oom}}")),
    _fixture("prefill_long_prompt", "client_only", V3, "P 45: Server error: {oom_short}"),
    _fixture("decode_cache_growth", "v1_causal", V1, _step("Decode", _CAT, "{oom20}")),
    _fixture("decode_cache_growth", "json_causal", JSON1, _step("Decode", _CAT.replace("{oom20}", "{oom21}").replace("gpt_neox/modeling_gpt_neox", "bloom/modeling_bloom"), "{oom21}")),
    _fixture("decode_exhausted", "v1_blocks", V1, _step("Prefill", _BLOCKS, _SHORT_OF) * 3, label=label("oom", "decode_growth", "kv_blocks", survived=None, also_classes=("prefill_spike",))),
    _fixture("decode_exhausted", "json_blocks", JSON1, _step("Decode", _BLOCKS, _SHORT_OF), label=blocks("decode_growth", survived=None)),
    _fixture("fragmentation_same_shape", "v1", V1, _step("Prefill", _FORWARD.replace("MESSAGE", "{oom21}"), "{oom21}"), label=_FRAGMENTED),
    _fixture("fragmentation_same_shape", "v1_old_message", V1, _step("Prefill", _FORWARD.replace("MESSAGE", "{oom20}"), "{oom20}"), label=_FRAGMENTED),
    _fixture("fragmentation_same_shape", "v3_shards", V3, _step("Prefill", _FORWARD.replace("torch.cuda.", "torch.").replace("MESSAGE", "{oom}")), 2, _FRAGMENTED),
    _fixture("fragmentation_same_shape", "json", JSON, _step("Prefill", _FORWARD.replace("torch.cuda.", "torch.").replace("MESSAGE", "{oom}")), label=_FRAGMENTED),
    _fixture("recovery_restart", "v1", V1, _LOAD.replace("MESSAGE", "{oom21}")),
    _fixture("recovery_restart", "box", V3, _BOX),
    _fixture("recovery_restart", "json", JSON, _LOAD.replace("MESSAGE", "{oom}")),
    _fixture("recovery_restart", "shards", V3, _LOAD.replace("MESSAGE", "{oom}"), 2),
    _fixture("not_oom_illegal_access", "v3", V3, _step("Decode", _GENERATE + "| RuntimeError: CUDA error: an illegal memory access was encountered", "CUDA error: an illegal memory access was encountered")),
    _fixture("healthy", "v1", V1, ""),
    _fixture("healthy", "json", JSON, ""),
)  # fmt: skip
