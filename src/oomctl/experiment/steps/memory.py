"""Steps on memory without load: before and after loading, after warming, and the KV pool against the ledger."""

from collections.abc import Sequence

import msgspec

from oomctl.analyzers.capacity.experiment.observed import Look
from oomctl.analyzers.capacity.pool import USUAL_BLOCK_TOKENS
from oomctl.experiment.life import Life
from oomctl.experiment.load.calls import Call, plan
from oomctl.experiment.predicted import ledger_of
from oomctl.experiment.recorded import recording
from oomctl.experiment.rig import NotPossible, Rig
from oomctl.experiment.server import visible_devices
from oomctl.experiment.steps.base import Figures, Outcome
from oomctl.experiment.watch import DeviceMemory
from oomctl.schemas import whole

USUAL_SEQUENCES = 64
LEAST_GAP_S = 0.5
"""Between two warmed batches."""
POOL_SHARE = 0.5
"""Of the KV pool, what the largest warmed batch may hold."""
STILL = 0.005
"""Of all memory: growth in a second round of the same shapes below it is none."""
CAPTURES = "SELECT count(*) FILTER (mode IS DISTINCT FROM 'eager') FROM graph GROUP BY source"
LEDGER = "ledger.json"
CLOSE = 0.01
"""As near a measured pool has to be to the predicted one: a block, or this share."""


def snapshots(rig: Rig) -> Outcome:
    """Start the worker, and read device and host before and after."""
    before = DeviceMemory(visible_devices(rig.settings.launch or ""))()
    life = rig.up()
    after = life.watch.look()
    figures: Figures = {"ready_s": life.ready_s, **{f"{name}_before": size for name, size in before.items()}}
    for place in ("device", "host"):
        left = getattr(after, f"{place}_free_bytes") if after is not None else None
        free = before.get(f"{place}_free_bytes")
        figures[f"{place}_free_bytes_after"] = left
        figures[f"{place}_taken_bytes"] = None if left is None or free is None else free - left
    return Outcome("passed", "", figures)


def warm_up(rig: Rig) -> Outcome:
    """Batches of every size that is captured, and prompts up to the longest, twice: the second round must take nothing."""
    look = rig.life.quiet()
    lengths = rig.lengths["short"]
    prompt, output = lengths.pairs[0]
    most = _most_sequences(rig)
    if look is not None and look.total_blocks:
        most = max(1, min(most, int(look.total_blocks * POOL_SHARE) // max(_blocks(rig, prompt + output), 1)))
    sizes = sorted({*(1 << power for power in range(most.bit_length())), most})
    longest = max(rig.lengths["mixed"].pairs, key=lambda pair: pair[0])[0]
    tries, used = [], []
    for round_ in (0, 1):
        calls = _batches(rig, sizes, prompt, output, longest, round_)
        tries.append(rig.send(lengths, len(calls) / calls[-1].due_s, calls=calls, name="warm-up"))
        used.append(rig.life.quiet())
        if rig.gone or tries[-1].stopped_in_s is not None:
            return Outcome("aborted", tries[-1].reason, {"batches": len(sizes)}, tries)
        if tries[-1].failed:
            said = f"{tries[-1].failed} of {tries[-1].requests} answers failed"
            return Outcome("failed", said, {"batches": len(sizes)}, tries)
    figures: Figures = {"largest_batch": sizes[-1], "batches": len(sizes), "longest_prompt_tokens": longest}
    figures["captured_graphs"] = _captured(rig.life)
    grown = {}
    for place in ("device", "host"):
        total, free = (_first(used, f"{place}_{what}_bytes") for what in ("total", "free"))
        if total and len(free) > 1:
            grown[place] = free[0] - free[1]
            figures[f"{place}_grown_bytes"] = grown[place]
            figures[f"{place}_free_bytes_after"] = free[1]
            # A CPU worker's host is everybody's: what others take in that time is not told apart.
            if place == "device" and grown[place] > total[0] * STILL:
                return Outcome(
                    "failed", f"{grown[place] >> 20} MiB more in a second round of the same shapes", figures, tries
                )
    return Outcome("passed", "", figures, tries)


def pool(rig: Rig) -> Outcome:
    """The blocks that the engine tells of, beside those that the ledger predicts."""
    look = rig.life.watch.look()
    measured = look.total_blocks if look is not None else None
    tokens = rig.argument("block_size")
    figures: Figures = {"measured_blocks": measured, "block_tokens": tokens}
    if measured is None:
        raise NotPossible("the page of metrics tells no KV blocks")
    ledger, why = ledger_of(rig.settings.ledger, rig.settings.launch, rig.life.recorder.recording)
    if ledger is None or ledger.pool is None:
        return Outcome("skipped", why or "the ledger predicts no KV pool", figures)
    whole.write(rig.folder.root / LEDGER, msgspec.json.encode(ledger) + b"\n")
    rig.experiment.ledger = LEDGER
    predicted = ledger.pool.blocks
    figures |= {"predicted_blocks": predicted, "off_blocks": measured - predicted}
    if abs(measured - predicted) <= max(1, predicted * CLOSE):
        return Outcome("passed", "", figures)
    return Outcome("failed", f"{measured} blocks, {predicted} predicted", figures)


def _batches(rig: Rig, sizes: list[int], prompt: int, output: int, longest: int, seed: int) -> list[Call]:
    """Each batch at once, one after the other; then the longest prompt alone."""
    shape = type(rig.lengths["short"])
    slo = rig.terms.slo
    # So that one batch is done before the next, where answers are about good; with an SLO of minutes that would take hours.
    gap_s = min(max(LEAST_GAP_S, slo.ttft_s / 4 + slo.tpot_s * output), max(LEAST_GAP_S, rig.settings.try_s / 2))
    calls = []
    for place, size in enumerate(sizes):
        batch = plan(shape("warm-up", [(prompt, output)]), size, 1.0, seed * 1000 + place)
        calls += [Call(place * gap_s, call.prompt, call.output_tokens) for call in batch]
    last = plan(shape("warm-up", [(longest, 1)]), 1, 1.0, seed * 1000 + len(sizes))
    return [*calls, Call(len(sizes) * gap_s, last[0].prompt, 1)]


def _most_sequences(rig: Rig) -> int:
    return rig.argument("max_num_seqs") or USUAL_SEQUENCES


def _blocks(rig: Rig, tokens: int) -> int:
    return -(-tokens // (rig.argument("block_size") or USUAL_BLOCK_TOKENS))


def _captured(life: Life) -> int | None:
    """Graph captures, as the agent or else the log told of them; an engine that said that it captures none has 0."""
    with recording(life.recorder.recording) as connection:
        rows = connection.execute(CAPTURES).fetchall() if connection is not None else []
    return max((int(count) for (count,) in rows), default=None)


def _first(looks: Sequence[Look | None], name: str) -> list[int]:
    return [value for look in looks if (value := getattr(look, name, None)) is not None]
