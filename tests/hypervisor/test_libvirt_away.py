"""Unreachable or hanging hosts: the other hosts are served, and no wait is long."""

import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.logger import globalLogPublisher

from merkatd.hypervisor.libvirt import LibvirtHypervisors, LibvirtSettings
from merkatd.hypervisor.libvirt.host_queues import Workers
from merkatd.limits import UNSET
from tests.hypervisor.bed import Bed, limit
from tests.hypervisor.double import DoubleHost
from tests.opennebula.worlds import RealTime

SETTINGS = LibvirtSettings(retry_least_s=10.0, retry_most_s=100.0)


@pytest.fixture
def away_log() -> Iterator[list[str]]:
    """Yield the hosts that the log reports as away or back."""
    hosts_away: list[str] = []

    def note(event: Any) -> None:
        if "is away" in event.get("log_format", "") or "again" in event.get("log_format", ""):
            hosts_away.append(event["host"])

    publisher: Any = globalLogPublisher  # any callable works
    publisher.addObserver(note)
    yield hosts_away
    publisher.removeObserver(note)


def two() -> tuple[Bed, DoubleHost, DoubleHost]:
    """Return two hosts with a limited VM each."""
    first, other = DoubleHost(), DoubleHost()
    first.start(0)
    other.start(1)
    bed = Bed({0: first, 1: other}, SETTINGS)
    bed.read()
    assert bed.apply(limit(0, vcpu=20_000), limit(1, vcpu=20_000)) == {}
    return bed, first, other


class TestAHostThatIsGone:
    """The whole host or only its libvirtd is killed."""

    def test_its_guests_stay_as_they_were_and_the_others_are_served(
        self, away_log: list[str]
    ) -> None:
        """The host is logged once and its steps are refused; all other steps are applied."""
        bed, first, other = two()
        first.up = False
        for _ in range(3):
            seen = bed.read()
            assert seen.vm_id.tolist() == [0, 1]
            assert seen.in_force.vcpu_quota_us.tolist() == [20_000, 20_000]
            assert list(seen.away) == list(bed.adapter.reach().away) == [0]
        assert "reset by peer" in seen.away[0]
        assert away_log == ["0"]
        steps = limit(0, vcpu=30_000), limit(1, vcpu=30_000)
        assert list(bed.apply(*steps)) == [steps[0].id]
        assert other.domains["one-1"].scheduler["vcpu_quota"] == 30_000

    def test_it_returns_with_its_limits_in_force(self, away_log: list[str]) -> None:
        """One new connection is made, and its guests kept their limits."""
        bed, first, _ = two()
        first.up = False
        bed.read()
        first.up = True
        bed.read(after_s=130)
        seen = bed.read()
        assert seen.away == {}
        assert seen.in_force.vcpu_quota_us.tolist() == [20_000, 20_000]
        assert first.opened == 2
        assert away_log == ["0", "0"]
        assert bed.apply(limit(0, vcpu=30_000)) == {}

    def test_retries_become_rarer(self) -> None:
        """The wait doubles after each failure, with 25 % spread, up to the longest wait."""
        bed, first, _ = two()
        first.up = False
        bed.read()
        first.calls.clear()
        tries = []
        for second in range(700):
            bed.read(after_s=1)
            if first.calls["open"]:
                tries.append(second)
                first.calls.clear()
        waits = [later - sooner for sooner, later in pairwise(tries)]
        assert 7 <= tries[0] <= 14
        for wait, longest in zip(waits, (20, 40, 80, 100, 100), strict=False):
            assert 0.7 * longest <= wait <= 1.3 * longest
        assert len(waits) >= 5

    def test_a_host_never_reached_has_no_guests(self) -> None:
        """Guests that were never observed are left out."""
        host = DoubleHost(up=False)
        host.start(0)
        seen = Bed({0: host}, SETTINGS).read()
        assert seen.vm_id.tolist() == []
        assert list(seen.away) == [0]


class TestAHostThatHangs:
    """The host accepts a call and never answers."""

    @pytest.fixture
    def threads(self) -> Iterator[list[threading.Thread]]:
        """Yield the started threads; all must end."""
        begun: list[threading.Thread] = []
        yield begun
        for thread in begun:
            thread.join(5)
            assert not thread.is_alive()

    @pytest.fixture
    def real_hosts(
        self, real_time: RealTime, threads: list[threading.Thread]
    ) -> Iterator[tuple[list[DoubleHost], LibvirtHypervisors, Callable[[Any], Any]]]:
        """Yield six hosts, two threads and real time; a call may take a second."""
        hosts = [DoubleHost() for _ in range(6)]
        for number, host in enumerate(hosts):
            host.start(number)

        def start(work: Callable[[], None]) -> None:
            threads.append(threading.Thread(target=work))
            threads[-1].start()

        adapter = LibvirtHypervisors(
            real_time.reactor,
            lambda place: f"qemu:///{place.id}",
            LibvirtSettings(threads=2, call_limit_s=1.0, period_limit_s=2.0),
            start=start,
            opened=lambda address, keep: hosts[int(address.rpartition("/")[2])].open(address, keep),
        )
        yield hosts, adapter, real_time.run
        for host in hosts:
            if host.hold is not None:
                host.hold.set()
        real_time.run(adapter.close())

    def test_the_other_hosts_are_read_and_limited(self, real_hosts: Any, threads: Any) -> None:
        """This holds even with more hanging hosts than threads; each blocks one thread only."""
        hosts, adapter, run = real_hosts
        where = {vm: vm for vm in range(6)}
        assert run(adapter.read(where)).vm_id.tolist() == list(range(6))
        holds = threading.Event()
        for number in (0, 1, 2):
            hosts[number].hold = holds
        for _ in range(3):
            seen = run(adapter.read(where))
            assert seen.vm_id.tolist() == list(range(6))
            assert sorted(seen.away) == [0, 1, 2]
        steps = [limit(vm, vcpu=20_000) for vm in range(6)]
        refused = run(adapter.apply(steps))
        assert list(refused) == [step.id for step in steps[:3]]
        assert "has not answered" in refused[steps[0].id]
        for number in (3, 4, 5):
            assert hosts[number].domains[f"one-{number}"].scheduler["vcpu_quota"] == 20_000
        for thread in threads:
            thread.join(0.2)
        assert sum(thread.is_alive() for thread in threads) == 3
        assert all(hosts[number].most_at_once == 1 for number in range(6))
        holds.set()
        for thread in threads:
            thread.join(5)
        # The late result returns to the reactor, and the host is served again.
        run(adapter.read(where))
        assert run(adapter.read(where)).away == {}
        assert run(adapter.apply(steps)) == {}

    def test_a_period_never_waits_beyond_its_limit(
        self, real_time: RealTime, real_hosts: Any
    ) -> None:
        """The rest of the work of a slow but responding host is postponed."""
        hosts, adapter, run = real_hosts
        for vm in range(100, 200):
            hosts[0].start(vm)
        hosts[0].latency_s = 0.06
        where = dict.fromkeys((0, *range(100, 200)), 0) | {vm: vm for vm in range(1, 6)}
        began_s = real_time.reactor.seconds()
        seen = run(adapter.read(where))
        assert 1.9 < real_time.reactor.seconds() - began_s < 6.0
        assert set(seen.vm_id.tolist()) == {1, 2, 3, 4, 5}
        assert "within the 2 s" in seen.away[0]
        hosts[0].latency_s = 0.0
        seen = run(adapter.read(where))
        assert seen.away == {}
        assert len(seen.vm_id) == len(where)
        assert set(seen.in_force.vcpu_quota_us.tolist()) == {UNSET}


def test_closing_never_waits_for_a_hanging_host(real_time: RealTime) -> None:
    """Closing abandons the host that hangs."""
    host = DoubleHost()
    host.start(0)
    settings = LibvirtSettings(call_limit_s=0.1, period_limit_s=0.5)
    adapter = LibvirtHypervisors(
        real_time.reactor, lambda _place: "qemu:///system", settings, opened=host.open
    )
    host.hold = threading.Event()
    running = ensureDeferred(adapter.read({0: 0}))
    del running
    began_s = real_time.reactor.seconds()
    real_time.run(adapter.close())
    assert real_time.reactor.seconds() - began_s < 2.0
    host.hold.set()


def test_threads_are_reused_and_end() -> None:
    """Consecutive work needs one thread, and idle threads end with the pool."""
    workers = Workers("test")
    done = threading.Semaphore(0)
    for _ in range(20):
        workers.start(done.release)
        assert done.acquire(timeout=5)
        while not workers.idle:
            threading.Event().wait(0.001)
    assert workers.count == 1
    workers.stop()
    assert not any(thread.name.startswith("test-") for thread in threading.enumerate())
