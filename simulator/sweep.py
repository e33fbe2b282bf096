"""Sweeps: many independent runs on all cores, resumable, with an estimate of the remaining time.

Each finished run is a line of a file, so a stopped sweep continues where it was. The file's first
line identifies the sweep (options, and a hash of the trace); runs of other sweeps are never mixed
with it. Each line also has the fingerprint of the sources that its row depends on. Rows of other
sources stay in the file and are not used.
"""

import hashlib
import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from threading import Thread

from simulator.experiments.experiment import Experiment, ExperimentOptions, Row, Rows, Task
from simulator.row_sources import fingerprint

Progress = Callable[[int, int, float], None]
"""Function of the number of finished runs, of all runs, and the seconds left."""


class ClusterError(Exception):
    """Raised if no cluster is available or a worker has other sources; the message says more."""


def sweep(
    experiment: Experiment,
    options: ExperimentOptions,
    file: Path,
    pool: Executor,
    progress: Progress = lambda _done, _all, _left_s: None,
    failed: dict[Task, Exception] | None = None,
) -> Rows:
    """Run the missing tasks, and return the rows of all tasks, including stored ones.

    Runs that fail are added to `failed`, and the others go on; without it, the first failure ends
    the sweep. Rows are kept in either case.
    """
    tasks, code = experiment.tasks(options), fingerprint(experiment.measure)
    known = _known(file, options)
    rows = {task: known[task.key, code] for task in tasks if (task.key, code) in known}
    left = [task for task in tasks if task not in rows]
    _begin(file, options, known)
    begin_s = time.monotonic()
    futures = {pool.submit(_measured, experiment.measure, task, options): task for task in left}
    try:
        with file.open("a") as lines:
            for done, (task, future) in enumerate(_finished(futures), start=1):
                error = future.exception()
                if failed is not None and isinstance(error, Exception):
                    failed[task] = error
                else:
                    rows[task] = _row_of(future, code)
                    lines.write(_line(task.key, code, rows[task]))
                    lines.flush()
                over = len(rows) + len(failed or ())
                passed_s = time.monotonic() - begin_s
                progress(over, len(tasks), passed_s / done * (len(left) - done))
    finally:
        for future in futures:
            future.cancel()
    return {task: rows[task] for task in tasks if task in rows}


def _row_of(future: "Future[tuple[Row, str]]", code: str) -> Row:
    """Return the row of a run; raise ClusterError if other sources computed it."""
    row, ran = future.result()
    if ran != code:
        raise ClusterError(
            "a worker runs other sources of Merkat or another numpy or scipy than this"
            f" process (fingerprint {ran}, here {code}); install the same on all"
        )
    return row


def stored(experiment: Experiment, options: ExperimentOptions, file: Path) -> Rows:
    """Return the stored rows of the file, without any run."""
    known, code = _known(file, options), fingerprint(experiment.measure)
    tasks = experiment.tasks(options)
    return {task: known[task.key, code] for task in tasks if (task.key, code) in known}


def outdated(experiment: Experiment, options: ExperimentOptions, file: Path) -> list[Task]:
    """Return the tasks that are stored with rows of other sources only."""
    known, code = _known(file, options), fingerprint(experiment.measure)
    stored_keys = {key for key, _ in known}
    return [
        task
        for task in experiment.tasks(options)
        if task.key in stored_keys and (task.key, code) not in known
    ]


@contextmanager
def local(processes: int | None = None) -> Iterator[Executor]:
    """Provide processes on all cores of this machine."""
    count = processes or os.cpu_count() or 1
    with ProcessPoolExecutor(
        count, get_context("forkserver"), initializer=_end_with, initargs=(os.getpid(),)
    ) as pool:
        yield pool


def _end_with(process: int) -> None:
    """Let this worker end with the given process, which can't end it if it is killed itself."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        os._exit(1)
    Thread(target=_end_once_readable, args=(handle,), daemon=True).start()


def _end_once_readable(handle: int) -> None:
    select.select([handle], [], [])
    os._exit(1)


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """Provide a Dask cluster, or two local workers without an address; raise ClusterError."""
    try:
        from distributed import Client  # noqa: PLC0415 - an optional dependency
    except ImportError:
        raise ClusterError("--cluster needs Dask: pip install 'merkat[cluster]'") from None

    with (
        Client(
            address or None, **({} if address else {"n_workers": 2, "threads_per_worker": 1})
        ) as client,
        client.get_executor() as pool,
    ):
        yield pool


def show(done: int, of: int, left_s: float) -> None:
    """Write the progress as a line that the next one overwrites."""
    sys.stderr.write(f"\r{done} of {of} runs, about {left_s / 60:.0f} min left \x1b[K")
    if done == of:
        sys.stderr.write("\n")
    sys.stderr.flush()


def _measured(
    measure: Callable[[Task, ExperimentOptions], Row], task: Task, options: ExperimentOptions
) -> tuple[Row, str]:
    """Return a row and the fingerprint of the sources of this process, which may be a worker."""
    return measure(task, options), fingerprint(measure)


def _begin(file: Path, options: ExperimentOptions, known: Mapping[tuple[str, str], Row]) -> None:
    """Write the stored rows to a new file: a killed sweep may have left half a line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    lines = (_line(key, code, row) for (key, code), row in known.items())
    fresh.write_text(json.dumps(_heading(options)) + "\n" + "".join(lines))
    fresh.replace(file)


def _line(key: str, code: str, row: Row) -> str:
    return json.dumps({"task": key, "code": code, "row": row}) + "\n"


def _finished(
    futures: dict["Future[tuple[Row, str]]", Task],
) -> Iterator[tuple[Task, "Future[tuple[Row, str]]"]]:
    """Yield tasks with their runs as they end; before a failure, yield all finished ones."""
    left = dict(futures)
    for future in as_completed(futures):
        if future not in left:
            continue
        task = left.pop(future)
        if future.exception() is not None:
            for other, its in list(left.items()):
                if other.done() and not other.cancelled() and other.exception() is None:
                    del left[other]
                    yield its, other
        yield task, future


def _heading(options: ExperimentOptions) -> dict[str, object]:
    heading: dict[str, object] = {"trace": _print(options.trace), "quick": options.quick}
    if options.scenario:
        heading["scenario"] = _print(options.scenario)
    if options.inputs:
        heading["inputs"] = [_print(file) for file in options.inputs]
    return heading


def _print(file: Path | None) -> str | None:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16] if file else None


def _known(file: Path, options: ExperimentOptions) -> dict[tuple[str, str], Row]:
    """Return, by task key and fingerprint, the stored rows of runs with the same options."""
    if not file.exists():
        return {}
    heading, *lines = file.read_text().splitlines() or ["null"]
    if json.loads(heading) != _heading(options):
        return {}
    known: dict[tuple[str, str], Row] = {}
    for line in lines:
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:  # the last line of a sweep that was killed
            continue
        known[entry["task"], entry.get("code", "")] = entry["row"]
    return known
