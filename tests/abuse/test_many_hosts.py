"""In a cloud of hundreds of hosts, each observed rarely, guests pay for the time in between."""

import pytest

from merkatd.market.price import PriceRule
from merkatd.scheduler.execution import guest_watch
from tests.abuse.arena import CORES, FAIR_BID, PERIOD_S, Arena, Player, vm_text
from tests.abuse.listed import Moves
from tests.lengths import shorten
from tests.scheduler.frontend import PASSWORD

HERE = {"SCHED_REQUIREMENTS": "ID = 0"}
HOSTS = 4
SHORT_AND_LONG = ((3.5, 5.5), (7, 22), (23.5, 25.5), (27, 42), (43.5, 45.5), (47, 57))
"""On and off in each minute: a short guest at each observation, a long one in between."""
PERIODS = shorten(10, 6)


def short_ones_are_seen(me: Player) -> Moves:
    """Run a VM with the largest weight that OpenNebula allows until it has limits."""
    vm = me.vm(0.01, CPU=256, VCPU=1, **HERE)
    yield 2 * PERIOD_S + 1
    me.act(vm, "poweroff-hard")
    yield PERIOD_S - 1
    while True:
        at_s = 0.0
        for on_s, off_s in SHORT_AND_LONG:
            yield on_s - at_s
            me.act(vm, "resume")
            yield off_s - on_s
            me.act(vm, "poweroff-hard")
            at_s = off_s
        yield PERIOD_S - at_s


def test_short_guests_do_not_hide_long_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one host an observation, four hosts are observed as rarely as four hundred."""
    monkeypatch.setattr(guest_watch, "MOST_HOSTS", 1)
    arena = Arena(PriceRule.CLEARING, tick_s=0.5, hosts=HOSTS, neighbours=0)
    try:
        for number in range(4 * HOSTS):
            bound = {"VCPU": CORES, "SCHED_REQUIREMENTS": f"ID = {number % HOSTS}"}
            session = f"{('ann', 'bob')[number % 2]}:{PASSWORD}"
            arena.honest.append(arena.bench.new(vm_text(FAIR_BID, **bound), session=session))
        outcome = arena.play({"eve": short_ones_are_seen}, PERIODS)["eve"]
    finally:
        arena.close()
    price = 4 * FAIR_BID / (CORES * PERIOD_S)
    assert outcome.paid >= 0.95 * price * outcome.core_s, outcome
