"""Hosts that were removed from OpenNebula leave nothing behind."""

import threading
from time import monotonic
from types import SimpleNamespace
from typing import Any

import numpy as np

from merkatd.hypervisor.libvirt import LibvirtHypervisors, LibvirtSettings
from tests.hypervisor.bed import Bed
from tests.hypervisor.double import DoubleHost
from tests.opennebula.worlds import RealTime

SETTINGS = LibvirtSettings(retry_least_s=10.0, retry_most_s=100.0)


def observe_hosts(*hosts: int) -> Any:
    """Return an observation of these hosts."""
    return SimpleNamespace(
        host_id=np.array(hosts, dtype=np.int64),
        host_name=tuple(str(host) for host in hosts),
        host_cluster=np.zeros(len(hosts), dtype=np.int64),
        pin_policy=frozenset(),
    )


def two() -> tuple[Bed, DoubleHost, DoubleHost]:
    """Return two hosts with a VM each, both in the pool."""
    first, other = DoubleHost(), DoubleHost()
    first.start(0)
    other.start(1)
    bed = Bed({0: first, 1: other}, SETTINGS)
    bed.adapter.meet(observe_hosts(0, 1))
    return bed, first, other


def test_a_host_removed_while_it_is_away_is_never_called_again() -> None:
    """It no longer counts as away, and the other host is served as before."""
    bed, first, other = two()
    first.up = False
    assert list(bed.read().away) == [0]
    bed.adapter.meet(observe_hosts(1))
    assert bed.adapter.reach().away == {}
    tried = first.calls["open"]
    for _ in range(20):
        seen = bed.read()
        assert seen.vm_id.tolist() == [1]
        assert seen.away == {}
    assert first.calls["open"] == tried
    assert other.calls["open"] == 1
    assert bed.adapter.reach().away == {}


def test_the_connection_of_a_removed_host_is_closed() -> None:
    """A host that is added again with its id is a new one."""
    bed, first, _ = two()
    bed.read()
    bed.adapter.meet(observe_hosts(1))
    assert first.calls["close"] == 1
    bed.adapter.meet(observe_hosts(0, 1))
    bed.read()
    assert first.opened == 2


def test_a_hanging_host_is_no_longer_counted_after_its_removal() -> None:
    """Its thread ends and its connection closes when its call returns."""
    first, other = DoubleHost(), DoubleHost()
    first.start(0)
    other.start(1)
    time = RealTime()
    adapter = LibvirtHypervisors(
        time.reactor,
        lambda place: f"qemu:///{place.id}",
        LibvirtSettings(call_limit_s=1.0),
        opened=lambda address, keepalive: (first if address.endswith("0") else other).open(
            address, keepalive
        ),
    )
    adapter.meet(observe_hosts(0, 1))

    async def read() -> Any:
        return await adapter.read({0: 0, 1: 1})

    time.run(read())
    first.hold = threading.Event()
    assert list(time.run(read()).away) == [0]
    assert adapter.lines.stuck == 1
    adapter.meet(observe_hosts(1))
    assert adapter.lines.stuck == 0
    first.hold.set()
    ending = monotonic() + 10
    while not first.calls["close"]:
        assert monotonic() < ending
        time.wait(0.1)
    time.run(adapter.close())
    time.close()
