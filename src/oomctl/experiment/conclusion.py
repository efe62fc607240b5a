"""The operating point, and the limits that admission takes of it."""

from oomctl.analyzers.capacity.experiment.advice import Worker, advise
from oomctl.analyzers.capacity.experiment.breaks import Floors
from oomctl.schemas.experiment import Experiment, Limits, OperatingPoint, Step, Try


def conclude(experiment: Experiment, floors: Floors) -> None:
    """Fill `point` and `limits` with what the steps so far tell.

    Args:
        experiment: Is changed.
        floors: What has to stay.
    """
    found = experiment.step(10)
    rate = _number(found, "rate_per_s")
    kept = next((one for one in found.tries if one.rate_per_s == rate), None) if found is not None else None
    limits = experiment.limits = _limits(experiment, floors, rate, kept)
    worker = Worker(experiment.engine, experiment.engine_version, experiment.arguments, limits.total_blocks)
    if found is not None and rate is not None and kept is not None:
        broken = _number(found, "broken_rate_per_s")
        beyond = next((one for one in found.tries if one.rate_per_s == broken), None)
        experiment.point = OperatingPoint(
            rate_per_s=rate,
            broken_rate_per_s=broken,
            breaks_first=beyond.broke if beyond is not None else None,
            margin_blocks=kept.least_free_blocks,
            margin_device_bytes=kept.least_device_free_bytes,
            margin_host_bytes=kept.least_host_free_bytes,
            advice=None if beyond is None else advise(worker, kept, beyond, experiment.slo),
            share=experiment.share,
        )


def _limits(experiment: Experiment, floors: Floors, rate: float | None, kept: Try | None) -> Limits:
    total, tokens = (_number(experiment.step(3), name) for name in ("measured_blocks", "block_tokens"))
    return Limits(
        total_blocks=None if total is None else int(total),
        block_tokens=None if tokens is None else int(tokens),
        safety_blocks=None if total is None else floors.blocks(int(total)),
        queue_limit=kept.most_waiting if kept is not None else None,
        prefill_tokens_per_s=_number(experiment.step(5), "prefill_tokens_per_s"),
        tpot_s=kept.tpot_s.p50 if kept is not None else None,
        rate_per_s=rate,
    )


def _number(step: Step | None, name: str) -> float | None:
    value = step.figures.get(name) if step is not None else None
    return float(value) if isinstance(value, int | float) else None
