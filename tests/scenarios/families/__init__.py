"""Labelled logs of the engine families: stories told in each family's words. See `stories` and `dialect`.

Which class a family cannot show, and why: `CANNOT`. Those families have look-alikes of it instead.
"""

from tests.scenarios.families import (
    llama_cpp,
    lmdeploy,
    ollama,
    sglang,
    tensorrt_llm_cpp,
    tensorrt_llm_pytorch,
    tgi,
    transformers,
    vllm,
)
from tests.scenarios.families.dialect import Fixture
from tests.scenarios.families.stories import STORIES
from tests.scenarios.families.teller import Teller
from tests.scenarios.labels import Label

CANNOT: dict[tuple[str, str], str] = {
    ("llama_cpp", "fragmentation"): "weights, KV and compute buffers are each allocated once; no message tells a cache",
}
"""(family, class): why no log of that family can show it."""

_FAMILIES = (vllm, sglang, tensorrt_llm_cpp, tensorrt_llm_pytorch, llama_cpp, ollama, tgi, lmdeploy, transformers)


def fixtures() -> list[Fixture]:
    """All, family by family."""
    return [fixture for family in _FAMILIES for fixture in family.FIXTURES]


def label_of(fixture: Fixture) -> Label:
    """What triage should say of it."""
    return fixture.label or STORIES[fixture.story][0]


def render(fixture: Fixture, seed: int = 0) -> str:
    r"""The log's text, lines ended by `\n`; deterministic."""
    teller = Teller(fixture, seed)
    STORIES[fixture.story][1](teller)
    return teller.text()
