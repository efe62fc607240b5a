"""Plots of a server that was ready: prefill, decode, fragmentation, their look-alikes, and health."""

from tests.scenarios.entries import Background, Fact
from tests.scenarios.render_sglang import SglangWriter
from tests.scenarios.writer import Writer

CALM = Background()
SMALL_STEPS = Background(prefill_tokens=(32, 256))


def long_prompt(w: Writer) -> None:
    """A prompt far longer than any before fills a whole chunk while little of the KV pool is used."""
    f = w.figures
    f.chunk_tokens = f.random.choice((16_384, 32_768))
    w.up()
    w.fill(SMALL_STEPS)
    for tenths in (120, 140, 170):
        w.report(tenths + f.between(0, 20), f.between(2, 5), prompt=300.0)
    w.prefill(f.chunk_tokens, 210, 3)
    w.fail("forward", f.shortage((0.015, 0.04), (0.3, 0.9), (0.05, 0.6), pools=True), step_tokens=f.chunk_tokens)


def looks_fragmented(w: Writer) -> None:
    """As `long_prompt`, and the allocator's cache would hold the request: but this shape never succeeded before."""
    f = w.figures
    f.chunk_tokens = f.random.choice((16_384, 32_768))
    w.up()
    w.fill(SMALL_STEPS)
    for tenths in (90, 100, 118):
        w.report(tenths + f.between(0, 20), f.between(2, 5), prompt=5_000.0)
    w.prefill(f.chunk_tokens, 150, 3)
    w.fail("forward", f.shortage((0.015, 0.03), (0.3, 0.8), (1.3, 2.2), pools=True), step_tokens=f.chunk_tokens)


def _churn(w: Writer, sizes: tuple[float, ...], failing: float) -> None:
    """Batches of shares of a chunk succeed, then one of a share that had succeeded fails beside a large cache."""
    f = w.figures
    f.chunk_tokens = 8_192
    w.up()
    w.fill(Background(usage_tenths=(250, 420), prefill_tokens=(1_024, 4_096)))
    for share in sizes:
        w.prefill(round(f.chunk_tokens * share), 350 + f.between(0, 60), f.between(3, 8))
        w.report(360 + f.between(0, 60), f.between(3, 8), prompt=f.chunk_tokens / 10)
    tokens = round(f.chunk_tokens * failing)
    w.prefill(tokens, 380, 4)
    w.fail("forward", f.shortage((0.012, 0.03), (0.3, 0.95), (1.4, 3.5)), step_tokens=tokens)


def same_shape(w: Writer) -> None:
    """The same batch shape succeeded several times; the cache holds more than the request, in pieces."""
    _churn(w, (1.0,) * w.figures.between(3, 6), 1.0)


def after_larger(w: Writer) -> None:
    """Larger batches succeeded before; a smaller one fails beside a large cache."""
    _churn(w, (0.9, 1.0, 0.8, 1.0), 0.5)


def _ramp(w: Writer, start: int, top: int, running: int, waiting: int = 0) -> None:
    step = w.figures.between(14, 24)
    for tenths in range(start, top, step):
        w.report(tenths, running, waiting, generation=running * 40.0)
    w.report(top, running, waiting, generation=running * 40.0)


def preemption_storm(w: Writer) -> None:
    """KV usage climbs to the top and the scheduler preempts, again and again; the server goes on."""
    f = w.figures
    w.up()
    w.fill(Background(usage_tenths=(300, 600), running=(20, 40)))
    running = f.between(40, 90)
    _ramp(w, 880, 990, running, 3)
    for number in range(f.between(4, 8)):
        w.report(990 + f.between(0, 9), running - 4 * number, 6 + 4 * number, prompt=900.0, preempted=f.between(2, 9))
    for tenths in (910, 820, 700):
        w.report(tenths, running // 2, 2)


def retractions(w: Writer) -> None:
    """SGLang retracts requests as the pool runs full; the server goes on."""
    f = w.figures
    w.up()
    w.fill(Background(usage_tenths=(300, 600), running=(20, 40)))
    running = f.between(40, 90)
    _ramp(w, 880, 990, running, 3)
    assert isinstance(w, SglangWriter)
    for number in range(f.between(3, 7)):
        w.retract(f.between(1, 6), f.between(90, 4_000))
        w.report(970 + f.between(0, 20), running - 3 * number, 5 + 3 * number, generation=600.0)
    w.report(850, running // 2, 4)
    w.report(720, running // 2, 0)


def decode_exhausted(w: Writer) -> None:
    """After retractions a decode step finds no block, and the scheduler dies."""
    f = w.figures
    w.up()
    w.fill(Background(usage_tenths=(300, 600), running=(20, 40)))
    running = f.between(40, 90)
    _ramp(w, 880, 990, running, 8)
    assert isinstance(w, SglangWriter)
    for _ in range(f.between(2, 4)):
        w.retract(f.between(1, 6), f.between(20, 300))
        w.report(990 + f.between(0, 9), running, 12)
    there = f.between(0, running // 3)
    text = f"RuntimeError: Decode out of memory. Try to lower your batch size.\nTry to allocate {running} tokens.\n"
    w.fail("no_blocks_decode", f"{text}Available tokens: {there}\n")


def silent_stall(w: Writer) -> None:
    """No line says preemption: usage sticks at the top, requests wait, prompts are computed again, output collapses."""
    f = w.figures
    w.up()
    w.fill(Background(usage_tenths=(400, 700), running=(8, 8)))
    running = f.between(8, 24)
    _ramp(w, 905, 999, running)
    for number in range(f.between(5, 8)):
        now = running - 1 - number % 3
        generation = running * 40.0 * max(0.25, 0.6 - 0.06 * number)
        w.report(965 + f.between(0, 34), now, running - now, prompt=380.0 + f.between(0, 60), generation=generation)


def block_shortage(w: Writer) -> None:
    """Admitting a long prompt needs more KV blocks than are there: the prefill allocator raises."""
    f = w.figures
    w.up()
    w.fill(CALM)
    tokens = f.chunk_tokens
    w.report(610, 6)
    w.report(640, 6)
    w.prefill(tokens, 660, 6, 1)
    there = tokens * f.between(20, 70) // 100
    text = f"RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate {tokens} tokens.\n"
    w.fail("no_blocks_prefill", f"{text}Available tokens: {there}\n")


def lazy_autotune(w: Writer) -> None:
    """Kernels are tuned in the first request: a warm-up that looks like a prefill."""
    w.up()
    w.fill(Background(serving=False))
    if w.engine == "sglang":
        w.prefill(w.figures.between(40, 900), 2, 0)
    w.fail("autotune", w.figures.shortage((0.003, 0.010), (0.3, 0.9), (0.1, 0.8), pools=True))


def illegal_access(w: Writer) -> None:
    """A kernel reads where it must not: no shortage of anything."""
    w.up()
    w.fill(CALM)
    w.report(230, 5)
    text = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
    text += "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    w.fail("illegal", text + "incorrect.")


def healthy(w: Writer) -> None:
    """Nothing happens."""
    w.up()
    w.fill(CALM)
    for _ in range(4):
        w.report(w.figures.between(150, 400), w.figures.between(2, 9), prompt=200.0)


def healthy_busy(w: Writer) -> None:
    """Much of the pool is used and requests wait, but usage is level, well below the top, and output is steady."""
    f = w.figures
    w.up()
    w.fill(Background(usage_tenths=(760, 860), running=(30, 34), waiting=(1, 6)))
    for number in range(8):
        w.report(
            (840, 852, 838, 846)[number % 4], 32, f.between(1, 6), prompt=1_200.0, generation=1_280.0 + f.between(0, 30)
        )


def healthy_quotes(w: Writer) -> None:
    """A user asks about an out-of-memory message: the quotation is no evidence."""
    f = w.figures
    w.up()
    w.fill(CALM)
    quoted = f.shortage((0.01, 0.02), (0.3, 0.9), (0.1, 0.5)).text(0)
    text = (
        f"Received request chatcmpl-{f.port}: prompt: 'My server died, what now? torch.OutOfMemoryError: {quoted}', "
        "params: SamplingParams(n=1, temperature=0.7, max_tokens=512), prompt_token_ids: None, lora_request: None."
    )
    asked = Fact("request", {"request_id": f"chatcmpl-{f.port}", "event": "arrived"})
    w.say(text, asked, process="api", where="logger.py:39")
    for _ in range(3):
        w.report(f.between(150, 400), f.between(2, 9), prompt=200.0)
