"""A text that is too long to be read hides no time in which its VM runs."""

from merkatd.market.price import PriceRule
from tests.abuse.arena import PERIOD_S, Arena, Player
from tests.abuse.listed import Moves

PERIODS = 20
ON_S = 45.0
"""In each period, from soon after a look until soon before the next."""
LONG = "x" * 1_200_000


def off_at_each_look(me: Player) -> Moves:
    """Its VMs are off while the daemon looks, and run in between; their texts are long."""
    vms = [me.vm(20.0) for _ in range(4)]
    yield PERIOD_S + 10.0
    for vm in vms:
        me.set(vm, LONG=LONG)
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


def test_what_runs_between_looks_alone_is_paid_for_whatever_the_text() -> None:
    """It was charged in those periods only in which the text was tried again."""
    arena = Arena(PriceRule.CLEARING)
    found = arena.play({"eve": off_at_each_look}, PERIODS)["eve"]
    arena.close()
    assert found.core_s > 1_000.0
    assert found.paid / found.core_s >= 0.95 * found.fair_paid / found.fair_core_s
