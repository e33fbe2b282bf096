"""An honest tenant that suspends its VM once and resumes it pays no more than one that goes on."""

from collections.abc import Generator

import pytest

from merkatd.market.price import PriceRule
from tests.abuse.arena import FAIR_BID, PERIOD_S, Arena, Outcome, Player

PERIODS = 10


def rests(me: Player, asleep_s: float, at_s: float) -> Generator[float, None, None]:
    """Off over one look, or between two of them."""
    vm = me.vm()
    yield 4 * PERIOD_S + at_s
    me.act(vm, "suspend")
    yield asleep_s
    me.act(vm, "resume")
    while True:
        yield PERIOD_S


def goes_on(me: Player) -> Generator[float, None, None]:
    """Never off."""
    me.vm()
    while True:
        yield PERIOD_S


def came_to(rule: PriceRule, play: object) -> Outcome:
    """What came of one player beside four neighbours."""
    arena = Arena(rule)
    try:
        return arena.play({"eve": play}, PERIODS)["eve"]  # type: ignore[dict-item]
    finally:
        arena.close()


@pytest.mark.parametrize(
    ("rule", "asleep_s", "at_s"),
    [
        (PriceRule.CLEARING, 40.0, 45.0),
        (PriceRule.PAPER, 40.0, 45.0),
        (PriceRule.PAPER, 20.0, 20.0),
    ],
)
def test_a_vm_that_rests_once_pays_for_the_time_that_it_ran(
    rule: PriceRule, asleep_s: float, at_s: float
) -> None:
    """At most its bid, and at most what a VM that goes on pays for as long."""
    rested = came_to(rule, lambda me: rests(me, asleep_s, at_s))
    always = came_to(rule, goes_on)
    assert rested.ran_s < always.ran_s
    # Records have whole seconds, and guests are looked at every five.
    slack_s = 7.0
    assert rested.paid <= FAIR_BID * (rested.ran_s + slack_s) / PERIOD_S
    assert rested.paid / (rested.ran_s + slack_s) <= always.paid / always.ran_s * 1.001
    assert 0.95 <= rested.part <= 1.1, rested.part
