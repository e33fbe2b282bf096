"""Deadlines on the embedded cloud: met while others compete, the tighter the dearer."""

import re
from collections.abc import Iterator

import pytest

from merkatd.platforms.lifecycle.platform_template import TemplateTime
from merkatd.platforms.tenant_orders import Update
from merkatd.protocol.platform_messages import (
    GiveUp,
    ProgressReport,
    SetBids,
    SetSize,
    SuspendPlatform,
)
from tests.controllers.applications.live import VM, Live
from tests.platforms.site import BOB

STEPS = 40
IDEAL_S = 600.0
"""With a core to itself."""


@pytest.fixture
def site() -> Iterator[Live]:
    """One host of four cores."""
    one = Live(hosts=1)
    yield one
    one.close()


def submitted(
    site: Live,
    deadline_s: float,
    kind: str = "deadline",
    budget: float = 5000.0,
    *,
    ideal: bool = True,
    steps: int = STEPS,
) -> int:
    """A platform of two ranks on one core each."""
    vm = VM.format(work=IDEAL_S, steps=steps)
    ideal_run = f'ideal_run = "{IDEAL_S:g}s"\n' if ideal else ""
    return site.submit(
        controller=f'[controller]\nkind = "{kind}"\nparameters = {{ steps = {steps} }}',
        budget=f"[budget]\ncredits = {budget}",
        slo=f'[slo]\ndeadline = "{deadline_s:g}s"\n{ideal_run}',
        cluster=f'[[cluster]]\nname = "ranks"\nleast = 2\ninitial = 2\ntemplate = """\n{vm}"""',
    )


def crowd(site: Live, vms: int, bid: float = 10.0) -> list[int]:
    """Best-effort VMs that bid the same for CPU all the time."""
    return [site.vm(bid, BOB, VCPU=4, MEMORY=1024) for _ in range(vms)]


def finished(site: Live, platform: int, most_periods: int = 100) -> tuple[str, float]:
    """How it ended, and what it paid."""
    before = site.balances()[site.ann]
    for _ in range(most_periods):
        if site.platform(platform).state in {"done", "failed", "cancelled"}:
            break
        site.periods(1)
    site.periods(2)
    return site.platform(platform).state, 5000.0 - (site.balances()[site.ann] - before)


def test_a_deadline_is_met_while_others_compete(site: Live) -> None:
    """Four arrive on the way; with the bids of its beginning it would get next to nothing."""
    platform = submitted(site, 2_400.0)
    site.until(platform, "running")
    for _ in range(4):
        site.periods(3)
        crowd(site, 1)
    state, _ = finished(site, platform)
    assert state == "done", site.platform(platform)
    reports = site.said(platform, ProgressReport)
    assert reports[-1].on_track
    assert reports[-1].done > 0.9
    reasons = [one.reason for one in site.said(platform, SetBids)]
    assert reasons[0] == "its pace is not known yet"
    assert re.fullmatch(r"an iteration takes [\d.]+ s, the target is [\d.]+ s", reasons[-1])


def test_who_wants_all_it_can_use_says_what_it_has(site: Live) -> None:
    """Its bids are for an allocation, not for a pace."""
    platform = submitted(site, 2_400.0, "full_performance")
    site.until(platform, "running")
    site.periods(4)
    said = site.said(platform, SetBids)[-1].reason
    assert said == "its VMs have 100% of their full size"


def test_the_tighter_the_dearer() -> None:
    """Three deadlines, the same crowd: each is met, and an earlier one costs more."""
    paid = []
    for deadline_s in (3_000.0, 1_400.0, 900.0):
        site = Live(hosts=1)
        crowd(site, 4)
        site.periods(2)
        state, cost = finished(site, submitted(site, deadline_s))
        site.close()
        assert state == "done"
        paid.append(cost)
    assert paid[0] < paid[1] < paid[2]


def test_a_deadline_that_is_tightened_on_the_way_is_met(site: Live) -> None:
    """The bid rises at once, and less time is enough."""
    crowd(site, 4)
    platform = submitted(site, 4_800.0)
    site.until(platform, "running")
    site.periods(8)
    relaxed = site.said(platform, SetBids)[-1]
    until_s = site.clock.seconds() + 1_200.0
    site.update(platform, Update(deadline=TemplateTime(at_s=until_s)))
    site.periods(4)
    hurried = site.said(platform, SetBids)[-1]
    assert sum(bid["cpu"] for bid in hurried.bids.values()) > 1.5 * sum(
        bid["cpu"] for bid in relaxed.bids.values()
    )
    assert finished(site, platform)[0] == "done"


def test_a_price_that_is_too_high_suspends_until_it_falls(site: Live) -> None:
    """With time to spare it waits, and is resumed; its work is not lost."""
    platform = submitted(site, 4_800.0, budget=200.0)
    site.until(platform, "running")
    site.periods(4)
    rich = crowd(site, 4, bid=500.0)
    site.until(platform, "suspended")
    assert site.said(platform, SuspendPlatform)
    site.periods(5)
    for vm in rich:
        site.bench.ok("one.vm.action", "terminate-hard", vm)
    site.until(platform, "running")
    assert finished(site, platform)[0] == "done"


def test_what_can_not_be_made_any_more_is_given_up(site: Live) -> None:
    """By whoever wants all in time; half of it is worth something to others, who go on."""
    both = submitted(site, 1_500.0), submitted(site, 1_500.0, "partial_deadline")
    for platform in both:
        site.until(platform, "running")
    site.periods(4)
    crowd(site, 4, bid=20_000.0)
    states = [finished(site, platform, 40)[0] for platform in both]
    assert states == ["failed", "failed"]
    full, partial = both
    assert "deadline" in site.platform(full).why
    assert not site.said(partial, GiveUp)
    assert site.clock.seconds() > (site.platform(partial).deadline_s or 0.0)
    assert "has passed" in site.platform(partial).why


def test_a_vm_that_goes_out_is_replaced(site: Live) -> None:
    """Not at once: a host may just not be seen for a while. The work goes on and is done."""
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
    assert site.said(platform, SetSize)[-1].reason == "powered off for too long"
    for vm in after:
        assert site.state(vm) == "RUNNING"
    assert finished(site, platform)[0] == "done"


def test_full_performance_takes_all_it_can_get(site: Live) -> None:
    """Though half of it would be enough for its deadline."""
    crowd(site, 4)
    platform = submitted(site, 3_000.0, "full_performance")
    site.until(platform, "running")
    site.periods(8)
    vms = [one for one in site.notes.news if one.platform == platform][-1].vms
    assert all(one.allocation["cpu"] > 95.0 for one in vms)
    assert finished(site, platform)[0] == "done"


def test_a_vm_that_goes_out_while_others_start_is_made_anew() -> None:
    """Its platform would start for ever, and its other VM be paid for."""
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
    site.until(platform, "done", 100)
    assert off not in site.vms(platform)
    site.close()
