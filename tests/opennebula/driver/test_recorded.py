"""Recorded requests of a real oned 7.4, and the answers that it executed.

They were recorded with three hosts of the dummy drivers, without PCI devices. Oned asked for places
by itself, and `onecluster optimize` asked for migrations. It executed the answers, leased the
address, and showed the error as the VM's SCHED_MESSAGE. The answer to `onecluster optimize` had
three more migrations then, which now wait until the first one is confirmed.
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
"""By id: template and host at the time of the request."""
AT_FIRST = 7
"""Number of VMs when oned asked for places."""


@pytest.fixture
def oned() -> Iterator[Oned]:
    """Yield the same hosts, VMs and network on the embedded cloud."""
    frontend = Frontend(hosts=3, size=HostSize(800, 16384), handing=True)
    frontend.bench.ok("one.vn.allocate", LAN)
    made = Oned(frontend)
    add(made, VMS[:AT_FIRST])
    yield made
    frontend.close()


def add(oned: Oned, vms: list[tuple[str, int | None]]) -> None:
    """Create these VMs on their hosts."""
    for template, host in vms:
        vm = oned.frontend.bench.ok("one.vm.allocate", template)
        if host is not None:
            oned.frontend.bench.ok("one.vm.deploy", vm, host)
    oned.frontend.clock.advance(60)


def question(name: str) -> bytes:
    """Return a request of oned."""
    return base64.b64encode((RECORDED / f"{name}74_merkat.xml").read_bytes())


def answer(name: str) -> str:
    """Return the driver's standard error and standard output."""
    return (RECORDED / f"{name}74_merkat.answer").read_text().rstrip("\n")


def test_recorded_places_are_repeated(oned: Oned) -> None:
    """Two VMs get host, datastore and network; the third fits nowhere and gets a reason."""
    assert oned.ask(None, question("place")) == answer("place")


def test_recorded_migrations_are_repeated(oned: Oned) -> None:
    """VMs leave the host that three new VMs crowd, within the cluster."""
    oned.carry_out(oned.plan(oned.ask(None, question("place"))))
    add(oned, VMS[AT_FIRST:])
    assert oned.ask(0, question("optimize")) == answer("optimize")


def test_other_facts_of_the_request_are_read() -> None:
    """These are clusters of networks and datastores, and free capacity of hosts."""
    action = read_action(question("place"))
    every = frozenset({0, 1, 2})
    assert action.hosts == {1: every, 5: every, 6: every}
    assert action.networks[5] == {0: frozenset({0})}
    assert action.vnets[0].clusters == action.datastores[0].clusters == frozenset({0})
    assert [action.room[host].cpu for host in (0, 1, 2)] == [600.0, 600.0, 800.0]
    assert action.unread == 0
