"""A deadline application of two processes on containers, against best-effort ones (figures 6-8)."""

import contextlib
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from merkatd.database import bids
from tests.real.applications.site import Containers, containers, heat
from tests.real.host import RealHost, until

PROCESSES, WORK = 2, 400
IDEAL_S = 5.0
"""What the whole work takes with a core for each process, about."""
MOST_S = 400.0
CROWD = 4
TIMES = 4.0
"""The deadline is so many times what the work would take without the crowd."""
_STEP = re.compile(r"step (\d+) ([0-9.]+) s")
_TEMPLATE = """\
name = "heat"

[controller]
kind = "{kind}"
parameters = {{ steps = {steps} }}

[budget]
credits = 50000

[slo]
deadline = "{deadline_s:g}s"

[[cluster]]
name = "ranks"
least = {processes}
initial = {processes}
template = \"\"\"
CPU="1"
VCPU="1"
MEMORY="256"
RUN="{run}"
\"\"\"

[cluster.floor]
memory = 256

[cluster.monitor]
kind = "steps"
parameters = {{ log = "{folder}/run.log", status = "{folder}/status", every_s = 1.0 }}
"""


@pytest.fixture(scope="module")
def step_s(tmp_path_factory: pytest.TempPathFactory) -> float:
    """CPU time of one step of one process, whatever else this machine does."""
    folder, steps = tmp_path_factory.mktemp("heat"), 20
    words = [sys.executable, "-m", "tests.real.applications.heat", str(folder)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    both = [
        subprocess.Popen([*words, str(PROCESSES), str(made), str(WORK)], env=environment)
        for made in (steps, steps)
    ]
    assert [one.wait(120.0) for one in both] == [0, 0]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    start_s = 0.25  # of two interpreters with numpy
    return max(used_s - 2 * start_s, 0.1) / steps / PROCESSES


@pytest.fixture
def site(
    mortal_hosts: list[RealHost], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Containers]:
    """One host of two cores."""
    with containers(
        tmp_path_factory.mktemp("s"), mortal_hosts[0], cores=2, memory_mib=4096
    ) as found:
        yield found


class Run:
    """A platform that computes, and what its log says."""

    def __init__(self, site: Containers, step_s: float, deadline_s: float) -> None:
        self.site = site
        self.folder = site.folder(f"heat-{deadline_s:g}")
        self.steps = max(20, int(IDEAL_S / step_s))
        self.began_s = time.monotonic()
        self.id = site.submit(
            site.tenant("ann"),
            _TEMPLATE.format(
                kind="deadline",
                steps=self.steps,
                deadline_s=deadline_s,
                processes=PROCESSES,
                run=heat(self.folder, PROCESSES, self.steps, WORK),
                folder=self.folder,
            ),
        )

    @property
    def made(self) -> list[tuple[int, float]]:
        """Each step and what it took."""
        log = self.folder / "run.log"
        said = log.read_text() if log.exists() else ""
        return [(int(step), float(took)) for step, took in _STEP.findall(said)]

    @property
    def state(self) -> str:
        """Of the platform."""
        return self.site.platform(self.id).state

    @property
    def bid(self) -> float:
        """What its VMs bid for CPU, all together."""
        found = self.site.read(lambda connection: bids.current(connection, (0, 1)))
        return sum(one.bid.get("cpu", 0.0) for one in found.values())

    def until(self, met: Callable[[], object], what: str) -> None:
        """Wait for a condition, for as long as the platform runs."""
        until(lambda: met() or self.state in {"done", "failed"}, what, patience_s=MOST_S)
        assert met(), f"{what}: {self.told()}"

    def until_made(self, steps: int) -> None:
        """Wait for so many steps."""
        until(
            lambda: self.state in {"done", "failed"} or (self.made or [(0, 0.0)])[-1][0] >= steps,
            f"step {steps}: {self.site.failed} {self.site.said()[-3000:]}",
            patience_s=MOST_S,
        )

    def finished(self) -> str:
        """How it ended."""
        until(
            lambda: self.state in {"done", "failed", "cancelled"},
            f"the end: {self.site.platform(self.id)}",
            patience_s=MOST_S,
        )
        return self.state

    def told(self) -> str:
        """What a failed test is to show."""
        report = self.site.platform(self.id).report
        return f"{self.made[-3:]} of {self.steps}\n{self.shown()}\n{report}"

    def shown(self) -> str:
        """The one screen."""
        return self.site.command("platform", "show", str(self.id))


def test_a_deadline_is_met_while_others_compete(site: Containers, step_s: float) -> None:
    """Relaxed at first, it costs little and is slow; with less time it bids more, and makes it."""
    run = Run(site, step_s, deadline_s=900.0)
    run.until_made(20)
    alone_s = statistics.median(took for _, took in run.made)
    for _ in range(CROWD):
        site.burning(10.0)
    run.until(lambda: run.bid > 0.0, "a bid against the crowd")
    site.after_periods(10)
    run.until(lambda: "iterations" in run.shown(), "a look of its monitor")
    relaxed = run.bid
    left = run.steps - run.made[-1][0]
    seconds = max(60.0, TIMES * alone_s * left)
    site.command("platform", "update", str(run.id), "--deadline", f"{seconds:.0f}s")
    run.until(lambda: run.bid > relaxed, "a higher bid")
    run.until(lambda: "On track" in run.shown(), "it is on track")
    assert run.finished() == "done", run.told()
    assert [step for step, _ in run.made] == list(range(1, run.steps + 1))


def test_it_goes_on_whoever_is_killed(site: Containers, step_s: float) -> None:
    """Controller, monitor and a VM in mid-run: each comes again, and no step is left out."""
    run = Run(site, step_s, deadline_s=900.0)
    run.until_made(run.steps // 10)
    before = site.platform(run.id).memory
    for role in ("controller", "monitor"):
        _killed(role)
    assert before is not None
    victim = min(site.guests.there)
    site.call("one.vm.action", "terminate-hard", victim)
    made = run.made[-1][0]
    run.until_made(made + run.steps // 10)
    ended = run.finished()
    assert ended == "done", run.told()
    assert {step for step, _ in run.made} == set(range(1, run.steps + 1))


def _killed(role: str) -> None:
    """And started again by the daemon."""
    pid = _process(role)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: _process(role) not in {None, pid}, f"another {role}", patience_s=60.0)


def _process(role: str) -> int | None:
    """The id of the process that runs a controller or monitor here."""
    wanted = f"controllers\0{role}\0".encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if wanted in path.read_bytes():
                return int(path.parent.name)
    return None
