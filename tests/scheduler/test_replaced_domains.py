"""Domains that are replaced without a history record, as the guest watch finds them."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from twisted.internet.defer import DeferredLock
from twisted.internet.task import Clock

from merkatd.base.clock import Inline
from merkatd.database.scheduler import period_store, price_store
from merkatd.scheduler.charging.charged_records import ChargeInput
from merkatd.scheduler.charging.unlimited_time import owed_before_limits
from merkatd.scheduler.charging.used_cpu import CpuCounters, NewlyLimited, core_periods
from merkatd.scheduler.execution.guest_watch import GuestWatch
from merkatd.scheduler.execution.starting_guests import StartingGuests
from merkatd.scheduler.observation.guest_starts import FREE, GuestStarts
from merkatd.scheduler.observation.running_time import RestartedCounters
from tests.scheduler.frontend import PAPER_MARKET, Frontend

VM, HOST = 3, 7


class RealClock(Clock):
    """A clock that goes on between two questions."""

    def seconds(self) -> float:
        """Return the time, a microsecond later than last time."""
        self.rightNow += 1e-6
        return super().seconds()


class Scene:
    """A watch, and one VM on one host."""

    def __init__(self) -> None:
        self.clock, self.run = RealClock(), 1
        self.watch = GuestWatch(DeferredLock(), self.clock, lambda: True)

    def observe(self, *, host: int = HOST, seq: int = 0, until: int = 0, read: bool = True) -> Any:
        """Observe the VM; return what the watch found until then."""
        records = SimpleNamespace(
            seq=np.array([seq]), ran_from_s=np.array([100 + seq]), ran_until_s=np.array([until])
        )
        look = SimpleNamespace(vm_id=np.array([VM]), vm_host=np.array([host]), records=records)
        vms = [VM] if read else []
        use = SimpleNamespace(
            vm_id=np.array(vms, dtype=np.int64), run=np.array([self.run] * len(vms))
        )
        scene: Any = SimpleNamespace(use=use, observation=look)
        result = self.watch.find_new_guests(scene)
        self.watch.forget_charged()
        return result

    def look(self) -> None:
        """Let the watch look at the host once."""
        scene = self

        class Hypervisors:
            async def runs(self, _hosts: Any) -> Any:
                return {HOST: {VM: scene.run}}

            async def read(self, _vms: Any) -> Any:
                vm_ids = np.array([VM])
                return SimpleNamespace(
                    vm_id=vm_ids, run=np.array([scene.run]), cpu_s=np.array([9.0])
                )

            def reach(self) -> Any:
                return SimpleNamespace(away={})

        rhythm = SimpleNamespace(arrival_look_s=5.0, least_charge_s=10.0, interval_s=60.0)
        context: Any = SimpleNamespace(rhythm=rhythm, hypervisors=Hypervisors(), executor=Inline())
        self.watch.expect(context, StartingGuests(where={VM: HOST}, hosts=[HOST]))
        self.clock.advance(6)
        self.watch.forget()


def test_a_domain_that_an_observation_finds_has_no_age() -> None:
    """The counter that was read with it is then charged."""
    scene = Scene()
    assert scene.observe().replaced == {}
    scene.run = 2
    result = scene.observe()
    assert (result.replaced, result.age_s) == ({VM: 1}, {VM: 0.0})


@pytest.mark.parametrize("first_read", [True, False])
def test_a_guest_that_no_observation_can_read_is_not_forgotten(*, first_read: bool) -> None:
    """Its owner lets it be replaced or saved at each of them."""
    scene = Scene()
    scene.observe(read=first_read)
    scene.look()
    scene.observe(read=False)
    scene.run = 2
    scene.look()
    assert scene.observe(read=False).replaced == {VM: 1}


def test_a_domain_on_another_host_or_after_a_stop_is_not_a_replaced_one() -> None:
    """Those have records."""
    scene = Scene()
    scene.observe()
    scene.run = 2
    assert scene.observe(host=8, seq=1).replaced == {}
    scene.observe(host=8, seq=1, until=200, read=False)
    scene.run = 3
    assert scene.observe(host=8, seq=2).replaced == {}


def test_each_replaced_domain_counts_as_a_start_of_its_owner() -> None:
    """Two observations differ by one at most, and not at all if neither can read the guest."""
    vm_ids, nobody = np.array([VM]), np.zeros(0, dtype=np.int64)
    records = SimpleNamespace(seq=np.array([0]), ran_from_s=vm_ids, ran_until_s=np.array([0]))
    look = SimpleNamespace(
        at_s=1e6,
        vm_id=vm_ids,
        vm_owner=np.array([5]),
        vm_boots_mib=None,
        records=records,
        by_record={},
        ended={},
    )
    sizes = np.array([[100.0, 512.0]])
    vms = SimpleNamespace(
        id=vm_ids, owner=np.array([5]), host=np.array([0]), state=vm_ids, held=sizes, cap=sizes
    )
    hosts = SimpleNamespace(id=np.array([HOST]), state=np.array([0]), capacity=sizes)
    observed: Any = SimpleNamespace(
        observation=look,
        use=SimpleNamespace(vm_id=nobody, run=nobody),
        snapshot=SimpleNamespace(vms=vms, hosts=hosts, resources=("cpu", "memory")),
        in_force=SimpleNamespace(boots_with=lambda cap: cap),
        histories={},
    )
    starts = GuestStarts()
    starts.note(observed)
    starts.note(observed, {VM: FREE, 99: 9})
    assert not starts.often
    starts.note(observed, {VM: 1})
    assert starts.often == {VM}


def test_replaced_domains_cost_no_more_than_the_longest_charged_time() -> None:
    """A single slow look at the host would otherwise count for each of them."""
    frontend = Frontend(hosts=1, markets=(PAPER_MARKET,))
    vm = frontend.vm(VCPU=4)
    frontend.vm(VCPU=4)
    seen = frontend.periods(2).seen
    world = frontend.scheduler.world
    assert world.rhythm.most_periods_charged * world.rhythm.interval_s == 120.0

    def owed(connection: sa.Connection, count: int) -> int:
        period = period_store.newest(connection)
        assert period is not None
        arrays = price_store.load_allocations(connection, period.number)
        assert arrays is not None
        host, (row,) = arrays["host"][0], np.flatnonzero(arrays["vm"] == vm)
        often = {**arrays, "often": arrays["vm"] == vm}
        limited = NewlyLimited(looked=frozenset({host}), gap_s={host: 50.0}, replaced={vm: count})
        books = ChargeInput(connection, world, seen, limited, frontend.clock.seconds())
        rows = np.array([row])
        return int(owed_before_limits(books, period, (None, None), often, rows, np.ones(1)).sum())

    first, second, third, many = (frontend.read(lambda c, n=n: owed(c, n)) for n in (1, 2, 3, 99))
    frontend.close()
    assert 0 < first < second == pytest.approx(2 * first, rel=1e-6)
    assert third == many == pytest.approx(first * 120 / 50, rel=1e-6)


@pytest.mark.parametrize(("age_s", "used_s"), [(30.0, 28.0), (38.0, 25.0)])
def test_a_recorded_restart_is_charged_once(age_s: float, used_s: float) -> None:
    """Only what exceeds the errors of the watch (5 s) and of the clocks (2 s) is a second one.

    The records show 20 s before the restart, and the present domain has used 5 s. If it is 30 s
    old, at least 23 s of the minute passed before it. If it is 38 s old, the 15 s of which the
    watch is sure are those of the records.
    """
    arrays = {
        "vm": np.array([VM]),
        "host": np.array([HOST]),
        "cpu_s": np.array([0.0]),
        "vcpus": np.array([1]),
        "runs": np.array([True]),
        "allocation": np.array([[100.0, 512.0]]),
    }
    anew = RestartedCounters(np.array([20.0]), np.array([40.0]), np.array([False]))
    limited = NewlyLimited(
        looked=frozenset({HOST}), gap_s={HOST: 5.0}, replaced={VM: 1}, age_s={VM: age_s}
    )
    now = CpuCounters(np.array([VM]), np.array([5.0]))
    used = core_periods(
        arrays, np.array([0]), now, np.ones(1), 60.0, anew=anew, limited=limited, cores_of_host=8.0
    )
    assert used * 60.0 == pytest.approx([used_s])
