"""An elastic platform of a real batch system, and the tests that all batch systems share."""

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from controllers.monitors.batch_systems.batch_system import Queue
from controllers.monitors.queues.systems import batch_of
from merkatd.database.fleets.fleet_store import PLATFORM_VMS
from merkatd.opennebula.pools.vm_pool import VmRow
from tests.real.applications.site import GATEWAY, LOGIN, NETWORK, Containers, containers, say
from tests.real.host import RealHost, until

WORK = "sleep 3"
JOBS_AT_ONCE = 3
DEAR = 20.0
MOST_S = 180.0
_NAMES = 50
_TEMPLATE = """\
name = "queue"

[controller]
kind = "elastic"
parameters = {{ {parameters} }}

[budget]
credits = 200000

[[cluster]]
name = "head"
template = \"\"\"
CPU="1"
VCPU="1"
MEMORY="256"
RUN="{head}"
SETENV="{environment}"
\"\"\"

[cluster.floor]
memory = 256
cpu = 20

[cluster.monitor]
kind = "queue"
parameters = {{ batch = "{kind}", every_s = 1.0 }}

[[cluster]]
name = "workers"
least = 0
initial = 0
most = {most}
template = \"\"\"
CPU="1"
VCPU="1"
MEMORY="128"
RUN="{worker}"
\"\"\"

[cluster.floor]
memory = 128
cpu = 10
"""


class System(Protocol):
    """A kind of batch system: a module such as `slurm`."""

    KIND: str
    """Its name in templates."""
    NODES: tuple[str, ...]
    """The command that lists the names of its hosts; it succeeds once the head is ready."""
    TOLD: tuple[str, ...]
    """The commands whose output a failed test prints."""
    TASK: str
    """The environment variable with a job's number."""

    def prepare(self, folder: Path, head: int) -> None:
        """Write the configuration, for the VM with this id as head."""

    def environment(self, folder: Path) -> str:
        """Return the environment of its commands, as words like NAME=VALUE."""

    def as_head(self, folder: Path) -> str:
        """Return the command that the head runs."""

    def as_worker(self, folder: Path) -> str:
        """Return the command with which a worker joins."""

    def words(self, folder: Path, *command: str) -> list[str]:
        """Return the words with which the host runs a command of the batch system."""

    def submission(self, script: Path, jobs: int) -> list[str]:
        """Return the command that submits this number of equal jobs, numbered from 1."""


class Batch:
    """A platform with a batch system, and the answers of its head."""

    def __init__(
        self,
        site: Containers,
        system: System,
        tenant: str = "ann",
        head: int = 0,
        aim: str = "throughput",
        most: int = 4,
        **more: float,
    ) -> None:
        """The head is the next VM that is created."""
        self.site = site
        self.system = system
        self.folder = site.folder(f"{system.KIND}-{tenant}")
        self.head = head
        system.prepare(self.folder, head)
        parameters = {
            "batch": system.KIND,
            "aim": aim,
            "growth": 2,
            "patience": 2,
            "drain_limit_s": 60,
            **more,
        }
        template = _TEMPLATE.format(
            kind=system.KIND,
            parameters=", ".join(
                f"{key} = {json.dumps(parameter)}" for key, parameter in parameters.items()
            ),
            head=system.as_head(self.folder),
            worker=system.as_worker(self.folder),
            environment=system.environment(self.folder),
            most=most,
        )
        self.id = site.submit(site.tenant(tenant), template)
        self.until(lambda: self.say(*system.NODES) is not None, "a head")

    def say(self, *words: str) -> str | None:
        """Return the output of a command of the batch system; None if the command fails."""
        done = self._run(*words)
        return done.stdout if done.returncode == 0 else None

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.site.host.words(*self.system.words(self.folder, *words)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def workers(self) -> list[VmRow]:
        """Return the VMs of the platform without the head."""
        present = self.site.read(lambda c: PLATFORM_VMS.living(c, self.id))
        wanted = {member.vm for member in present} - {self.head}
        return [row for vm, row in self.site.vms().items() if vm in wanted]

    def submit(self, jobs: int, work: str = WORK) -> None:
        """Submit this number of jobs; each writes its number at its start and at its end."""
        script = self.folder / "job"
        number = f"echo ${self.system.TASK} >>{self.folder}"
        script.write_text(f"#!/bin/sh\n{number}/began\n{work}\n{number}/ended\n")
        done = self._run(*self.system.submission(script, jobs))
        assert done.returncode == 0, done.stderr

    def began(self) -> list[int]:
        """Return the numbers of started jobs, once for each start."""
        return self._numbers("began")

    def ended(self) -> list[int]:
        """Return the numbers of finished jobs, once for each end."""
        return self._numbers("ended")

    def _numbers(self, name: str) -> list[int]:
        file = self.folder / name
        return sorted(map(int, file.read_text().split())) if file.exists() else []

    def look(self) -> Queue:
        """Return the queue as a controller receives it."""
        batch = batch_of({"batch": self.system.KIND})
        return batch.read(self.say("sh", "-c", batch.look()) or "")

    def nodes(self) -> int:
        """Return the number of nodes that the batch system has besides the head."""
        return len({*(self.say(*self.system.NODES) or "").split()} - {f"one-{self.head}"})

    def until(self, met: Callable[[], object], what: str) -> None:
        """Wait for a condition; if it is not met in time, raise an error with all information."""
        try:
            until(met, what, patience_s=MOST_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.description()}") from None

    def description(self) -> str:
        """Return the information of the batch system and of the platform."""
        outputs = [self.say(*words.split()) or "" for words in self.system.TOLD]
        outputs.append(self.site.command("platform", "show", str(self.id)))
        outputs.append(f"began: {self.began()}\nended: {self.ended()}")
        outputs += [
            f"{path}:\n{path.read_text()[-3000:]}"
            for path in sorted((self.folder / "log").iterdir())
        ]
        return "\n".join(outputs)


@contextlib.contextmanager
def opened(directory: Path, host: RealHost, cores: int = 4) -> Iterator[Containers]:
    """Yield a site with one host of a nominal size, because no VM can buy a whole host."""
    with containers(directory, host, cores=cores, memory_mib=1024 * cores) as site:
        # The host resolves the names, as a site's name server would.
        names = "".join(f"{NETWORK}.{vm} one-{vm}\\n" for vm in range(_NAMES))
        names += f"{GATEWAY} {LOGIN}\\n"
        host.run("sh", "-c", f"printf '{names}' >> /etc/hosts")
        yield site


def grows_and_shrinks(batch: Batch, jobs: int) -> None:
    """Check growth from no worker and back to none; each job runs once, to its end."""
    assert batch.workers == []
    batch.submit(jobs)
    batch.until(lambda: batch.nodes() >= 2, "two nodes")
    batch.until(lambda: len(batch.ended()) >= jobs, "all jobs")
    batch.until(lambda: not batch.workers, "no worker")
    batch.until(lambda: batch.nodes() == 0, "no node")
    _each_once(batch, jobs)


def follows_the_price(batch: Batch, jobs: int) -> None:
    """Check that a rich tenant takes workers for a while; no job is lost or runs twice."""
    batch.submit(jobs)
    batch.until(lambda: len(batch.workers) >= 3, "three workers")
    many = len(batch.workers)
    rich = batch.site.burning(DEAR, vcpus=4)
    batch.until(lambda: len(batch.workers) <= 1, "fewer workers")
    few = len(batch.workers)
    batch.site.call("one.vm.action", "terminate-hard", rich)
    batch.until(lambda: len(batch.workers) > few, "more workers again")
    again = len(batch.workers)
    batch.until(lambda: len(batch.ended()) >= jobs, "all jobs")
    say(f"workers: {many}, while it was dear {few}, then {again}")
    _each_once(batch, jobs)


def ends_before_it_goes(batch: Batch) -> None:
    """Check that a drained worker stays until its job has ended, however long that takes."""
    go = batch.folder / "go"
    batch.submit(JOBS_AT_ONCE, f"until test -e {go}; do sleep 0.5; done")
    batch.until(lambda: len(batch.began()) >= JOBS_AT_ONCE, "a job on each worker")
    batch.site.burning(DEAR, vcpus=4)

    def leaving() -> set[str]:
        return {
            worker.name
            for worker in batch.look().workers.values()
            if worker.drained and worker.jobs
        }

    batch.until(leaving, "a worker that is busy and takes no more")
    drained = leaving()
    batch.site.after_periods(3)
    assert drained <= {f"one-{worker.id}" for worker in batch.workers}
    assert batch.ended() == []
    go.touch()
    batch.until(lambda: not batch.workers, "no worker")
    _each_once(batch, JOBS_AT_ONCE)


def outlives_a_worker(batch: Batch) -> None:
    """Check that a dead worker's job runs again on another, and its node is removed."""
    go = batch.folder / "go"
    batch.submit(JOBS_AT_ONCE, f"until test -e {go}; do sleep 0.5; done")
    batch.until(lambda: len(batch.began()) >= JOBS_AT_ONCE, "a job on each worker")
    victim = batch.workers[0].id
    batch.site.guest(victim).destroy()
    # The cloud's own monitoring would find the same.
    batch.site.call("embedded.guest.off", victim)
    batch.until(lambda: len(batch.began()) > JOBS_AT_ONCE, "its job again")
    batch.until(lambda: f"one-{victim}" not in batch.look().workers, "one host less")
    go.touch()
    batch.until(lambda: not batch.workers, "no worker")
    assert batch.ended() == sorted({*batch.began()}) == list(range(1, JOBS_AT_ONCE + 1))


def _each_once(batch: Batch, jobs: int) -> None:
    assert batch.began() == batch.ended() == list(range(1, jobs + 1))
