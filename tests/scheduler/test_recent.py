"""The recent use of guests is kept over the last looks and shown on request."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from merkatd.scheduler.base.ports import GuestUse, Observation
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.observation.observed import SAMPLES, RecentUse
from merkatd.service.base.period_view import present
from merkatd.service.market.explanations import explained_vm
from tests.scheduler.frontend import Frontend

RESOURCES = ("cpu", "memory")
UNKNOWN = float("nan")
_UNREAD: Any = None


def look(at_s: float, hosts: Sequence[int], vm_hosts: Mapping[int, int]) -> Observation:
    """Return the part of an observation that recent use needs."""
    seen: Observation = object.__new__(Observation)
    for name, value in {
        "at_s": at_s,
        "host_id": np.array(hosts),
        "vm_id": np.array(sorted(vm_hosts)),
        "vm_host": np.array([vm_hosts[vm] for vm in sorted(vm_hosts)]),
    }.items():
        object.__setattr__(seen, name, value)
    return seen


def use(seconds: Mapping[int, float], mib: Mapping[int, float], *away: int) -> GuestUse:
    """Return what hosts report about guests."""
    vms = sorted(seconds)
    return GuestUse(
        vm_id=np.array(vms, dtype=np.int64),
        cpu_s=np.array([seconds[vm] for vm in vms]),
        held_mib=np.full(len(vms), 1024.0),
        used_mib=np.array([mib.get(vm, UNKNOWN) for vm in vms]),
        in_force=_UNREAD,
        away=dict.fromkeys(away, "no answer"),
    )


def test_cpu_use_comes_from_counters_and_memory_use_from_guests() -> None:
    """A core for a minute is 100 percent; a missing report is unknown."""
    recent, at = RecentUse(), {7: 1, 9: 2}
    recent.met(look(0.0, [1, 2], at), use({7: 5.0, 9: 100.0}, {7: 300.0}))
    seen = look(60.0, [1, 2], at)
    recent.met(seen, use({7: 65.0, 9: 130.0}, {7: 310.0}))
    history = recent.history(seen, RESOURCES)
    assert history is not None
    assert history.at_s.tolist() == [0.0, 60.0]
    np.testing.assert_array_equal(history.vms[0], [[UNKNOWN, 300.0], [UNKNOWN, UNKNOWN]])
    np.testing.assert_array_equal(history.vms[1], [[100.0, 310.0], [50.0, UNKNOWN]])
    np.testing.assert_array_equal(history.hosts[1], [[100.0, 310.0], [50.0, UNKNOWN]])


def test_after_a_counter_reset_cpu_use_is_unknown_until_the_next_look() -> None:
    """The guest restarted or migrated at an unknown time."""
    recent, at = RecentUse(), {7: 1}
    for at_s, seconds in ((0.0, 500.0), (60.0, 3.0), (120.0, 33.0)):
        recent.met(look(at_s, [1], at), use({7: seconds}, {}))
    history = recent.history(look(120.0, [1], at), RESOURCES)
    assert history is not None
    np.testing.assert_array_equal(history.vms[:, 0, 0], [UNKNOWN, UNKNOWN, 50.0])


def test_use_on_unreachable_hosts_is_unknown() -> None:
    """Their guests look unchanged, but are not assumed to be idle."""
    recent, at = RecentUse(), {7: 1, 9: 2}
    for at_s, away in ((0.0, ()), (60.0, (2,)), (120.0, (2,))):
        recent.met(look(at_s, [1, 2, 3], at), use({7: at_s, 9: 40.0}, {9: 64.0}, *away))
    history = recent.history(look(120.0, [1, 2, 3], at), RESOURCES)
    assert history is not None
    np.testing.assert_array_equal(history.vms[2], [[100.0, UNKNOWN], [UNKNOWN, UNKNOWN]])
    np.testing.assert_array_equal(history.hosts[2][:, 0], [100.0, UNKNOWN, 0.0])


def test_the_history_covers_the_current_vms_and_hosts() -> None:
    """VMs and hosts come and go between looks."""
    recent = RecentUse()
    recent.met(look(0.0, [1, 2], {3: 1, 7: 2}), use({3: 0.0, 7: 0.0}, {3: 10.0, 7: 20.0}))
    seen = look(60.0, [2, 4], {7: 2, 8: 4})
    recent.met(seen, use({7: 30.0, 8: 0.0}, {7: 21.0}))
    history = recent.history(seen, RESOURCES)
    assert history is not None
    np.testing.assert_array_equal(history.vms[:, :, 1], [[20.0, UNKNOWN], [21.0, UNKNOWN]])
    np.testing.assert_array_equal(history.hosts[:, :, 1], [[20.0, UNKNOWN], [21.0, UNKNOWN]])


def test_a_dozen_looks_are_kept() -> None:
    """Older looks are dropped, and a look no later than the previous one is ignored."""
    recent, at = RecentUse(), {7: 1}
    for number in range(3 * SAMPLES):
        for _ in range(2):
            recent.met(look(60.0 * number, [1], at), use({7: 6.0 * number}, {}))
    history = recent.history(look(0.0, [1], at), RESOURCES)
    assert history is not None
    assert history.at_s.tolist() == [60.0 * n for n in range(2 * SAMPLES, 3 * SAMPLES)]
    assert history.vms[:, 0, 0].tolist() == [pytest.approx(10.0)] * SAMPLES


def test_without_a_look_there_is_no_history() -> None:
    """The history is None, which strategies accept."""
    assert RecentUse().history(look(0.0, [1], {}), RESOURCES) is None


def test_a_period_observes_and_explains_the_use_of_guests() -> None:
    """A guest that needs one of its two cores uses one, whatever its share."""
    frontend = Frontend()
    vm = frontend.vm(5.0)
    frontend.bench.ok(
        "one.vm.update", vm, 'EMBEDDED=[WORK="1000000",DEMAND="0.5",MEMORY_USE="512"]', 1
    )
    latest = frontend.periods(6)
    now = present(latest, (MarketRules(),))
    row = now.snapshot.vm_row(vm)
    explained = {part.resource: part for part in explained_vm(now, row, None, (), None).resources}
    assert explained["cpu"].share == pytest.approx(200.0)
    assert explained["cpu"].used == pytest.approx(100.0, rel=0.01)
    assert explained["memory"].used == explained["memory"].used_lately == 512.0
    history = latest.seen.snapshot.history
    assert history is not None
    host = now.snapshot.host_row(frontend.host_of(vm))
    assert history.hosts[-1, host].tolist() == [pytest.approx(100.0, rel=0.01), 512.0]
    frontend.engine.dispose()


def test_looks_from_a_clock_that_was_ahead_are_dropped() -> None:
    """Use is known again from the second look on."""
    recent, at = RecentUse(), {7: 1}
    for at_s, seconds in ((90_000.0, 3.0), (90_060.0, 5.0), (60.0, 7.0), (120.0, 37.0)):
        recent.met(look(at_s, [1], at), use({7: seconds}, {}))
    history = recent.history(look(120.0, [1], at), RESOURCES)
    assert history is not None
    assert history.at_s.tolist() == [60.0, 120.0]
    np.testing.assert_array_equal(history.vms[:, 0, 0], [UNKNOWN, 50.0])
