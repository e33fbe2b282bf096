"""A VM without a guest, during copies of its disks, keeps no cores without payment."""

import pytest

from merkatd.embedded.model.vm_states import Lcm
from merkatd.market.price import PriceRule
from tests.abuse.arena import CORES, PERIOD_S, Arena, Player
from tests.abuse.counting import Outcome
from tests.abuse.listed import Moves
from tests.lengths import pair, shorten

MUCH = 2000.0
PERIODS = shorten(12, 9)
COPIED_S = 6 * PERIOD_S


def copied(me: Player) -> Moves:
    """Bid high during most of the copy of the image, which takes minutes."""
    me.arena.set_duration(Lcm.PROLOG, COPIED_S)
    while True:
        vm = me.vm(MUCH)
        yield COPIED_S - PERIOD_S
        me.set(vm, MERKAT_BID_CPU=0.001)
        yield PERIOD_S + 5
        me.end(vm)
        yield PERIOD_S - 5


def copied_back(me: Player) -> Moves:
    """Undeploy the VM, and bid high while its disks are copied back."""
    me.arena.set_duration(Lcm.EPILOG_UNDEPLOY, COPIED_S)
    vm = me.vm(0.001)
    yield 2 * PERIOD_S
    while True:
        me.act(vm, "undeploy-hard")
        yield 5
        me.set(vm, MERKAT_BID_CPU=MUCH)
        yield COPIED_S - PERIOD_S
        me.set(vm, MERKAT_BID_CPU=0.001)
        yield 2 * PERIOD_S
        me.act(vm, "resume")
        yield 3 * PERIOD_S - 5


def ended_before_it_starts(me: Player) -> Moves:
    """Create and end another VM in each period, before its guest starts."""
    me.arena.set_duration(Lcm.PROLOG, COPIED_S)
    while True:
        vm = me.vm(MUCH)
        yield PERIOD_S + 5
        me.end(vm)
        yield PERIOD_S - 5


def _played(play: object, rule: PriceRule) -> Outcome:
    arena = Arena(rule)
    try:
        return arena.play({"eve": play}, PERIODS)["eve"]  # type: ignore[dict-item]
    finally:
        arena.close()


@pytest.mark.parametrize(("play", "rule"), pair([copied, copied_back], tuple(PriceRule)))
def test_neighbours_use_the_cores_during_the_copy(play: object, rule: PriceRule) -> None:
    """The periods of its placement are an exception, and it pays its bid for them."""
    outcome = _played(play, rule)
    placed = 0 if play is copied_back else 2
    assert outcome.fair_core_s >= 0.97 * CORES * PERIOD_S * (PERIODS - placed), outcome
    assert outcome.fair_paid <= outcome.fair_bids * 1.001, outcome
    assert outcome.paid >= 0.95 * placed * MUCH, outcome


def test_a_placement_is_charged_in_its_period() -> None:
    """This includes a VM that ends before its guest starts."""
    outcome = _played(ended_before_it_starts, PriceRule.CLEARING)
    honest = outcome.fair_paid / outcome.fair_core_s
    missed_s = CORES * PERIOD_S * PERIODS - outcome.fair_core_s
    assert missed_s > 0
    assert outcome.paid >= 0.95 * honest * missed_s, outcome
