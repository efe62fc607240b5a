"""How an engine parts a model: layers over pipeline ranks, heads over tensor-parallel ranks, padding to kernels."""

from oomctl.analyzers.ledger.engine import Engine
from oomctl.schemas.errors import ExitCode, OomctlError

LATEST = Engine()
VOCABULARY_PADDING = 64
"""Source: vLLM vocab_parallel_embedding.py, DEFAULT_VOCAB_PADDING_SIZE."""


def stages(layers: int, ranks: int, engine: Engine = LATEST) -> list[range]:
    """The layers of each rank of a pipeline.

    vLLM gives the remainder to the ranks before the last, the latest first; before 0.8 the last rank took it whole, as in
    SGLang before 0.5.6, whose first ranks now take one more each. Source: `get_pp_indices` of vLLM and SGLang
    (distributed/utils.py), vLLM pull request 13839, SGLang pull request 13282.

    >>> [len(stage) for stage in stages(30, 4)]
    [7, 8, 8, 7]
    >>> [len(stage) for stage in stages(30, 4, Engine(version=(0, 7)))]
    [7, 7, 7, 9]
    """
    if ranks > layers:
        raise OomctlError(f"{ranks} pipeline ranks are more than {layers} layers", None, ExitCode.USAGE)
    sizes, rest = [layers // ranks] * ranks, layers % ranks
    if engine.name == "sglang" and engine.version > (0, 5):
        takers = range(rest)
    elif engine.name == "vllm" and engine.version >= (0, 8):
        takers = range(-2, -rest - 2, -1)
    else:
        takers = range(0)
        sizes[-1] += rest
    for taker in takers:
        sizes[taker] += 1
    starts = [sum(sizes[:index]) for index in range(ranks)]
    return [range(start, start + size) for start, size in zip(starts, sizes, strict=True)]


def split(count: int, ranks: int, what: str) -> int:
    """A dimension's share of one rank.

    Raises:
        OomctlError: It does not divide.
    """
    if count % ranks:
        raise OomctlError(f"{what} ({count}) does not divide by {ranks} tensor-parallel ranks", None, ExitCode.USAGE)
    return count // ranks


def kv_heads_per_rank(heads: int, ranks: int) -> int:
    """KV heads that one rank keeps, at least one. Source: vLLM linear.py, QKVParallelLinear.num_kv_head_replicas.

    >>> kv_heads_per_rank(8, 4), kv_heads_per_rank(4, 8)
    (2, 1)
    """
    if (heads % ranks if heads >= ranks else ranks % heads) != 0:
        raise OomctlError(f"{heads} KV heads do not divide over {ranks} tensor-parallel ranks", None, ExitCode.USAGE)
    return max(heads // ranks, 1)
