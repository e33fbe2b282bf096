"""A template too long to read hides no running time of its VM."""

from merkatd.market.price import PriceRule
from tests.abuse.arena import PERIOD_S, Arena, Player
from tests.abuse.listed import Moves
from tests.lengths import shorten
from tests.long_texts import TOO_LONG, lower_limit

PERIODS = shorten(20, 5)
ON_S = 45.0
"""The running time in each period, between two observations."""


def off_at_each_look(me: Player) -> Moves:
    """Run VMs with long templates between observations, and power them off at each one."""
    vms = [me.vm(20.0) for _ in range(4)]
    yield PERIOD_S + 10.0
    for vm in vms:
        me.set(vm, LONG=TOO_LONG)
    yield ON_S
    for vm in vms:
        me.act(vm, "poweroff-hard")
    yield 10.0
    while True:
        for vm in vms:
            me.act(vm, "resume")
        yield ON_S
        for vm in vms:
            me.act(vm, "poweroff-hard")
        yield PERIOD_S - ON_S


def test_vms_that_run_only_between_observations_pay_despite_long_templates() -> None:
    """Earlier versions charged only the periods that read the template again."""
    arena = Arena(PriceRule.CLEARING)
    with lower_limit():
        outcome = arena.play({"eve": off_at_each_look}, PERIODS)["eve"]
    arena.close()
    assert outcome.core_s > 50.0 * PERIODS
    assert outcome.paid / outcome.core_s >= 0.95 * outcome.fair_paid / outcome.fair_core_s
