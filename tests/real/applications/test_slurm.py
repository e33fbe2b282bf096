"""A real Slurm grows with its queue and shrinks with the price; no job is lost."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from merkatd.opennebula.vm_pool import VmRow
from tests.real import packages
from tests.real.applications import slurm
from tests.real.applications.site import NETWORK, Containers, containers
from tests.real.host import RealHost, until

JOBS, JOB_S = 12, 3
MOST_S = 300.0
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
        yield found


class Batch:
    """The platform, and what its head answers."""

    def __init__(self, site: Containers) -> None:
        self.site = site
        self.folder = site.folder("slurm")
        slurm.prepare(self.folder, head=0)
        _name_all(site)
        template = _TEMPLATE.format(
            head=slurm.as_head(self.folder),
            worker=slurm.as_worker(self.folder),
            folder=self.folder,
        )
        self.id = site.submit(site.tenant("ann"), template)
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
        return [row for vm, row in self.site.vms().items() if vm != 0]

    def nodes(self) -> int:
        """That Slurm has."""
        return len((self.say("sinfo", "-h", "-N", "-o", "%N") or "").split())


def _name_all(site: Containers) -> None:
    """On the host, as a site's name server would."""
    names = "".join(f"{NETWORK}.{vm} one-{vm}\\n" for vm in range(50))
    site.host.run("sh", "-c", f"printf '{names}' >> /etc/hosts")


def test_a_slurm_grows_with_its_queue_and_shrinks_when_it_is_done(site: Containers) -> None:
    """From no worker to some and back to none; each job has run once, to its end."""
    batch = Batch(site)
    assert batch.workers == []
    for number in range(JOBS):
        words = f"sleep {JOB_S}; echo {number} >> {batch.folder}/ended"
        assert batch.say("sbatch", "-o", "/dev/null", "--wrap", words) is not None
    until(lambda: batch.nodes() >= 2, "two nodes", patience_s=MOST_S)
    ended = batch.folder / "ended"
    until(
        lambda: ended.exists() and len(ended.read_text().split()) >= JOBS,
        "all jobs",
        patience_s=MOST_S,
    )
    until(lambda: not batch.workers, "no worker", patience_s=MOST_S)
    until(lambda: batch.nodes() == 0, "no node", patience_s=MOST_S)
    assert sorted(map(int, ended.read_text().split())) == list(range(JOBS))
