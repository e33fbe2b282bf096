"""Deadlines on the embedded cloud are met under contention; tighter ones cost more."""

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from merkatd.platforms.declarations.template_time import TemplateTime
from merkatd.platforms.tenant_orders import Update
from merkatd.protocol.platform_messages import (
    GiveUp,
    ProgressReport,
    SetBids,
    SetSize,
)
from tests.controllers.applications.live import VM, Live
from tests.lengths import SOAK
from tests.platforms.site import BOB

STEPS = 40
IDEAL_S = 600.0
"""With one core for each VM."""


@pytest.fixture
def site() -> Iterator[Live]:
    """Return a site with one host of four cores."""
    live = Live(hosts=1)
    yield live
    live.close()


def submitted(
    site: Live,
    deadline_s: float,
    kind: str = "deadline",
    budget: float = 5000.0,
    *,
    ideal: bool = True,
    steps: int = STEPS,
) -> int:
    """Submit a platform of two ranks with one core each."""
    vm = VM.format(work=IDEAL_S, steps=steps)
    ideal_run = f'ideal_run = "{IDEAL_S:g}s"\n' if ideal else ""
    return site.submit(
        controller=f'[controller]\nkind = "{kind}"\nparameters = {{ steps = {steps} }}',
        budget=f"[budget]\ncredits = {budget}",
        slo=f'[slo]\ndeadline = "{deadline_s:g}s"\n{ideal_run}',
        cluster=f'[[cluster]]\nname = "ranks"\nleast = 2\ninitial = 2\ntemplate = """\n{vm}"""',
    )


def crowd(site: Live, vms: int, bid: float = 10.0) -> list[int]:
    """Create best-effort VMs with a constant CPU bid."""
    return [site.vm(bid, BOB, VCPU=4, MEMORY=1024) for _ in range(vms)]


def finished(site: Live, platform: int, most_periods: int = 100) -> tuple[str, float]:
    """Return the final state and the amount paid."""
    before = site.balances()[site.ann]
    for _ in range(most_periods):
        if site.platform(platform).state in {"done", "failed", "cancelled"}:
            break
        site.periods(1)
    site.periods(2)
    return site.platform(platform).state, 5000.0 - (site.balances()[site.ann] - before)


def test_a_tighter_deadline_costs_more() -> None:
    """All are met beside the same VMs; the first bids would buy almost nothing."""
    paid = []
    for deadline_s in (3_000.0, 1_400.0, 900.0) if SOAK else (1_400.0, 900.0):
        site = Live(hosts=1)
        crowd(site, 4)
        site.periods(2)
        platform = submitted(site, deadline_s)
        state, cost = finished(site, platform)
        reports = site.requests(platform, ProgressReport)
        reasons = [message.reason for message in site.requests(platform, SetBids)]
        site.close()
        assert state == "done"
        assert reports[-1].on_track
        assert reports[-1].done > 0.9
        assert reasons[0] == "its pace is not known yet"
        assert re.fullmatch(r"an iteration takes [\d.]+ s, the target is [\d.]+ s", reasons[-1])
        paid.append(cost)
    assert all(before < later for before, later in pairwise(paid))


def test_a_deadline_that_is_tightened_on_the_way_is_met(site: Live) -> None:
    """The bid rises at once, and less time is enough."""
    crowd(site, 4)
    platform = submitted(site, 4_800.0)
    site.until(platform, "running")
    site.periods(5)
    relaxed = site.requests(platform, SetBids)[-1]
    until_s = site.clock.seconds() + 900.0
    site.update(platform, Update(deadline=TemplateTime(at_s=until_s)))
    site.periods(4)
    hurried = site.requests(platform, SetBids)[-1]
    assert sum(bid["cpu"] for bid in hurried.bids.values()) > 1.5 * sum(
        bid["cpu"] for bid in relaxed.bids.values()
    )
    assert finished(site, platform)[0] == "done"


def test_an_impossible_deadline_is_given_up(site: Live) -> None:
    """A full deadline gives up; a partial deadline continues."""
    both = submitted(site, 900.0), submitted(site, 900.0, "partial_deadline")
    for platform in both:
        site.until(platform, "running")
    site.periods(4)
    crowd(site, 4, bid=20_000.0)
    states = [finished(site, platform, 40)[0] for platform in both]
    assert states == ["failed", "failed"]
    full, partial = both
    assert "deadline" in site.platform(full).why
    assert not site.requests(partial, GiveUp)
    assert site.clock.seconds() > (site.platform(partial).deadline_s or 0.0)
    assert "has passed" in site.platform(partial).why


def test_a_powered_off_vm_is_replaced(site: Live) -> None:
    """A delay allows for a host out of sight."""
    platform = submitted(site, 4_800.0)
    site.until(platform, "running")
    site.periods(2)
    before = site.vms(platform)
    site.bench.ok("embedded.guest.off", before[0])
    site.periods(1)
    assert site.vms(platform) == before
    site.periods(5)
    after = site.vms(platform)
    assert len(after) == 2
    assert before[0] not in after
    assert site.requests(platform, SetSize)[-1].reason == "powered off for too long"
    for vm in after:
        assert site.state(vm) == "RUNNING"


def test_full_performance_takes_all_it_can_get(site: Live) -> None:
    """It bids for an allocation, not for a pace: half of it would be enough for its deadline."""
    platform = submitted(site, 3_000.0, "full_performance")
    site.until(platform, "running")
    site.periods(3)
    assert site.requests(platform, SetBids)[-1].reason == "its VMs have 100% of their full size"
    crowd(site, 4)
    site.periods(8)
    vms = [latest for latest in site.notes.news if latest.platform == platform][-1].vms
    assert all(vm.allocation["cpu"] > 95.0 for vm in vms)


def test_a_vm_that_powers_off_during_the_start_is_replaced() -> None:
    """Otherwise the platform would start forever, and its other VM be charged."""
    site = Live(hosts=1)
    platform = submitted(site, 20_000.0, kind="deadline", steps=40)
    off = None
    while off is None:
        site.period()
        vms = site.vms(platform)
        if len(vms) == 2 and site.state(vms[0]) == "PENDING":
            site.bench.ok("one.vm.action", "hold", vms[0])
        for _ in range(60):
            site.clock.advance(1.0)
            if off is None and len(vms) == 2 and site.state(vms[1]) == "RUNNING":
                off = vms[1]
                site.bench.ok("one.vm.action", "poweroff-hard", off)
    assert site.platform(platform).state == "starting"
    site.until(platform, "running")
    assert off not in site.vms(platform)
    site.close()
