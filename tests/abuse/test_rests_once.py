"""An honest tenant pays no more for a VM suspended once than for one that runs on."""

from collections.abc import Generator

import pytest

from merkatd.market.price import PriceRule
from tests.abuse.arena import FAIR_BID, PERIOD_S, Arena, Player
from tests.lengths import SOAK, shorten

PERIODS = shorten(10, 8)


def rests(me: Player, asleep_s: float, at_s: float) -> Generator[float, None, None]:
    """Suspend the VM during one observation, or between two."""
    vm = me.vm()
    yield 4 * PERIOD_S + at_s
    me.act(vm, "suspend")
    yield asleep_s
    me.act(vm, "resume")
    while True:
        yield PERIOD_S


def runs_on(me: Player) -> Generator[float, None, None]:
    """Run without a suspension."""
    me.vm()
    while True:
        yield PERIOD_S


@pytest.mark.parametrize(
    ("rule", "asleep_s", "at_s"),
    [
        (PriceRule.CLEARING, 40.0, 45.0),
        *([(PriceRule.PAPER, 40.0, 45.0)] if SOAK else []),
        (PriceRule.PAPER, 20.0, 20.0),
    ],
)
def test_a_vm_suspended_once_pays_for_its_running_time(
    rule: PriceRule, asleep_s: float, at_s: float
) -> None:
    """It pays its bid at most, and at most the price of a VM that runs on."""
    arena = Arena(rule)
    try:
        outcomes = arena.play(
            {"eve": lambda me: rests(me, asleep_s, at_s), "cyd": runs_on}, PERIODS, uncounted=2
        )
    finally:
        arena.close()
    rested, always = outcomes["eve"], outcomes["cyd"]
    assert rested.ran_s < always.ran_s
    # Records have whole seconds, and guests are observed every five.
    slack_s = 7.0
    assert rested.paid <= FAIR_BID * (rested.ran_s + slack_s) / PERIOD_S
    assert rested.paid / (rested.ran_s + slack_s) <= always.paid / always.ran_s * 1.001
    assert 0.95 <= rested.price_ratio <= 1.1, rested.price_ratio
