"""Who judges the units: processes of this machine, or tasks of a Ray cluster. Both give the same; the order may differ.

Small units are handed out several at once, for to hand out one may cost more than to judge it. A unit whose process dies
(killed for its memory, or by a defect of a library), and what was handed out with it, is judged once more, alone, so that
no other unit is blamed for it; then it is given up and counted.
"""

import importlib
import logging
import multiprocessing
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import redirect_stdout
from itertools import islice
from typing import Any

from oomctl.fleet.judge import Finding, failed
from oomctl.fleet.units import Unit
from oomctl.schemas.errors import ExitCode, OomctlError

Judge = Callable[[Unit], list[Finding]]
Judged = Iterator[tuple[Unit, list[Finding]]]
Batch = list[Unit]

DIED = "its process died, twice"
AHEAD = 4
"""Batches that wait for each process."""
TOGETHER, TOGETHER_BYTES = 16, 4 << 20
"""Units of a batch at most, and bytes."""


def local(units: Iterable[Unit], judge: Judge, jobs: int | None = None) -> Judged:
    """Judge units in processes of this machine.

    Args:
        units: Taken as processes become free.
        judge: Must be importable.
        jobs: Processes; None for one per core.
    """
    count = jobs or _cores()
    waiting = _batches(units, count * AHEAD)
    while True:
        suspects: list[Unit] = []
        yield from _pooled(waiting, judge, count, AHEAD, suspects)
        if not suspects:
            return
        alone = iter([[unit] for unit in suspects])
        while True:
            again: list[Unit] = []
            yield from _pooled(alone, judge, 1, 1, again)
            if not again:
                break
            yield from ((unit, failed(unit, DIED)) for unit in again)


def _pooled(batches: Iterator[Batch], judge: Judge, jobs: int, ahead: int, suspects: list[Unit]) -> Judged:
    """Judge until there are no more batches, or a process dies; `suspects` takes what was handed out and is not judged."""
    # Not a fork: threads of an object store's client would hang in the child.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        running: dict[Future[list[list[Finding]]], Batch] = {}
        try:
            while True:
                for batch in islice(batches, jobs * ahead - len(running)):
                    suspects += batch
                    running[pool.submit(_each, judge, batch)] = batch
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    found = future.result()
                    batch = running.pop(future)
                    for unit in batch:
                        suspects.remove(unit)
                    yield from zip(batch, found, strict=True)
        except BrokenProcessPool:
            return
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def ray(units: Iterable[Unit], judge: Judge, address: str | None = None, jobs: int | None = None) -> Judged:
    """Judge units as tasks of a Ray cluster, whose nodes have this oomctl and reach the store.

    Args:
        units: Taken as tasks end.
        judge: Must be importable on the nodes.
        address: Of the cluster; None for one on this machine, for as long as it takes.
        jobs: Tasks at once on a cluster of this machine; None for one per core.

    Raises:
        OomctlError: If Ray is not installed, or the cluster cannot be reached.
    """
    with redirect_stdout(sys.stderr):  # Ray tells there of a worker that died; what is printed is ours
        yield from _ray(units, judge, address, jobs)


def _ray(units: Iterable[Unit], judge: Judge, address: str | None, jobs: int | None) -> Judged:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        api: Any = importlib.import_module("ray")
    except ImportError:
        raise OomctlError("Ray is not installed", "pip install 'oomctl[ray]'", ExitCode.ENVIRONMENT) from None
    options: dict[str, Any] = (
        {"address": address} if address else {"num_cpus": jobs or _cores(), "include_dashboard": False}
    )
    try:
        api.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise OomctlError(
            f"no Ray cluster ({address or 'local'}): {reason}", "check --address", ExitCode.ENVIRONMENT
        ) from error
    deaths = (api.exceptions.WorkerCrashedError, api.exceptions.OutOfMemoryError, api.exceptions.NodeDiedError)
    try:
        task = api.remote(num_cpus=1, max_retries=0)(_each)
        room = max(int(api.cluster_resources().get("CPU", 1)), 1) * AHEAD
        waiting = _batches(units, room)
        suspects: deque[Unit] = deque()
        running: dict[Any, tuple[Batch, bool]] = {}
        while True:
            while suspects and len(running) < room:
                unit = [suspects.popleft()]
                running[task.remote(judge, unit)] = unit, True
            for batch in islice(waiting, room - len(running)):
                running[task.remote(judge, batch)] = batch, False
            if not running:
                return
            done, _ = api.wait(list(running), num_returns=1)
            for reference in done:
                batch, alone = running.pop(reference)
                try:
                    found = api.get(reference)
                except deaths:
                    if not alone:
                        suspects += batch
                        continue
                    found = [failed(unit, DIED) for unit in batch]
                yield from zip(batch, found, strict=True)
    finally:
        api.shutdown()


def _batches(units: Iterable[Unit], first: int) -> Iterator[Batch]:
    """Units that are handed out together: the first ones alone, so that a small fleet is shared out too; then more."""
    batch: Batch = []
    sent = size = 0
    for unit in units:
        if batch and (len(batch) >= min(TOGETHER, 1 + sent // first) or size + unit.bytes > TOGETHER_BYTES):
            yield batch
            sent += len(batch)
            batch, size = [], 0
        batch.append(unit)
        size += unit.bytes
    if batch:
        yield batch


def _each(judge: Judge, batch: Batch) -> list[list[Finding]]:
    return [judge(unit) for unit in batch]


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
