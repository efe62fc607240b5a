"""A draft model beside the one that is served: its tensors on a rank, and what it shares with the other."""

from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.shape import Attention, ModelShape
from oomctl.analyzers.ledger.weights import Tensor, rank_tensors

OWNER = "draft model"
_EAGLE, _EAGLE3 = "eagle", "eagle3"
STATES_JOINED = 3
"""Hidden states of the served model that EAGLE-3 reads; EAGLE reads the last one, and the token."""


def draft_tensors(draft: ModelShape, served: ModelShape, engine: Engine) -> list[Tensor]:
    """Every tensor of a draft model on the rank that samples, split like the served model's.

    EAGLE's drafts use the served model's embedding, and its head unless they have a vocabulary of their own; a matrix joins
    what they read. EAGLE-3's attention reads token and state side by side. Source: vLLM model_executor/models
    (llama_eagle.py, llama_eagle3.py) and v1/spec_decode/eagle.py, `load_model`.
    """
    alone = Engine(
        name=engine.name, version=engine.version, tensor_parallel=engine.tensor_parallel, dtype_bytes=engine.dtype_bytes
    )
    own = rank_tensors(draft, alone)
    kind = draft.architecture.lower()
    if _EAGLE not in kind:
        return [Tensor(OWNER, tensor.bytes, tensor.scratch) for tensor in own]
    element = engine.dtype_bytes or draft.element_bytes
    keeps_head = _EAGLE3 in kind and draft.vocabulary != served.vocabulary
    found = [
        Tensor(OWNER, tensor.bytes, tensor.scratch)
        for tensor in own
        if tensor.owner != "embedding" and (tensor.owner != "head" or keeps_head)
    ]
    joined = STATES_JOINED * served.hidden if _EAGLE3 in kind else 2 * draft.hidden
    found.append(Tensor(OWNER, joined * draft.hidden * element))
    if _EAGLE3 in kind:
        for layer in draft.layers:
            if isinstance(layer.mixer, Attention):
                found.append(Tensor(OWNER, _second_half(layer.mixer, draft.hidden, engine) * element))
        found.append(Tensor(OWNER, draft.hidden * element))
    if keeps_head:
        found.append(Tensor(OWNER, draft.vocabulary * 8))
    return found


def _second_half(own: Attention, hidden: int, engine: Engine) -> int:
    """Elements of queries, keys and values for the second half of what EAGLE-3's attention reads."""
    ranks = engine.attention_ranks
    kv_heads = max(own.kv_heads // ranks, 1)
    return (own.heads // ranks * own.head_dim + kv_heads * (own.head_dim + own.value_dim)) * hidden
