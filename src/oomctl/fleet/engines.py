"""Who judges the units: processes of this machine, or tasks of a Ray cluster. Both give the same; the order may differ.

A unit whose process dies (killed for its memory, or by a defect of a library) is judged once more, alone, so that no other
unit is blamed for it; then it is given up and counted.
"""

import importlib
import logging
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any

from oomctl.fleet.judge import Finding, failed
from oomctl.fleet.units import Unit
from oomctl.schemas.errors import ExitCode, OomctlError

Judge = Callable[[Unit], list[Finding]]
Judged = Iterator[tuple[Unit, list[Finding]]]

DIED = "its process died, twice"
AHEAD = 4
"""Units that wait for each process."""


def local(units: Iterable[Unit], judge: Judge, jobs: int | None = None) -> Judged:
    """Judge units in processes of this machine.

    Args:
        units: Taken as processes become free.
        judge: Must be importable.
        jobs: Processes; None for one per core.
    """
    count = jobs or _cores()
    waiting = iter(units)
    while True:
        suspects: list[Unit] = []
        yield from _pooled(waiting, judge, count, suspects)
        for unit in suspects:
            again: list[Unit] = []
            yield from _pooled(iter([unit]), judge, 1, again)
            yield from ((each, failed(each, DIED)) for each in again)
        if not suspects:
            return


def _pooled(units: Iterator[Unit], judge: Judge, jobs: int, suspects: list[Unit]) -> Judged:
    """Judge until there are no more units, or a process dies; `suspects` takes those that were not judged by then."""
    # Not a fork: threads of an object store's client would hang in the child.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        running: dict[Future[list[Finding]], Unit] = {}
        try:
            while True:
                for unit in islice(units, jobs * AHEAD - len(running)):
                    suspects.append(unit)
                    running[pool.submit(judge, unit)] = unit
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    found = future.result()
                    unit = running.pop(future)
                    suspects.remove(unit)
                    yield unit, found
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
    try:
        task = api.remote(num_cpus=1, max_retries=1)(judge)
        room = max(int(api.cluster_resources().get("CPU", 1)), 1) * AHEAD
        waiting = iter(units)
        running: dict[Any, Unit] = {}
        while True:
            for unit in islice(waiting, room - len(running)):
                running[task.remote(unit)] = unit
            if not running:
                return
            done, _ = api.wait(list(running), num_returns=1)
            for reference in done:
                unit = running.pop(reference)
                try:
                    found = api.get(reference)
                except api.exceptions.WorkerCrashedError:
                    found = failed(unit, DIED)
                except api.exceptions.OutOfMemoryError:
                    found = failed(unit, DIED)
                yield unit, found
    finally:
        api.shutdown()


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
