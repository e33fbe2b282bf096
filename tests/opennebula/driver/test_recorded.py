"""What a real oned 7.4 asked, and what it was answered and carried out, once more.

Recorded with three hosts of the dummy drivers (their PCI devices are left out): oned asked for
places by itself, and `onecluster optimize` asked what to migrate. It deployed and migrated just
as it was answered, leased the address, and showed the error as the VM's SCHED_MESSAGE.
"""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from merkatd.embedded.model.settings import HostSize
from merkatd.opennebula.driver.driver_request import read_action
from tests.opennebula.driver.oned import Oned
from tests.scheduler.frontend import Frontend

RECORDED = Path(__file__).parent / "recorded"
BIDS = 'MERKAT_BID_CPU="{}"\nMERKAT_BID_MEMORY="1"\n'
SMALL = 'CPU="1"\nMEMORY="512"\n' + BIDS.format(3)
WIDE = 'CPU="1"\nVCPU="4"\nMEMORY="1024"\n' + BIDS.format(3)
GREEDY = 'CPU="1"\nVCPU="6"\nMEMORY="1024"\n' + BIDS.format(9)
TOO_LARGE = SMALL.replace('"512"', '"900000"') + 'MERKAT_MIN_MEMORY="800000"\n'
AUTOMATIC = SMALL + 'NIC=[NETWORK_MODE="auto"]\n'
OTHER_FORM = 'CPU="0.5"\nVCPU="2"\nMEMORY="256"\nMERKAT=[BID_CPU="2",BID_MEMORY="0.5"]\n'
LAN = 'NAME="lan"\nVN_MAD="dummy"\nBRIDGE="br0"\nAR=[TYPE="IP4",IP="10.0.0.1",SIZE="3"]\n'

VMS = [(SMALL, 1), (TOO_LARGE, None), (WIDE, 1), (WIDE, 0), (WIDE, 0), (AUTOMATIC, None),
       (OTHER_FORM, None), (GREEDY, 0), (GREEDY, 0), (GREEDY, 0)]  # fmt: skip
"""In the order of their ids: what they say, and the host that they were on when oned asked."""
AT_FIRST = 7
"""VMs that there were when oned asked for places."""


@pytest.fixture
def oned() -> Iterator[Oned]:
    """The same hosts, VMs and network on the embedded cloud."""
    frontend = Frontend(hosts=3, size=HostSize(800, 16384), handing=True)
    frontend.bench.ok("one.vn.allocate", LAN)
    made = Oned(frontend)
    add(made, VMS[:AT_FIRST])
    yield made
    frontend.close()


def add(oned: Oned, vms: list[tuple[str, int | None]]) -> None:
    """Make these VMs, and bring them where they were."""
    for template, host in vms:
        vm = oned.frontend.bench.ok("one.vm.allocate", template)
        if host is not None:
            oned.frontend.bench.ok("one.vm.deploy", vm, host)
    oned.frontend.clock.advance(60)


def question(name: str) -> bytes:
    """As oned handed it over."""
    return base64.b64encode((RECORDED / f"{name}74_merkat.xml").read_bytes())


def answer(name: str) -> str:
    """What the driver wrote on standard error and on standard output."""
    return (RECORDED / f"{name}74_merkat.answer").read_text().rstrip("\n")


def test_places(oned: Oned) -> None:
    """Two VMs get a host, a datastore and a network; the third can be nowhere and is told why."""
    assert oned.ask(None, question("place")) == answer("place")


def test_migrations(oned: Oned) -> None:
    """Off the host that three new VMs crowd, in the cluster that was asked about."""
    oned.carry_out(oned.plan(oned.ask(None, question("place"))))
    add(oned, VMS[AT_FIRST:])
    assert oned.ask(0, question("optimize")) == answer("optimize")


def test_what_oned_says_besides() -> None:
    """Where networks and datastores can be used, and what hosts have left."""
    action = read_action(question("place"))
    every = frozenset({0, 1, 2})
    assert action.hosts == {1: every, 5: every, 6: every}
    assert action.networks[5] == {0: frozenset({0})}
    assert action.vnets[0].clusters == action.datastores[0].clusters == frozenset({0})
    assert [action.room[host].cpu for host in (0, 1, 2)] == [600.0, 600.0, 800.0]
    assert action.unread == 0
