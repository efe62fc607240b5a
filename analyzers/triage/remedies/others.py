"""Settings of the engines that have no module of their own, by class: which one, and in which direction."""

from collections.abc import Iterator

from oomctl.analyzers.triage.case import Case
from oomctl.schemas.verdict import Incident, Remedy

Entry = tuple[str, str]
"""(setting as typed, with its direction; what it is for)."""

_TGI_PREFILL = ("--max-batch-prefill-tokens lower", "Compute fewer prompt tokens in one prefill; the warm-up runs as many.")
_TGI_TOTAL = ("--max-batch-total-tokens lower", "Admit fewer tokens at once: prompts and what they may generate.")
_TGI_FRACTION = ("--cuda-memory-fraction lower", "Leave more of the device outside the KV cache.")
_TGI_INPUT = ("--max-input-tokens lower", "Refuse longer prompts.")

_TRT_KV = ("kv_cache_config.free_gpu_memory_fraction lower", "Give the KV cache a smaller share of what is free.")
_TRT_TOKENS = ("max_num_tokens lower", "Compute fewer tokens in one step.")
_TRT_BATCH = ("max_batch_size lower", "Run fewer requests at once.")

_LMD_CACHE = ("--cache-max-entry-count lower", "Give the KV cache a smaller share of what is free.")
_LMD_BATCH = ("--max-batch-size lower", "Run fewer requests at once.")
_LMD_SESSION = ("--session-len lower", "Allow shorter sessions.")

_LLAMA_LAYERS = ("-ngl lower (--n-gpu-layers)", "Keep fewer layers on the device.")
_LLAMA_CONTEXT = ("-c lower (--ctx-size)", "Allocate a smaller context: its KV cache is taken at the start.")
_LLAMA_KV = ("-ctk q8_0 -ctv q8_0", "Keep the KV cache in 8 bits: about half of 16.")
_LLAMA_UBATCH = (
    "-ub lower, and -b with it (--ubatch-size, --batch-size)",
    "Compute smaller batches: compute buffers grow with them.",
)
_LLAMA_SLOTS = ("-np lower (--parallel)", "Serve fewer slots: they share the context.")

_OLLAMA_MODELS = ("OLLAMA_MAX_LOADED_MODELS=1", "Keep one model loaded at a time.")
_OLLAMA_CONTEXT = ("num_ctx lower", "Allocate a smaller context.")
_OLLAMA_PARALLEL = ("OLLAMA_NUM_PARALLEL=1", "Serve one request at a time: the context is allocated once per slot.")
_OLLAMA_LAYERS = ("num_gpu lower", "Keep fewer layers on the device.")

SETTINGS: dict[str, dict[str, tuple[Entry, ...]]] = {
    "tgi": {
        "load_time": (("--num-shard higher", "Spread the weights over more devices."),),
        "warm_up": (_TGI_PREFILL, _TGI_FRACTION, _TGI_TOTAL),
        "prefill_spike": (_TGI_PREFILL, _TGI_INPUT, _TGI_FRACTION),
        "decode_growth": (_TGI_TOTAL,),
        "recovery": (_TGI_FRACTION,),
        "": (_TGI_FRACTION,),
    },
    "trtllm": {
        "load_time": (("tensor_parallel_size higher", "Spread the weights over more devices."),),
        "warm_up": (_TRT_KV, _TRT_TOKENS, _TRT_BATCH),
        "prefill_spike": (
            _TRT_TOKENS,
            ("gather_context_logits off", "Do not gather logits for every prompt position."),
            _TRT_KV,
        ),
        "decode_growth": (_TRT_BATCH,),
        "recovery": (
            (
                "cache_transceiver_config.max_tokens_in_buffer higher",
                "Make the transfer buffers hold the longest prompt: what does not fit is allocated on top, per request.",
            ),
            _TRT_KV,
        ),
        "": (_TRT_KV,),
    },
    "lmdeploy": {
        "load_time": (("--tp higher", "Spread the weights over more devices."),),
        "warm_up": (_LMD_CACHE, _LMD_BATCH),
        "prefill_spike": (_LMD_CACHE, _LMD_SESSION),
        "decode_growth": (_LMD_BATCH, _LMD_SESSION),
        "recovery": (_LMD_CACHE,),
        "": (_LMD_CACHE,),
    },
    "llamacpp": {
        "load_time": (_LLAMA_LAYERS,),
        "warm_up": (_LLAMA_CONTEXT, _LLAMA_KV, _LLAMA_UBATCH, _LLAMA_LAYERS),
        "prefill_spike": (_LLAMA_UBATCH, _LLAMA_CONTEXT),
        "decode_growth": (_LLAMA_SLOTS, _LLAMA_KV),
        "recovery": (_LLAMA_LAYERS, _LLAMA_CONTEXT),
        "": (_LLAMA_CONTEXT, _LLAMA_LAYERS),
    },
    "ollama": {
        "load_time": (_OLLAMA_LAYERS, _OLLAMA_MODELS, _OLLAMA_CONTEXT),
        "warm_up": (_OLLAMA_CONTEXT, _OLLAMA_PARALLEL, _OLLAMA_MODELS),
        "prefill_spike": (_OLLAMA_CONTEXT, _OLLAMA_PARALLEL),
        "decode_growth": (_OLLAMA_PARALLEL,),
        "recovery": (_OLLAMA_MODELS, _OLLAMA_CONTEXT),
        "": (_OLLAMA_CONTEXT, _OLLAMA_MODELS),
    },
}
"""Per engine and class; the empty class stands for one that is not decided, and for what no other class lists."""


def change(case: Case, incident: Incident) -> Iterator[Remedy]:
    """The settings of the incident's engine for its class."""
    if incident.verdict != "oom" or incident.resource not in ("device", "kv_blocks", "slots"):
        return
    table = SETTINGS.get(incident.engine or "", {})
    if incident.oom_class == "fragmentation":
        return
    for setting, action in table.get(incident.oom_class or "", ()):
        if case.capped and setting == _TGI_FRACTION[0]:
            continue
        yield Remedy(when="change", action=action, setting=setting, short_bytes=incident.short_bytes, quality="estimated")
