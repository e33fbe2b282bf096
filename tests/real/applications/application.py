"""A platform whose VMs compute together, as its tenant sees it: log, bids, state."""

import json
import os
import re
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from merkatd.database.fleets.fleet_store import PLATFORM_VMS
from merkatd.database.scheduler import bid_store
from tests.real.applications.site import Containers, heat
from tests.real.host import until

PROCESSES, WORK = 2, 400
MOST_S = 400.0
CREDITS = 50_000.0
OVER = {"done", "failed", "cancelled"}
_STEP = re.compile(r"step (\d+) ([0-9.]+) s")
_TEMPLATE = """\
name = "heat"

[controller]
kind = "{kind}"
parameters = {{ {parameters} }}

[budget]
credits = {credits:g}

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


def step_s(folder: Path) -> float:
    """Return the CPU time of one step of one process, independent of the machine's load."""
    steps = 20
    words = [sys.executable, "-m", "tests.real.applications.heat", str(folder)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    both = [
        subprocess.Popen([*words, str(PROCESSES), str(made), str(WORK)], env=environment)
        for made in (steps, steps)
    ]
    assert [process.wait(120.0) for process in both] == [0, 0]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    start_s = 0.25  # the start of two interpreters with numpy
    return max(used_s - 2 * start_s, 0.1) / steps / PROCESSES


def made(log: Path) -> list[tuple[int, float]]:
    """Return each step of a log, with its duration."""
    text = log.read_text() if log.exists() else ""
    return [(int(step), float(took)) for step, took in _STEP.findall(text)]


class Run:
    """A platform that computes, and its log."""

    def __init__(
        self,
        site: Containers,
        name: str,
        steps: int,
        deadline_s: float,
        *,
        processes: int = PROCESSES,
        kind: str = "deadline",
        parameters: str = "",
        credits_: float = CREDITS,
    ) -> None:
        """`name` is also the name of its tenant."""
        self.site = site
        self.folder = site.folder(f"heat-{name}")
        self.steps = steps
        self.id = site.submit(
            site.tenant(name),
            _TEMPLATE.format(
                kind=kind,
                parameters=parameters or f"steps = {steps}, off_limit_s = 2",
                credits=credits_,
                deadline_s=deadline_s,
                processes=processes,
                run=heat(self.folder, processes, steps, WORK),
                folder=self.folder,
            ),
        )

    @property
    def made(self) -> list[tuple[int, float]]:
        """Return each step, with its duration."""
        return made(self.folder / "run.log")

    @property
    def state(self) -> str:
        """Return the state of the platform."""
        return self.site.platform(self.id).state

    @property
    def vms(self) -> list[int]:
        """Return the VMs of the platform that are not leaving."""
        members = self.site.read(lambda connection: PLATFORM_VMS.living(connection, self.id))
        return [member.vm for member in members if member.vm is not None and not member.leaving]

    @property
    def bid(self) -> float:
        """Return the sum of its VMs' bids for CPU."""
        vms = self.vms
        newest = self.site.read(lambda connection: bid_store.newest_bids(connection, vms))
        return sum(vm.bid.get("cpu", 0.0) for vm in newest.values())

    @property
    def spent(self) -> float:
        """Return the credits that it has paid."""
        answer = self.site.command("platform", "show", str(self.id), "--json")
        return float(json.loads(answer)["spent"])

    def missed_s(self) -> float:
        """Return how long after the deadline the last step ended; negative if it was before."""
        row = self.site.platform(self.id)
        assert row.deadline_s is not None
        return (self.folder / "run.log").stat().st_mtime - row.deadline_s

    def pace_s(self, newest: int) -> float:
        """Return the median duration of its newest steps."""
        return statistics.median(took for _, took in self.made[-newest:])

    def until(self, met: Callable[[], object], what: str) -> None:
        """Wait for a condition while the platform runs."""
        until(lambda: met() or self.state in OVER, what, patience_s=MOST_S)
        assert met(), f"{what}: {self.description()}"

    def until_made(self, steps: int) -> None:
        """Wait until this number of steps is done."""
        until(
            lambda: self.state in OVER or (self.made or [(0, 0.0)])[-1][0] >= steps,
            f"step {steps}: {self.site.failed} {self.site.output()[-3000:]}",
            patience_s=MOST_S,
        )

    def finished(self) -> str:
        """Wait until the platform has ended, and return its final state."""
        until(
            lambda: self.state in OVER,
            f"the end: {self.site.platform(self.id)}",
            patience_s=MOST_S,
        )
        return self.state

    def description(self) -> str:
        """Return the information that a failed test prints."""
        report = self.site.platform(self.id).report
        consoles = self.site.directory.glob("vm-*/console")
        consoles_text = "\n".join(
            f"{console}: {console.read_text()[-2000:]}" for console in sorted(consoles)
        )
        return f"{self.made[-3:]} of {self.steps}\n{self.shown()}\n{report}\n{consoles_text}"

    def shown(self) -> str:
        """Return the output of `merkatd platform show`."""
        return self.site.command("platform", "show", str(self.id))
