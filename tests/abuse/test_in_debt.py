"""An owner in debt has nothing to gain from VMs that it starts again and again."""

from dataclasses import replace

import pytest

from merkatd.cluster import Stop
from merkatd.currency import micro
from merkatd.database.ledger import charge_store
from merkatd.database.scheduler import journal
from merkatd.database.scheduler.order_store import Order
from merkatd.embedded.model.vm_states import Lcm
from merkatd.ledger import Ledger, tenant
from merkatd.market.price import PriceRule
from tests.abuse.arena import CORES, FAIR_BID, PERIOD_S, Arena, Play, Player
from tests.abuse.listed import Moves
from tests.abuse.memory import SIZE_MIB, USE_MIB, Memory
from tests.scheduler.frontend import PASSWORD

CREDIT_PERIODS = 16
"""After these the player has not paid for ten periods."""
PERIODS = 26


def without_credits(me: Player) -> None:
    """All but a hundred are taken."""
    me.arena.wait(me.ledger.grant(me.owner, -micro(me.credits - 100), "root"))


def again_and_again(away: str, count: int) -> Play:
    """Each of its VMs runs for four seconds of five, never when the daemon looks."""

    def play(me: Player) -> Moves:
        without_credits(me)
        vms = [me.vm(FAIR_BID, CPU=64) for _ in range(count)]
        yield 2 * PERIOD_S + 3
        while True:
            for vm in vms:
                me.act(vm, away)
            yield 1
            for vm in vms:
                me.act(vm, "resume")
            yield 4

    return play


@pytest.mark.parametrize(("away", "count"), [("poweroff-hard", 1), ("suspend", 8)])
def test_its_vms_are_stopped_once_it_has_not_paid_for_too_long(away: str, count: int) -> None:
    """From then on its neighbours have the host for themselves."""
    arena = Arena(PriceRule.CLEARING, tick_s=1)
    computed: list[float] = []
    play = again_and_again(away, count)

    def watched(me: Player) -> Moves:
        for number, pause in enumerate(play(me)):
            if number % 24 == 0:
                arena.sample()
                computed.append(arena.computed(me.owner))
            yield pause

    try:
        whole = arena.play({"eve": watched}, PERIODS)["eve"]
    finally:
        arena.close()
    late = whole.core_s - computed[CREDIT_PERIODS]
    assert late < 0.01 * CORES * PERIOD_S * (PERIODS - CREDIT_PERIODS), computed


def late_with_a_boot(boot_s: float) -> tuple[Arena, Player, int]:
    """An owner has just become late, and its VM boots for so long, from 4 s before that look."""
    arena = Arena(PriceRule.CLEARING, tick_s=1)
    arena._periods(3)
    me = Player(arena, "eve")
    without_credits(me)
    vm = me.vm(FAIR_BID, CPU=64)
    arena._periods(2)
    while arena.read(charge_store.load).get(me.owner, 0.0) < 8.9:
        blink(arena, me, vm)
        me.act(vm, "resume")
        arena.clock.advance(1)
        arena._look()
    blink(arena, me, vm)
    arena.lasts(Lcm.BOOT_POWEROFF, boot_s)
    me.act(vm, "resume")
    arena.clock.advance(4)
    arena._look()
    arena.clock.advance(5)
    assert stops(arena)
    return arena, me, vm


def blink(arena: Arena, me: Player, vm: int) -> None:
    """Nearly a minute, of which it is off for a moment at the beginning, and at the end."""
    me.act(vm, "poweroff-hard")
    arena.clock.advance(3)
    me.act(vm, "resume")
    arena.clock.advance(50)
    me.act(vm, "poweroff-hard")
    arena.clock.advance(3)


def second_by_second(arena: Arena, seconds: int) -> None:
    """What is tried again and again is tried as often as it would be."""
    for _ in range(seconds):
        arena.clock.advance(1)


def stops(arena: Arena) -> list[int]:
    """The periods of the stops that are under way."""
    steps = (one.step for one in arena.read(journal.outstanding))
    return [step.period for step in steps if isinstance(step, Stop)]


def test_a_stop_that_could_not_be_asked_for_is_taken_back_when_its_owner_has_paid() -> None:
    """Otherwise the VM pays its bid and is told no limits."""
    arena, me, vm = late_with_a_boot(20)
    arena.wait(me.ledger.grant(me.owner, micro(100_000), "root"))
    second_by_second(arena, 5)
    assert not stops(arena)
    arena.clock.advance(46)
    arena._periods(2)
    assert arena.state(vm) == "RUNNING"
    arena.close()


def test_each_period_asks_anew_for_a_stop_that_could_not_be_asked_for() -> None:
    """One that counted as under way for half an hour would keep later ones from being asked for."""
    arena, _, vm = late_with_a_boot(110)
    first = stops(arena)
    arena.clock.advance(51)
    arena._look()
    arena.clock.advance(2)
    assert stops(arena) > first
    second_by_second(arena, 55)
    assert arena.state(vm) != "RUNNING"
    arena.close()


def test_a_stop_is_taken_back_later_where_the_database_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is forgotten only once the journal says that it is not under way."""
    arena, _, _ = late_with_a_boot(110)
    barred, world = arena.scheduler._taking_part.barred, arena.scheduler.world
    with monkeypatch.context() as broken:
        broken.setattr(journal, "refuse", _fails)
        with pytest.raises(OSError, match="no space left"):
            arena.wait(barred.take_back(world))
    assert stops(arena)
    arena.wait(barred.take_back(world))
    assert not stops(arena)
    arena.close()


def _fails(*_arguments: object) -> None:
    raise OSError("no space left")


@pytest.mark.parametrize("order", [Order.PAUSE, Order.MODE_DRY, Order.MODE_ASK])
def test_nothing_is_stopped_between_two_periods_once_an_administrator_forbids_it(
    order: Order,
) -> None:
    """The boot ends a few seconds later."""
    arena, _, vm = late_with_a_boot(20)
    arena.wait(arena.scheduler.order(order, "root"))
    second_by_second(arena, 40)
    assert arena.state(vm) == "RUNNING"
    assert not stops(arena)
    arena.close()


def test_a_vm_that_is_changed_at_each_look_is_stopped_all_the_same() -> None:
    """No period can suspend it, and its owner would keep its memory for nothing."""
    memory = Memory(PriceRule.CLEARING)
    site, owner = memory.site, memory.eve
    settings = site.cloud.world.settings
    slow = {**settings.delays.by_state, Lcm.HOTPLUG_RESIZE: 4.0}
    site.cloud.world.settings = replace(settings, delays=replace(settings.delays, by_state=slow))
    vm = memory.vm("eve", 0.0, USE_MIB)
    site.periods(2)
    ledger = Ledger(site.scheduler.world.database, site.clock.seconds, site.scheduler.world.money)
    has = site.read(lambda c: tenant(c, owner))
    site.wait(ledger.grant(owner, has.reserved - has.balance, "root"))
    for turn in range(13):
        for _ in range(59):
            site.clock.advance(1)
        text = f"MEMORY={SIZE_MIB + 1 + turn % 2}"
        site.bench.raw("one.vm.resize", vm, text, False, session=f"eve:{PASSWORD}")
        assert site.state(vm) in {"HOTPLUG_RESIZE", "STOPPED"}
        site.clock.advance(1)
        site.period()
    assert site.state(vm) == "STOPPED"
    site.agree()
    memory.close()
