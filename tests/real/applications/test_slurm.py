"""A real Slurm grows with its queue and shrinks with the price; no job is lost."""

import os
import statistics
import subprocess
from collections.abc import Callable, Iterator

import pytest

from merkatd.database import fleets
from merkatd.opennebula.vm_pool import VmRow
from tests.real import packages
from tests.real.applications import slurm
from tests.real.applications.site import NETWORK, Containers, containers, say
from tests.real.host import RealHost, until

JOBS, JOB_S = 12, 3
MANY, FEW, DEAR = 60, 25, 20.0
SETTLING = 15
"""So many periods it takes until both have what they get."""
MOST_S = 90.0
_TEMPLATE = """\
name = "queue"

[controller]
kind = "elastic"
parameters = {{ batch = "slurm", aim = "throughput", growth = 2, patience = 2, drain_limit_s = 60 }}

[budget]
credits = 200000

[[cluster]]
name = "head"
template = \"\"\"
CPU="1"
VCPU="1"
MEMORY="256"
RUN="{head}"
SETENV="SLURM_CONF={folder}/slurm.conf"
\"\"\"

[cluster.floor]
memory = 256
cpu = 20

[cluster.monitor]
kind = "queue"
parameters = {{ batch = "slurm", every_s = 1.0 }}

[[cluster]]
name = "workers"
least = 0
initial = 0
most = 4
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


@pytest.fixture
def site(
    mortal_hosts: list[RealHost], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Containers]:
    """One host that is said to have four cores: a market sells no VM all there is."""
    packages.install(slurm.PACKAGES)
    with containers(
        tmp_path_factory.mktemp("s"), mortal_hosts[0], cores=4, memory_mib=4096
    ) as found:
        _name_all(found)
        yield found


class Batch:
    """The platform, and what its head answers."""

    def __init__(self, site: Containers, tenant: str = "ann", head: int = 0) -> None:
        """Its head is the VM that is made next."""
        self.site = site
        self.folder = site.folder(f"slurm-{tenant}")
        self.head = head
        slurm.prepare(self.folder, head)
        template = _TEMPLATE.format(
            head=slurm.as_head(self.folder),
            worker=slurm.as_worker(self.folder),
            folder=self.folder,
        )
        self.id = site.submit(site.tenant(tenant), template)
        until(lambda: self.say("sinfo", "-h") is not None, "slurmctld", patience_s=MOST_S)

    def say(self, *words: str) -> str | None:
        """What a command of Slurm says; None where slurmctld does not answer."""
        environment = os.environ | {"SLURM_CONF": str(self.folder / "slurm.conf")}
        done = subprocess.run(
            self.site.host.words(*words),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout if done.returncode == 0 else None

    @property
    def workers(self) -> list[VmRow]:
        """VMs of the platform beside the head."""
        present = self.site.read(lambda c: fleets.present(c, self.id))
        wanted = {one.vm for one in present} - {self.head}
        return [row for vm, row in self.site.vms().items() if vm in wanted]

    def submit(self, jobs: int) -> None:
        """So many, each of which writes its number at its end."""
        for number in range(jobs):
            words = f"sleep {JOB_S}; echo {number} >> {self.folder}/ended"
            assert self.say("sbatch", "-o", "/dev/null", "--wrap", words) is not None

    def ended(self) -> list[int]:
        """The numbers of those that have run."""
        file = self.folder / "ended"
        return [int(one) for one in file.read_text().split()] if file.exists() else []

    def nodes(self) -> int:
        """That Slurm has."""
        return len((self.say("sinfo", "-h", "-N", "-o", "%N") or "").split())

    def until(self, met: Callable[[], object], what: str) -> None:
        """Wait; where it is in vain, show what everybody says."""
        try:
            until(met, what, patience_s=MOST_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told()}") from None

    def told(self) -> str:
        """By Slurm, and by the platform."""
        said = [self.say(*words.split()) or "" for words in ("sinfo -N -l", "squeue -l")]
        said.append(self.say("scontrol", "show", "nodes") or "")
        said.append(self.site.command("platform", "show", str(self.id)))
        said.append(f"ended: {sorted(self.ended())}")
        log = (self.folder / "log/slurmctld.log").read_text()
        said += [line for line in log.splitlines() if "error" in line or "equeue" in line]
        events = ("Processing", "killing", "exit", "allocate")
        said += [line for line in log.splitlines() if any(one in line for one in events)][-40:]
        said += [f"{one}:\n{one.read_text()[-1500:]}" for one in (self.folder / "log").iterdir()]
        return "\n".join(said)


def _name_all(site: Containers) -> None:
    """On the host, as a site's name server would."""
    names = "".join(f"{NETWORK}.{vm} one-{vm}\\n" for vm in range(50))
    site.host.run("sh", "-c", f"printf '{names}' >> /etc/hosts")


def test_a_slurm_grows_with_its_queue_and_shrinks_when_it_is_done(site: Containers) -> None:
    """From no worker to some and back to none; each job has run once, to its end."""
    batch = Batch(site)
    assert batch.workers == []
    batch.submit(JOBS)
    batch.until(lambda: batch.nodes() >= 2, "two nodes")
    batch.until(lambda: len(batch.ended()) >= JOBS, "all jobs")
    batch.until(lambda: not batch.workers, "no worker")
    batch.until(lambda: batch.nodes() == 0, "no node")
    assert sorted(batch.ended()) == list(range(JOBS))


def test_the_price_takes_workers_and_gives_them_back(site: Containers) -> None:
    """While somebody rich is there; no job is lost, and none runs twice."""
    batch = Batch(site)
    batch.submit(MANY)
    batch.until(lambda: len(batch.workers) >= 3, "three workers")
    many = len(batch.workers)
    rich = site.burning(DEAR, vcpus=4)
    batch.until(lambda: len(batch.workers) <= 1, "fewer workers")
    few = len(batch.workers)
    site.call("one.vm.action", "terminate-hard", rich)
    batch.until(lambda: len(batch.workers) >= 3, "three workers again")
    batch.until(lambda: len(batch.ended()) >= MANY, "all jobs")
    say(f"workers: {many}, while it was dear {few}, then {len(batch.workers)}")
    assert sorted(batch.ended()) == list(range(MANY))


def test_two_frameworks_share_and_alone_one_takes_all(site: Containers) -> None:
    """As in figure 11; so few whole workers are no halves, and who came first has more of them."""
    ann, bob = Batch(site), Batch(site, "bob", head=1)
    ann.submit(10 * MANY)
    ann.until(lambda: len(ann.workers) >= 3, "three workers of one")
    alone = len(ann.workers)
    bob.submit(FEW)
    bob.until(lambda: bob.workers, "a worker of the other")
    site.after_periods(SETTLING)
    counts = []
    for _ in range(SETTLING):
        site.after_periods(1)
        counts.append((len(ann.workers), len(bob.workers)))
    shares = [statistics.mean(one) for one in zip(*counts, strict=True)]
    bob.until(lambda: len(bob.ended()) >= FEW, "all jobs of the other")
    bob.until(lambda: not bob.workers, "no worker of the other")
    ann.until(lambda: len(ann.workers) >= 3, "three workers of one again")
    say(f"workers alone {alone}; together {shares[0]:.1f} and {shares[1]:.1f}")
    assert shares[0] < alone
    assert shares[1] > 0.5
