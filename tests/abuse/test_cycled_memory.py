"""A guest that restarts repeatedly pays the neighbours' price for its memory.

It starts with all of its memory each time, and its balloon needs minutes to take back used memory.
"""

from collections.abc import Callable

import pytest

from merkatd.market.price import PriceRule
from merkatd.scheduler.observation.memory_in_use import LEAST_MIB
from tests.abuse.memory import SIZE_MIB, USE_MIB, Memory
from tests.lengths import SOAK, pair, shorten
from tests.long_texts import TOO_LONG, lower_limit
from tests.scheduler.frontend import PASSWORD

STEP_S = 5
STEPS = 12
"""The number of steps in a period."""
FREE_PERIODS = shorten(10, 5)
"""The first periods, in which a few starts are free."""
PERIODS = shorten(15, 4)
LEAST = 0.9
"""The least part of the neighbours' price; a guest's memory is known only when observed."""

Cycle = Callable[["Owner", int], None]


class Owner:
    """The owner of one VM with a tiny bid that uses nearly all of its memory."""

    def __init__(self, memory: Memory, **attributes: object) -> None:
        self.memory = memory
        self.attributes = attributes
        self.count = 0
        self.begin()

    def begin(self) -> None:
        """Create a new VM."""
        self.vm = self.memory.vm("eve", 1.0, USE_MIB, **self.attributes)

    def act(self, action: str) -> None:
        """Request an action from OpenNebula, which may reject it."""
        bench = self.memory.site.bench
        bench.raw("one.vm.action", action, self.vm, session=f"eve:{PASSWORD}")


def off_for_a_moment(me: Owner, step: int) -> None:
    """Power off and on soon after each observation."""
    if step == 1:
        me.act("poweroff-hard")
    if step == 2:
        me.act("resume")


def off_at_each_look(me: Owner, step: int) -> None:
    """Be off, and without a share, at each observation."""
    if step == 0:
        me.act("resume")
    if step == STEPS - 1:
        me.act("poweroff-hard")


def a_new_vm(me: Owner, step: int) -> None:
    """Replace the VM before each observation."""
    if step == STEPS - 2:
        me.act("terminate-hard")
    if step == STEPS - 1:
        me.begin()


def one_more(me: Owner, step: int) -> None:
    """Create a VM in every other period; earlier ones keep running with the least share."""
    me.count += step == 0
    if step == 0 and me.count % 2:
        me.begin()


def price_ratio(
    cycle: Cycle,
    rule: PriceRule,
    without_mib: float = 0.0,
    free_periods: int = FREE_PERIODS,
    **attributes: object,
) -> float:
    """Return the tenant's price of a MiB relative to the neighbours' price.

    `without_mib` of each of its guests does not count, nor do the first `free_periods`. Its VMs
    have these attributes.
    """
    memory = Memory(rule)
    site = memory.site
    held = {True: 0.0, False: 0.0}
    before = site.balances()
    try:
        memory.add_neighbours()
        site.periods(3)
        me = Owner(memory, **attributes)
        for period in range(free_periods + PERIODS):
            site.period()
            if period == free_periods:
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
    paid = {owner: before[owner] - after[owner] for owner in (site.ann, site.bob, memory.eve)}
    honest = (paid[site.ann] + paid[site.bob]) / held[False]
    return paid[memory.eve] / held[True] / honest


@pytest.mark.parametrize(
    ("cycle", "rule"), pair([off_for_a_moment, off_at_each_look, a_new_vm], tuple(PriceRule))
)
def test_memory_of_repeated_starts_is_charged(cycle: Cycle, rule: PriceRule) -> None:
    """The charge begins with the fifth start within an hour."""
    assert price_ratio(cycle, rule) >= LEAST


@pytest.mark.parametrize("rule", tuple(PriceRule) if SOAK else (PriceRule.PAPER,))
def test_memory_of_ever_more_guests_is_charged(rule: PriceRule) -> None:
    """Each guest keeps the least memory free and pays for the rest of its initial memory."""
    assert price_ratio(one_more, rule, LEAST_MIB, free_periods=10) >= LEAST


@pytest.mark.parametrize(
    "cycle", [off_for_a_moment, off_at_each_look, a_new_vm] if SOAK else [a_new_vm]
)
def test_a_cap_makes_no_start_cheaper(cycle: Cycle) -> None:
    """A guest starts with all of its memory, regardless of its cap."""
    assert price_ratio(cycle, PriceRule.CLEARING, MERKAT_MAX_MEMORY=512) >= LEAST


@pytest.mark.parametrize(
    "cycle", [off_for_a_moment, off_at_each_look] if SOAK else [off_at_each_look]
)
def test_an_unreadable_template_makes_no_start_cheaper(cycle: Cycle) -> None:
    """The VM's history and the number of its last record are still read."""
    with lower_limit():
        assert price_ratio(cycle, PriceRule.CLEARING, LONG=TOO_LONG) >= LEAST


@pytest.mark.parametrize("text", ["x", TOO_LONG], ids=["readable", "too long"])
@pytest.mark.parametrize(
    "cycle", [off_for_a_moment, off_at_each_look] if SOAK else [off_at_each_look]
)
def test_memory_beyond_the_size_makes_no_start_cheaper(cycle: Cycle, text: str) -> None:
    """A guest starts with MEMORY_MAX, which may be unreadable; a balloon shrinks it to MEMORY."""
    rule = PriceRule.CLEARING
    with lower_limit():
        assert price_ratio(cycle, rule, MEMORY=512, MEMORY_MAX=SIZE_MIB, LONG=text) >= LEAST
