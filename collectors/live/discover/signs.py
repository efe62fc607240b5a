"""How an engine's processes are told by their command lines, one line each."""

from dataclasses import dataclass

from oomctl.collectors.artifacts.logs.pattern import Pattern


@dataclass(frozen=True)
class Sign:
    """A kind of process.

    Attributes:
        engine: Whose.
        part: server (it listens, and the others are its children) or worker (it is nothing without its server).
        pattern: Found in the command line, arguments joined by blanks.
    """

    engine: str
    part: str
    pattern: Pattern


def _sign(engine: str, part: str, pattern: str) -> Sign:
    return Sign(engine, part, Pattern(pattern))


SIGNS = (
    # Titles that engines give themselves come before command lines: a title replaces the whole line.
    _sign("vllm", "worker", r"^VLLM::(?:EngineCore|Worker|DPCoordinator)"),
    _sign("vllm", "server", r"^VLLM::(?:APIServer|DPSupervisor)"),
    _sign("sglang", "worker", r"^sglang::(?:scheduler|detokenizer|data_parallel_controller)"),
    _sign("sglang", "server", r"^sglang::(?:server|http_server|tokenizer)"),
    _sign("vllm", "worker", r"^ray::(?:RayWorkerWrapper|EngineCore)"),
    _sign("vllm", "server", r"(?:^|[ /])vllm serve(?: |$)|[ .]vllm\.entrypoints\.\S*api_server|-m vllm\.entrypoints"),
    _sign("sglang", "server", r"-m sglang\.launch_server|(?:^|[ /])sglang serve(?: |$)"),
    _sign("trtllm", "server", r"(?:^|[ /])trtllm-serve(?: |$)"),
    _sign("trtllm", "worker", r"(?:^|[ /])trtllm-llmapi-launch(?: |$)|mpi4py\S* .*tensorrt_llm"),
    _sign("triton", "server", r"(?:^|/)tritonserver(?: |$)"),
    _sign("triton", "worker", r"(?:^|/)(?:triton_python_backend_stub|trtllmExecutorWorker)(?: |$)"),
    _sign("tgi", "server", r"(?:^|/)text-generation-(?:launcher|router)(?: |$)"),
    _sign("tgi", "worker", r"(?:^|/)text-generation-server(?: |$)"),
    _sign("lmdeploy", "server", r"(?:^|[ /])lmdeploy serve(?: |$)|-m lmdeploy\.serve"),
    _sign("llamacpp", "server", r"(?:^|/)llama-server(?: |$)"),
    _sign("ollama", "server", r"(?:^|/)ollama serve(?: |$)"),
    _sign("ollama", "worker", r"(?:^|/)ollama(?:_llama_server)? runner(?: |$)|(?:^|/)ollama_llama_server(?: |$)"),
    _sign("dynamo", "server", r"-m dynamo\.(?:vllm|sglang|trtllm)(?: |$)"),
)


def sign_of(command: str) -> Sign | None:
    """What a command line tells, or None: most processes are no engine's."""
    return next((sign for sign in SIGNS if sign.pattern.search(command)), None)
