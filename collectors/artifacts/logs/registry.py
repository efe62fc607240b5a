"""The engines whose logs are read. A new engine is one module and one line here."""

from oomctl.collectors.artifacts.logs import pytorch, sglang, vllm
from oomctl.collectors.artifacts.logs.fact import EngineReader
from oomctl.collectors.artifacts.logs.headers import HeaderPattern

READERS: tuple[EngineReader, ...] = (vllm, sglang, pytorch)
"""In the order in which they are asked about an exception: engines before the framework."""

HEADERS: tuple[HeaderPattern, ...] = (vllm.HEADER, sglang.HEADER, pytorch.HEADER)
"""In the order in which they are looked for in a line."""
