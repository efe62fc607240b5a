"""What happens in each story, engine-neutral, and the figures that make it so."""

from tests.scenarios.families.teller import Teller
from tests.scenarios.message import Neighbour

CALM = [180, 240, 210, 260]
Span = tuple[float, float]


def _shortage(t: Teller, requested: Span, free: Span, cached: Span, *, pid: int = 0, pools: bool = False) -> None:
    """A failed allocation as in `Figures.shortage`; `pid` holds most of the device."""
    other = (Neighbour(pid, t.figures.share(0.55, 0.75)),) if pid else ()
    found = t.figures.shortage(requested, free, cached, neighbours=other, pools=pools)
    t.shortage(found)
    t.values |= {"other_pid": pid}
    t.sizes(other=sum(each.used_bytes for each in other))


def _starting(t: Teller) -> None:
    t.beat("start")
    t.beat("load")
    t.fill()


def _loaded(t: Teller) -> None:
    _starting(t)
    t.wait(20, 60)
    t.beat("loaded")


def _up(t: Teller) -> None:
    _loaded(t)
    t.beat("cache")
    t.beat("warm")
    t.beat("ready")
    t.serve(CALM[: 1 + t.figures.line_shift % 4], 3)


def _needs(t: Teller, left: int) -> None:
    """One buffer that engines with static buffers ask for at once: more than is left."""
    t.sizes(left=left, buffer=round(left * t.figures.random.uniform(1.1, 1.6)))


def weights(t: Teller) -> None:
    """The weights do not fit on an otherwise empty device."""
    size = round(t.figures.device_bytes * t.figures.random.uniform(1.1, 1.6))
    t.sizes(weights=size, left=t.figures.device_bytes - t.figures.non_torch_bytes, buffer=size)
    _shortage(t, (0.003, 0.012), (0.05, 0.7), (0.02, 0.3))
    _starting(t)
    t.fail()


def neighbour(t: Teller) -> None:
    """Somebody else holds most of the device while the weights are loaded."""
    _shortage(t, (0.003, 0.012), (0.05, 0.7), (0.02, 0.3), pid=t.figures.between(400_000, 900_000))
    size = t.figures.share(0.5, 0.6)
    at_start = t.figures.device_bytes - t.values["other"] - t.figures.non_torch_bytes
    t.sizes(weights=size, buffer=size, at_start=at_start)
    _starting(t)
    t.fail()


def staging(t: Teller) -> None:
    """While loading, converted and original weights are held at once."""
    _shortage(t, (0.004, 0.02), (0.2, 0.8), (0.05, 0.4))
    _starting(t)
    t.fail()


def pool(t: Teller) -> None:
    """The weights are there; the KV pool does not fit beside them."""
    t.sizes(weights=t.figures.share(0.72, 0.8))
    _needs(t, t.figures.device_bytes - t.values["weights"] - t.figures.non_torch_bytes)
    t.pool(t.values["buffer"])
    _shortage(t, (0.02, 0.05), (0.3, 0.9), (0.01, 0.2))
    _loaded(t)
    t.fail()


def warm(t: Teller) -> None:
    """Weights and KV pool are there; what the first run or the captured graphs need is not."""
    t.sizes(weights=t.figures.share(0.6, 0.7))
    left = t.figures.device_bytes - t.values["weights"] - t.figures.non_torch_bytes
    t.pool(round(left * 0.97))
    _needs(t, left - t.values["kv"])
    _shortage(t, (0.002, 0.008), (0.7, 0.95), (0.1, 0.5), pools=True)
    _loaded(t)
    t.beat("cache")
    t.fail()


def warm_survived(t: Teller) -> None:
    """As `warm`, but the engine falls back to something smaller and serves."""
    warm(t)
    t.beat("warm")
    t.beat("ready")
    t.serve(CALM, 3)


def long_prompt(t: Teller) -> None:
    """A large prefill needs more workspace than is left, at a low KV usage."""
    _shortage(t, (0.015, 0.04), (0.3, 0.9), (0.05, 0.6))
    _needs(t, t.values["free"])
    _up(t)
    t.serve([120, 140, 160], 3)
    t.beat("prompt", prompt=t.figures.chunk_tokens, usage=0.17, percent=17.0)
    t.fail()


def looks_fragmented(t: Teller) -> None:
    """As `long_prompt`; the allocator's cache would hold the request, but this shape never ran before."""
    t.figures.chunk_tokens = t.values["chunk"] = t.figures.random.choice((16_384, 32_768))
    _shortage(t, (0.015, 0.03), (0.3, 0.8), (1.3, 2.2))
    _up(t)
    for tokens in (310, 480, 220):
        t.beat("prompt", prompt=tokens)
        t.serve([90], 2)
    t.beat("prompt", prompt=t.figures.chunk_tokens)
    t.fail()


def _ramp(t: Teller, running: int, waiting: int) -> None:
    t.serve(range(860, 1000, t.figures.between(14, 24)), running, waiting)
    t.serve([1000], running, waiting)


def exhausted(t: Teller) -> None:
    """Running requests grow until a decode step finds no KV block, and the engine dies or gives the request up."""
    _up(t)
    _ramp(t, t.figures.between(24, 60), 8)
    t.fail()


def preempting(t: Teller) -> None:
    """KV usage climbs to the top and requests are paused, again and again; the engine goes on."""
    _up(t)
    running = t.figures.between(24, 60)
    _ramp(t, running, 3)
    for number in range(5):
        t.values["paused"] = t.figures.between(2, 7)
        t.usage(985 + number, running - 4 * number, 6 + 4 * number)
        t.fail()
        t.beat("serve", n=t.values["n"] + 1)
    t.values["paused"] = 0
    t.serve([900, 760, 640], running // 2, 0)


def cache_growth(t: Teller) -> None:
    """The KV cache is no pool: each token makes it larger, until an append finds no memory."""
    _shortage(t, (0.001, 0.004), (0.05, 0.9), (0.05, 0.5))
    _up(t)
    t.serve(range(300, 960, 60), 6)
    t.fail()


def same_shape(t: Teller) -> None:
    """The same prompt shape ran several times; the allocator's cache holds more than the request, in pieces."""
    _shortage(t, (0.012, 0.03), (0.3, 0.95), (1.4, 3.5))
    _up(t)
    for _ in range(t.figures.between(3, 5)):
        t.beat("prompt", prompt=t.figures.chunk_tokens)
        t.serve([380], 4)
    t.beat("prompt", prompt=t.figures.chunk_tokens)
    t.fail()


def restart(t: Teller) -> None:
    """The engine starts again while a process of its first life still holds the device."""
    stays = t.figures.first_pid
    _shortage(t, (0.003, 0.012), (0.05, 0.7), (0.02, 0.3), pid=stays)
    t.sizes(weights=t.figures.share(0.5, 0.55))
    _up(t)
    t.beat("stop")
    t.wait(5, 15)
    t.values["pid"] = stays + 1_117
    t.beat("restart", other_pid=stays)
    t.sizes(at_start=t.figures.device_bytes - t.values["other"] - t.figures.non_torch_bytes, buffer=t.values["weights"])
    _starting(t)
    t.fail()


def swap(t: Teller) -> None:
    """Another model, or another version of it, is loaded while the memory of the first is not given back."""
    _shortage(t, (0.003, 0.012), (0.05, 0.7), (0.02, 0.3))
    _up(t)
    held = t.values["weights"] + t.values["kv"]
    t.sizes(at_start=t.figures.device_bytes - held - t.figures.non_torch_bytes, buffer=t.figures.share(0.2, 0.4))
    t.sizes(weights=t.values["buffer"])
    t.beat("stop")
    t.beat("swap", pid=t.figures.first_pid + 577)
    t.fail()


def reload(t: Teller) -> None:
    """New weights are put in the place of the old ones in a running server; both do not fit."""
    _shortage(t, (0.01, 0.04), (0.1, 0.8), (0.05, 0.5), pools=True)
    _up(t)
    t.beat("reload")
    t.fail()


def wake(t: Teller) -> None:
    """The engine slept and gave its memory back; when it wakes, somebody else has it."""
    _shortage(t, (0.02, 0.05), (0.1, 0.8), (0.05, 0.5))
    _up(t)
    t.beat("sleep")
    t.wait(60, 300)
    t.sizes(at_start=t.figures.share(0.1, 0.2), buffer=t.values["weights"])
    t.beat("wake")
    t.fail()


def transfer(t: Teller) -> None:
    """Buffers for KV transfer grow, request by request, until none is left."""
    _up(t)
    for number in range(4):
        t.beat("transfer", n=500 + number, prompt=t.figures.chunk_tokens * (2 + number))
    t.fail()


def refused(t: Teller) -> None:
    """Nothing failed: a start or a request is refused because it would not fit."""
    t.sizes(weights=t.figures.share(1.2, 1.6), left=t.figures.share(0.3, 0.8))
    _starting(t)
    t.fail()


def refused_request(t: Teller) -> None:
    """A running server refuses a request that its KV cache could never hold, and goes on."""
    _up(t)
    t.values["prompt"] = t.values["pool_tokens"] + t.figures.between(500, 9_000)
    t.fail()
    t.serve(CALM, 3)


def illegal(t: Teller) -> None:
    """A kernel reads where it must not: no shortage of anything."""
    _up(t)
    t.fail()


def healthy(t: Teller) -> None:
    """Nothing happens."""
    _up(t)
    t.serve([190, 280, 330, 250, 200, 310], 5)
