"""A guest that is started again and again has its memory for no less than neighbours pay.

It starts with all of it each time, and its balloon needs minutes to take memory that it uses.
"""

from collections.abc import Callable

import pytest

from merkatd.market.price import PriceRule
from merkatd.scheduler.observation.memory_in_use import LEAST_MIB
from tests.abuse.memory import USE_MIB, Memory
from tests.lengths import pair, shorten
from tests.scheduler.frontend import PASSWORD

STEP_S = 5
STEPS = 12
"""In a period."""
FREE_PERIODS = 10
"""In which a few starts cost nothing."""
PERIODS = shorten(15, 10)
LEAST = 0.9
"""Of what a MiB costs neighbours: what a guest held is known at the looks alone."""

Cycle = Callable[["Owner", int], None]


class Owner:
    """Of one VM with next to no bid, which uses nearly all of its memory."""

    def __init__(self, memory: Memory, **attributes: object) -> None:
        self.memory = memory
        self.attributes = attributes
        self.count = 0
        self.begin()

    def begin(self) -> None:
        """A new VM."""
        self.vm = self.memory.vm("eve", 1.0, USE_MIB, **self.attributes)

    def act(self, action: str) -> None:
        """Ask OpenNebula for it, which may refuse."""
        bench = self.memory.site.bench
        bench.raw("one.vm.action", action, self.vm, session=f"eve:{PASSWORD}")


def off_for_a_moment(me: Owner, step: int) -> None:
    """Soon after each look."""
    if step == 1:
        me.act("poweroff-hard")
    if step == 2:
        me.act("resume")


def off_at_each_look(me: Owner, step: int) -> None:
    """It has no share then."""
    if step == 0:
        me.act("resume")
    if step == STEPS - 1:
        me.act("poweroff-hard")


def a_new_vm(me: Owner, step: int) -> None:
    """For each look."""
    if step == STEPS - 2:
        me.act("terminate-hard")
    if step == STEPS - 1:
        me.begin()


def one_more(me: Owner, step: int) -> None:
    """In every other period; the earlier ones run on, with as little as a guest may have."""
    me.count += step == 0
    if step == 0 and me.count % 2:
        me.begin()


def part(cycle: Cycle, rule: PriceRule, without_mib: float = 0.0, **attributes: object) -> float:
    """What a MiB cost the tenant, as a part of what it cost neighbours.

    So much of each of its guests does not count. Its VMs have these attributes.
    """
    memory = Memory(rule)
    site = memory.site
    held = {True: 0.0, False: 0.0}
    before = site.balances()
    try:
        memory.neighbours()
        site.periods(5)
        me = Owner(memory, **attributes)
        for period in range(FREE_PERIODS + PERIODS):
            site.period()
            if period == FREE_PERIODS:
                before, held = site.balances(), {True: 0.0, False: 0.0}
            for step in range(STEPS):
                cycle(me, step)
                site.clock.advance(STEP_S)
                for vm, guest in site.cloud.guests.read().items():
                    eves = site.cloud.world.vms.rows[vm].uid == memory.eve
                    held[eves] += max(guest.balloon_mib - eves * without_mib, 0.0)
        site.period()
        after = site.balances()
    finally:
        memory.close()
    paid = {one: before[one] - after[one] for one in (site.ann, site.bob, memory.eve)}
    honest = (paid[site.ann] + paid[site.bob]) / held[False]
    return paid[memory.eve] / held[True] / honest


@pytest.mark.parametrize(
    ("cycle", "rule"), pair([off_for_a_moment, off_at_each_look, a_new_vm], tuple(PriceRule))
)
def test_memory_of_starts_is_paid_for(cycle: Cycle, rule: PriceRule) -> None:
    """From the fifth start within an hour on."""
    assert part(cycle, rule) >= LEAST


@pytest.mark.parametrize("rule", PriceRule)
def test_memory_of_ever_more_guests_is_paid_for(rule: PriceRule) -> None:
    """Beyond the little that each may keep: they run on, but not with what they started with."""
    assert part(one_more, rule, LEAST_MIB) >= LEAST


@pytest.mark.parametrize("cycle", [off_for_a_moment, off_at_each_look, a_new_vm])
def test_a_cap_makes_no_start_cheaper(cycle: Cycle) -> None:
    """A guest starts with all of its memory, however little of it the owner's cap lets it keep."""
    assert part(cycle, PriceRule.CLEARING, MERKAT_MAX_MEMORY=512) >= LEAST


@pytest.mark.parametrize("cycle", [off_for_a_moment, off_at_each_look])
def test_a_text_that_no_period_reads_makes_no_start_cheaper(cycle: Cycle) -> None:
    """Its history is read all the same, and the number of its last record each time."""
    assert part(cycle, PriceRule.CLEARING, LONG="x" * 1_200_000) >= LEAST
