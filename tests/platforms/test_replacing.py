"""Failed or held VMs are replaced, at growing intervals, and with a limit."""

from itertools import pairwise

from merkatd.cluster import VmState
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.platforms.lifecycle.new_vms import (
    MAX_FAILURES,
    WINDOW_S,
    ReplacementTimes,
    exhausted,
    failing,
    replaced,
)
from merkatd.platforms.tenant_orders import Update
from tests.platforms.site import Site

INTERVAL_S = 60.0


def test_failures_of_opennebula_and_held_vms_count_as_failed() -> None:
    """VMs in a transition or put aside by their owner do not."""
    absent = ("BOOT_FAILURE", "PROLOG_MIGRATE_FAILURE", "CLONING_FAILURE", "HOLD")
    assert all(failing(VmState.ABSENT, words) for words in absent)
    for words in ("STOPPED", "UNDEPLOYED", "EPILOG"):
        assert not failing(VmState.ABSENT, words)
    assert not failing(VmState.BUSY, "BOOT_FAILURE")


def test_each_wait_doubles() -> None:
    """After the limit within an hour, the first failure must be an hour old."""
    failed = {"nodes": [("key", 7, "BOOT_FAILURE")]}
    at_s: list[float] = []
    now_s = 0.0
    while now_s < WINDOW_S + 2 * INTERVAL_S:
        replacements = replaced(failed, {"nodes": ReplacementTimes(tuple(at_s))}, now_s, INTERVAL_S)
        assert len(replacements) <= 1
        if replacements:
            at_s.append(now_s)
            assert "VM 7 in nodes is BOOT_FAILURE" in replacements[0].text
        assert bool(exhausted({"nodes": ReplacementTimes(tuple(at_s))}, now_s)) == (
            len([time_s for time_s in at_s if time_s > now_s - WINDOW_S]) >= MAX_FAILURES
        )
        now_s += INTERVAL_S
    waits = [after - before for before, after in pairwise(at_s)]
    assert waits[: MAX_FAILURES - 1] == [60.0, 120.0, 240.0, 480.0]
    assert at_s[MAX_FAILURES] == WINDOW_S


def test_failures_dated_in_the_future_delay_nothing() -> None:
    """Other failures count as usual."""
    failures = ReplacementTimes((500.0, *[86_400.0 + at for at in range(MAX_FAILURES)]))
    assert failures.since(600.0).at_s == (500.0,)


class TestLife:
    def test_a_failed_vm_is_replaced(self, site: Site) -> None:
        """The new one runs, the tenant gets the reason, and the failed one is removed."""
        platform = site.submit()
        site.until(platform, "running")
        site.cloud.faults.add(Fault(FaultKind.FAIL, lcm="BOOT", count=1))
        lost = site.vms(platform)[0]
        site.bench.ok("one.vm.action", "terminate-hard", lost)
        site.periods(8)
        vms = site.vms(platform)
        assert [site.state(vm) for vm in vms] == ["RUNNING", "RUNNING"]
        assert sorted(vms) == sorted(site.alive())
        (action,) = [row for row in site.doings(platform) if row.what == "replace"]
        assert "is BOOT_FAILURE: a new VM replaces it" in action.text

    def test_a_held_vm_is_replaced(self, site: Site) -> None:
        """No other program releases it."""
        site.cloud.faults.add(Fault(FaultKind.REFUSE, "one.vm.deploy", code=2048, text="not now"))
        platform = site.submit()
        site.periods(3)
        held = site.vms(platform)[0]
        assert site.state(held) == "PENDING"
        site.bench.ok("one.vm.action", "hold", held)
        site.cloud.faults.clear()
        site.until(platform, "running")
        site.periods(6)
        assert held not in site.alive()
        assert len(site.alive()) == 2

    def test_a_platform_whose_vms_all_fail_is_given_up(self, site: Site) -> None:
        """It has the reason, and its budget returns except for the time of boots."""
        before = site.balances()[site.ann]
        site.cloud.faults.add(Fault(FaultKind.FAIL, lcm="BOOT"))
        platform = site.submit()
        row = site.until(platform, "failed", 40)
        assert "its VMs fail one after the other" in row.why
        assert "BOOT_FAILURE" in row.why
        replacements = [row for row in site.doings(platform) if row.what == "replace"]
        assert len(replacements) == MAX_FAILURES
        assert site.alive() == []
        assert before - 1.0 < site.balances()[site.ann] <= before

    def test_a_running_platform_continues_with_its_remaining_vms(self, site: Site) -> None:
        """If some VMs always fail, the number of new ones in an hour is limited."""
        platform = site.submit()
        site.until(platform, "running")
        site.cloud.faults.add(Fault(FaultKind.FAIL, lcm="BOOT"))
        site.bench.ok("one.vm.action", "terminate-hard", site.vms(platform)[0])
        site.periods(22)
        site.periods(6, WINDOW_S / 12)
        assert site.platform(platform).state == "running"
        replacements = [row for row in site.doings(platform) if row.what == "replace"]
        assert len(replacements) == MAX_FAILURES
        site.cloud.faults.clear()
        site.clock.advance(WINDOW_S)
        site.periods(5)
        assert [site.state(vm) for vm in site.vms(platform)] == ["RUNNING", "RUNNING"]


def test_the_wanted_performance_can_change_while_it_runs(site: Site) -> None:
    """Its controller gets it with the next news, and after a restart."""
    platform = site.submit(slo="[slo]\nperformance = 2.0")
    site.until(platform, "running")
    site.periods(1)
    assert site.notes.news[-1].performance == 2.0
    site.update(platform, Update(performance=1.5))
    assert site.doings(platform)[0].text == "performance 1.5"
    site.periods(1)
    assert site.notes.news[-1].performance == 1.5
    site.start_daemon()
    site.periods(1)
    assert site.notes.started[-1].performance == 1.5
