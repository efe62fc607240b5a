"""Plots that end before the server is ready: load, warm-up, and the gates before them."""

from tests.scenarios import facts
from tests.scenarios.entries import Background, Fact, Value
from tests.scenarios.message import Neighbour, Shortage
from tests.scenarios.printing import MIB, fixed, torch_size
from tests.scenarios.writer import Writer

STARTING = Background(serving=False)


def _begin(w: Writer, **arguments: object) -> None:
    w.start(**arguments)
    w.load()
    w.fill(STARTING)
    w.wait(8, 30)


def staging_copy(w: Writer) -> None:
    """Online quantisation holds the old and the new weights at once."""
    _begin(w, quantization="fp8")
    w.fail("process_weights", w.figures.shortage((0.004, 0.02), (0.2, 0.8), (0.05, 0.4)))


def weights_too_big(w: Writer) -> None:
    """The weights alone do not fit on an otherwise empty device."""
    _begin(w)
    w.fail("create_weights", w.figures.shortage((0.003, 0.012), (0.05, 0.7), (0.02, 0.3)))


def container_pid(w: Writer) -> None:
    """As `staging_copy`, but the driver names the engine itself by a pid that the container does not know."""
    _begin(w, quantization="fp8")
    pid = w.figures.between(400_000, 900_000)
    w.fail("process_weights", w.figures.shortage((0.004, 0.02), (0.2, 0.8), (0.02, 0.3), own_pid=pid))


def foreign_process(w: Writer) -> None:
    """Somebody else holds most of the device."""
    _begin(w)
    other = Neighbour(w.figures.between(400_000, 900_000), w.figures.share(0.55, 0.75))
    w.fail("create_weights", w.figures.shortage((0.003, 0.012), (0.05, 0.7), (0.02, 0.3), neighbours=(other,)))


def capture(w: Writer) -> None:
    """Graphs are captured into what the budget left, and that is too little."""
    w.figures.utilization = w.figures.random.choice((0.97, 0.98))
    w.start()
    w.load()
    w.fill(STARTING)
    w.wait(8, 30)
    w.weights()
    w.wait(8, 20)
    w.cache()
    w.wait(1, 2)
    w.capture(ends=False)
    w.fail("capture", w.figures.shortage((0.002, 0.008), (0.7, 0.95), (0.1, 0.5), pools=True))


def sampler(w: Writer) -> None:
    """The dummy sampler run needs sequences x vocabulary x 4 bytes, after graphs and KV pool."""
    f = w.figures
    f.utilization = 0.95
    f.max_num_seqs = 1024
    # The vocabulary follows the device, so that the request keeps its share; tied to no real model.
    vocabulary = f.share(0.008, 0.012) // (4 * f.max_num_seqs)
    requested = -(-vocabulary * f.max_num_seqs * 4 // (2 * MIB)) * 2 * MIB
    w.start()
    w.load()
    w.fill(STARTING)
    w.wait(8, 20)
    shape = f"Loaded weight lm_head.weight with shape torch.Size([{vocabulary}, 4096])"
    w.say(
        shape,
        *facts.manifest("model", vocab_size=vocabulary),
        process="worker",
        rank=0,
        level="DEBUG",
        where="utils.py:227",
    )
    w.weights()
    w.wait(8, 20)
    w.cache()
    w.capture()
    shortage = Shortage(
        total_bytes=f.device_bytes,
        requested_bytes=requested,
        free_bytes=round(requested * f.random.uniform(0.4, 0.9)),
        cached_bytes=round(requested * f.random.uniform(0.2, 2.0)),
        pool_free_bytes=f.graph_bytes // 3,
        non_torch_bytes=f.non_torch_bytes,
        hint=f.hint,
    )
    wraps = f"RuntimeError: CUDA out of memory occurred when warming up sampler with {f.max_num_seqs} dummy requests. "
    wraps += "Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine."
    w.fail("sampler", shortage, wraps=wraps)


def autotune_survived(w: Writer) -> None:
    """Kernel tuning runs out of memory for some tactics, falls back, and the server starts."""
    w.start()
    w.load()
    w.wait(8, 30)
    w.weights()
    w.wait(8, 20)
    w.cache()
    for _ in range(w.figures.between(2, 6)):
        text = "flashinfer.jit: [Autotuner]: OOM detected, falling back to default tactic"
        fields: dict[str, Value] = {
            "resource": "device",
            "api": "engine",
            "error_type": "autotuner",
            "message": text,
            "fatal": False,
        }
        w.say(text, Fact("oom", fields), process="worker", rank=0, level="WARNING", where="~autotuner.py:1315")
        w.wait(0.5, 1)
    w.capture()
    w.ready()
    w.fill(Background())
    for _ in range(3):
        w.report(w.figures.between(20, 200), w.figures.between(1, 4), prompt=410.0)


def start_gate(w: Writer, owner_pid: int | None = None) -> None:
    """The engine refuses to start: too little is free on the device."""
    f = w.figures
    w.start()
    w.fill(STARTING)
    free, total = fixed(f.share(0.1, 0.4)), fixed(f.device_bytes)
    needed = fixed(f.device_bytes * f.utilization)
    text = (
        f"ValueError: Free memory on device cuda:0 ({free.text[:-4]}/{total.text}) on startup is less than desired GPU "
        f"memory utilization ({f.utilization}, {needed.text}). Decrease GPU memory utilization or reduce GPU memory "
        "used by other processes."
    )
    gate = Fact(
        "refusal",
        {
            "gate": "start_memory",
            "resource": "device",
            "needed_bytes": needed.bytes,
            "available_bytes": free.bytes,
            "total_bytes": total.bytes,
            "resolution_bytes": free.resolution_bytes,
            "message": text,
        },
    )
    w.refuse("start_gate", text, gate)
    if owner_pid is not None:
        used = torch_size(f.device_bytes - free.bytes)
        row: dict[str, Value] = {
            "pid": owner_pid,
            "name": "VLLM::Worker",
            "used_bytes": used.bytes,
            "owner_incarnation": "1",
        }
        w.say("$ nvidia-smi --query-compute-apps=pid,used_memory,name --format=csv,noheader", process="system", level="")
        w.say(f"{owner_pid}, {used.text}, VLLM::Worker", Fact("process", row), process="system", level="", exception=True)


def kv_gate(w: Writer) -> None:
    """The KV pool does not hold one request of the maximum length: refused, nothing failed."""
    f = w.figures
    f.utilization = 0.9
    f.max_model_len = 1_048_576
    f.weights_bytes = f.share(0.76, 0.80)
    w.start()
    w.load()
    w.fill(STARTING)
    w.wait(8, 30)
    w.weights()
    w.wait(8, 20)
    w.profile()
    there, needed = fixed(f.kv_bytes), fixed(f.kv_bytes * f.random.uniform(2, 6))
    longest = max(16, round(f.max_model_len * there.bytes / max(1, needed.bytes)) // 16 * 16)
    text = (
        f"ValueError: To serve at least one request with the model's max seq len ({f.max_model_len}), ({needed.text} "
        f"KV cache is needed, which is larger than the available KV cache memory ({there.text}). Based on the available "
        f"memory, the estimated maximum model length is {longest}. Try increasing `gpu_memory_utilization` or decreasing "
        "`max_model_len` when initializing the engine."
    )
    gate = Fact(
        "refusal",
        {
            "gate": "kv_fits_request",
            "resource": "kv_blocks",
            "needed_bytes": needed.bytes,
            "available_bytes": there.bytes,
            "needed_tokens": f.max_model_len,
            "resolution_bytes": there.resolution_bytes,
            "message": text,
        },
    )
    w.refuse("kv_gate", text, gate)


def host_kill_kernel(w: Writer) -> None:
    """The kernel kills the worker while weights are converted, and says so."""
    f = w.figures
    _begin(w, quantization="fp8")
    pid = f.pid("worker" if f.ranks > 1 else "core")
    w.kernel_kills("VLLM::Worker" if w.engine == "vllm" else "sglang::schedul", pid, f.between(48, 400) * 2**20)
    w.killed("engine exited with code 137")


def host_kill_silent(w: Writer) -> None:
    """The worker is killed while loading; only the shell's word is left."""
    _begin(w)
    w.killed("Killed")
