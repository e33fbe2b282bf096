"""Sweeps on a real Dask cluster: a scheduler and two workers as processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path

import pytest

from simulator.experiments.experiment import (
    Experiment,
    ExperimentOptions,
    ExperimentReport,
    Row,
    Rows,
    Task,
)
from simulator.sweep import cluster, sweep

pytest.importorskip("distributed")

OPTIONS = ExperimentOptions(seeds=12)
ROOT = Path(__file__).parents[2]
_DEADLINE_S = 60.0

pytestmark = pytest.mark.filterwarnings("default")


def tasks(options: ExperimentOptions) -> Sequence[Task]:
    """Return a task for each seed."""
    return [Task("one", 1.0, seed) for seed in range(options.seeds)]


def measure(task: Task, _options: ExperimentOptions) -> Row:
    """Return the seed and its root, after a while."""
    time.sleep(0.1)
    return {"seed": float(task.seed), "root": task.seed**0.5}


def measure_in_process(task: Task, options: ExperimentOptions) -> Row:
    """Return the id of this process, too."""
    return {**measure(task, options), "process": float(os.getpid())}


def report(_rows: Rows, _options: ExperimentOptions) -> ExperimentReport:
    """Return an empty report."""
    return ExperimentReport((), ())


class DaskCluster:
    """A scheduler and two workers, which end with the test however it ends."""

    def __init__(self, folder: Path, processes: ExitStack) -> None:
        self._folder, self._processes = folder, processes
        self.file = folder / "scheduler.json"
        self.start("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        self.workers = [
            self.start("dask_worker", "--no-nanny", "--nthreads", "1", "--no-dashboard")
            for _ in range(2)
        ]

    def start(self, module: str, *words: str) -> subprocess.Popen[bytes]:
        """Start a program of Dask in a group of its own."""
        words = (*words, "--scheduler-file", str(self.file))
        log = self._processes.enter_context((self._folder / f"{module}.log").open("ab"))
        if module == "dask_worker":
            words = (*words, "--local-directory", str(self._folder))
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{module}", *words],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        self._processes.callback(end, process)
        return process

    @cached_property
    def address(self) -> str:
        """Return the scheduler's address, once both workers are there."""
        from distributed import Client  # noqa: PLC0415 - may be absent

        deadline = time.monotonic() + _DEADLINE_S
        while not self.file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with Client(scheduler_file=str(self.file)) as client:
            client.wait_for_workers(2, timeout=_DEADLINE_S)
            address: str = client.scheduler.address
            return address


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process with all that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[DaskCluster]:
    """Start a scheduler and two workers."""
    with ExitStack() as processes:
        yield DaskCluster(tmp_path, processes)


def run_on(dask: DaskCluster, file: Path) -> set[int]:
    """Run tasks on the cluster; return the workers that ran some."""
    experiment = Experiment("processes", "", tasks, measure_in_process, report)
    with cluster(dask.address) as pool:
        rows = sweep(experiment, OPTIONS, file, pool)
    return {int(row["process"]) for row in rows.values()}


def test_a_worker_that_is_killed_changes_no_row(dask: DaskCluster, tmp_path: Path) -> None:
    """Both workers run tasks; after the kill of one the other one runs its tasks again."""
    experiment = Experiment("roots", "", tasks, measure, report)
    with ThreadPoolExecutor(4) as threads:
        local = sweep(experiment, OPTIONS, tmp_path / "local.jsonl", threads)
    assert run_on(dask, tmp_path / "before.jsonl") == {worker.pid for worker in dask.workers}
    killed_at: list[int] = []

    def kill(done: int, _of: int, _left_s: float) -> None:
        if done == 4:
            end(dask.workers[0])
            killed_at.append(done)

    with cluster(dask.address) as pool:
        rows = sweep(experiment, OPTIONS, tmp_path / "cluster.jsonl", pool, kill)
    assert killed_at == [4]
    assert rows == local
    assert list(rows) == list(local)
    assert run_on(dask, tmp_path / "after.jsonl") == {dask.workers[1].pid}


CENTER = """
name = "small"
systems = ["first-fit", "tabu"]
seeds = 4
span = "1h"
[[hosts]]
count = 6
cores = 8
memory_mib = 65536
[[workload]]
requests = 60
"""


def test_no_run_of_a_scenario_file_is_lost_with_a_worker(
    dask: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`merkatd experiment run FILE --cluster ADDRESS` while a worker is killed: the same rows."""
    (tmp_path / "small.toml").write_text(CENTER)
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-m", "merkatd.cli", "experiment", "run", "small.toml"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
    local = subprocess.run(
        [*command, "--output", "local", "--processes", "1"],
        env=environment,
        check=True,
        timeout=600,
    )
    assert local.returncode == 0
    address, rows = dask.address, tmp_path / "cluster" / "small"
    with (tmp_path / "run.log").open("wb") as log:
        run = subprocess.Popen(
            [*command, "--output", "cluster", "--cluster", address],
            env=environment,
            stdout=log,
            stderr=log,
        )
        try:
            deadline = time.monotonic() + 10 * _DEADLINE_S
            while run.poll() is None and not any(rows.glob("*.jsonl")):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert run.poll() is None, "a worker is killed while runs are missing"
            end(dask.workers[0])
            assert run.wait(timeout=600) == 0, (tmp_path / "run.log").read_text()
        finally:
            run.kill()
            run.wait()
    assert (rows / "columns.csv").read_text() == (
        tmp_path / "local" / "small" / "columns.csv"
    ).read_text()
    assert not (rows / "failure.txt").exists()
