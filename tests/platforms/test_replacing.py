"""VMs that have failed or are held: made anew, ever more slowly, and never without end."""

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


def test_what_has_failed() -> None:
    """OpenNebula's failures and what is held; nothing that is on its way or was put aside."""
    absent = ("BOOT_FAILURE", "PROLOG_MIGRATE_FAILURE", "CLONING_FAILURE", "HOLD")
    assert all(failing(VmState.ABSENT, words) for words in absent)
    for words in ("STOPPED", "UNDEPLOYED", "EPILOG"):
        assert not failing(VmState.ABSENT, words)
    assert not failing(VmState.BUSY, "BOOT_FAILURE")


def test_each_time_it_is_waited_twice_as_long() -> None:
    """And after so many in an hour until the first of them was an hour ago."""
    failed = {"nodes": [("key", 7, "BOOT_FAILURE")]}
    at_s: list[float] = []
    now_s = 0.0
    while now_s < WINDOW_S + 2 * INTERVAL_S:
        found = replaced(failed, {"nodes": ReplacementTimes(tuple(at_s))}, now_s, INTERVAL_S)
        assert len(found) <= 1
        if found:
            at_s.append(now_s)
            assert "VM 7 in nodes is BOOT_FAILURE" in found[0].text
        assert bool(exhausted({"nodes": ReplacementTimes(tuple(at_s))}, now_s)) == (
            len([one for one in at_s if one > now_s - WINDOW_S]) >= MAX_FAILURES
        )
        now_s += INTERVAL_S
    waits = [after - before for before, after in pairwise(at_s)]
    assert waits[: MAX_FAILURES - 1] == [60.0, 120.0, 240.0, 480.0]
    assert at_s[MAX_FAILURES] == WINDOW_S


def test_failures_that_a_clock_dated_a_day_ahead_delay_nothing() -> None:
    """Others count as before."""
    failures = ReplacementTimes((500.0, *[86_400.0 + at for at in range(MAX_FAILURES)]))
    assert failures.since(600.0).at_s == (500.0,)


class TestLife:
    def test_one_that_fails_makes_room_for_another(self, site: Site) -> None:
        """Which runs; the tenant reads why, and nothing is left of the first."""
        platform = site.submit()
        site.until(platform, "running")
        site.cloud.faults.add(Fault(FaultKind.FAIL, lcm="BOOT", count=1))
        lost = site.vms(platform)[0]
        site.bench.ok("one.vm.action", "terminate-hard", lost)
        site.periods(8)
        vms = site.vms(platform)
        assert [site.state(vm) for vm in vms] == ["RUNNING", "RUNNING"]
        assert sorted(vms) == sorted(site.alive())
        (told,) = [one for one in site.doings(platform) if one.what == "replace"]
        assert "is BOOT_FAILURE: a new VM replaces it" in told.text

    def test_one_that_is_held_is_replaced(self, site: Site) -> None:
        """Nobody else lets it go."""
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

    def test_where_each_fails_the_platform_gives_up_and_says_so(self, site: Site) -> None:
        """Not for want of trying; its budget comes back, but for the seconds of its boots."""
        before = site.balances()[site.ann]
        site.cloud.faults.add(Fault(FaultKind.FAIL, lcm="BOOT"))
        platform = site.submit()
        found = site.until(platform, "failed", 40)
        assert "its VMs fail one after the other" in found.why
        assert "BOOT_FAILURE" in found.why
        told = [one for one in site.doings(platform) if one.what == "replace"]
        assert len(told) == MAX_FAILURES
        assert site.alive() == []
        assert before - 1.0 < site.balances()[site.ann] <= before

    def test_one_that_runs_goes_on_with_what_it_has(self, site: Site) -> None:
        """Where some of its VMs fail for ever, no more than so many an hour are made."""
        platform = site.submit()
        site.until(platform, "running")
        site.cloud.faults.add(Fault(FaultKind.FAIL, lcm="BOOT"))
        site.bench.ok("one.vm.action", "terminate-hard", site.vms(platform)[0])
        site.periods(50)
        assert site.platform(platform).state == "running"
        told = [one for one in site.doings(platform) if one.what == "replace"]
        assert len(told) == MAX_FAILURES
        site.cloud.faults.clear()
        site.periods(30)
        assert [site.state(vm) for vm in site.vms(platform)] == ["RUNNING", "RUNNING"]


def test_the_wanted_performance_is_changed_while_it_runs(site: Site) -> None:
    """Its controller hears of it with the next news, and after a restart."""
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
