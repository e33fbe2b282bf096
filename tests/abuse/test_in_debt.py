"""An owner in debt gains nothing from repeated starts of its VMs."""

from dataclasses import replace

import pytest

from merkatd.cluster import Stop
from merkatd.currency import micro
from merkatd.currency.settings import MoneySettings
from merkatd.database.ledger import charge_store
from merkatd.database.scheduler import journal
from merkatd.database.scheduler.order_store import Order
from merkatd.embedded.model.vm_states import Lcm
from merkatd.ledger import Ledger, tenant
from merkatd.market.price import PriceRule
from tests.abuse.arena import CORES, FAIR_BID, PERIOD_S, Arena, Play, Player
from tests.abuse.listed import Moves
from tests.abuse.memory import SIZE_MIB, USE_MIB, Memory
from tests.lengths import SOAK, shorten
from tests.scheduler.frontend import PASSWORD

UNPAID = shorten(10, 4)
CREDIT_PERIODS = UNPAID + 6
"""The number of periods after which the player has not paid for long enough."""
PERIODS = CREDIT_PERIODS + shorten(10, 6)


def take_credits(me: Player, left: float) -> None:
    """Take all credits but this number."""
    me.arena.wait(me.ledger.grant(me.owner, -micro(me.credits - left), "root"))


def restarting(away: str, count: int) -> Play:
    """Run each VM for four seconds of five, but never at an observation."""

    def play(me: Player) -> Moves:
        take_credits(me, 100)
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


WAYS = (("poweroff-hard", 1), ("suspend", 8))


@pytest.mark.parametrize(("away", "count"), WAYS if SOAK else WAYS[1:])
def test_vms_of_an_owner_in_long_debt_are_stopped(away: str, count: int) -> None:
    """From then on the neighbours have the whole host."""
    money = MoneySettings(supply=100_000_000, renewal_s=1e9, unpaid_periods=UNPAID)
    arena = Arena(PriceRule.CLEARING, tick_s=1, money=money)
    computed: list[float] = []
    play = restarting(away, count)

    def watched(me: Player) -> Moves:
        for number, pause in enumerate(play(me)):
            if number % 24 == 0:
                arena.sample()
                computed.append(arena.computed(me.owner))
            yield pause

    try:
        outcome = arena.play({"eve": watched}, PERIODS)["eve"]
    finally:
        arena.close()
    late = outcome.core_s - computed[CREDIT_PERIODS]
    assert late < 0.01 * CORES * PERIOD_S * (PERIODS - CREDIT_PERIODS), computed


def prepare_late_owner(boot_s: float) -> tuple[Arena, Player, int]:
    """Make an owner late, with a VM that boots for this time from 4 s before the observation."""
    arena = Arena(PriceRule.CLEARING, tick_s=1)
    arena._periods(1)
    me = Player(arena, "eve")
    take_credits(me, 30)
    vm = me.vm(FAIR_BID, CPU=64)
    arena._periods(2)
    while (unpaid := arena.read(charge_store.load).get(me.owner, 0.0)) < 8.9:
        if 0 < unpaid < 7:
            arena.read(lambda c: charge_store.replace(c, {me.owner: unpaid + 7}))
        blink(arena, me, vm)
        me.act(vm, "resume")
        arena.clock.advance(1)
        arena._run_period()
    blink(arena, me, vm)
    arena.set_duration(Lcm.BOOT_POWEROFF, boot_s)
    me.act(vm, "resume")
    arena.clock.advance(4)
    arena._run_period()
    arena.clock.advance(5)
    assert stops(arena)
    return arena, me, vm


def blink(arena: Arena, me: Player, vm: int) -> None:
    """Run for nearly a minute, and power off briefly at its beginning and its end."""
    me.act(vm, "poweroff-hard")
    arena.clock.advance(3)
    me.act(vm, "resume")
    arena.clock.advance(50)
    me.act(vm, "poweroff-hard")
    arena.clock.advance(3)


def advance_seconds(arena: Arena, seconds: int) -> None:
    """Advance second by second, so that retries happen as often as in real time."""
    for _ in range(seconds):
        arena.clock.advance(1)


def stops(arena: Arena) -> list[int]:
    """Return the periods of the outstanding stops."""
    steps = (row.step for row in arena.read(journal.outstanding))
    return [step.period for step in steps if isinstance(step, Stop)]


def test_an_unsent_stop_is_cancelled_when_its_owner_pays() -> None:
    """Otherwise the VM would pay its bid without new limits."""
    arena, me, vm = prepare_late_owner(20)
    arena.wait(me.ledger.grant(me.owner, micro(100_000), "root"))
    advance_seconds(arena, 5)
    assert not stops(arena)
    arena.clock.advance(46)
    arena._periods(2)
    assert arena.state(vm) == "RUNNING"
    arena.close()


def test_each_period_requests_an_unsent_stop_again() -> None:
    """A stop outstanding for half an hour would block later ones."""
    arena, _, vm = prepare_late_owner(110)
    first = stops(arena)
    arena.clock.advance(51)
    arena._run_period()
    arena.clock.advance(2)
    assert stops(arena) > first
    advance_seconds(arena, 55)
    assert arena.state(vm) != "RUNNING"
    arena.close()


def test_a_stop_is_cancelled_later_if_the_database_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The daemon forgets it only after the journal has recorded the end."""
    arena, _, _ = prepare_late_owner(110)
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


@pytest.mark.parametrize("order", [Order.PAUSE, Order.MODE_ASK, *[Order.MODE_DRY] * SOAK])
def test_no_vm_is_stopped_between_periods_after_an_administrators_order(
    order: Order,
) -> None:
    """The boot ends a few seconds after the order."""
    arena, _, vm = prepare_late_owner(20)
    arena.wait(arena.scheduler.order(order, "root"))
    advance_seconds(arena, 40)
    assert arena.state(vm) == "RUNNING"
    assert not stops(arena)
    arena.close()


def test_a_vm_changed_at_each_observation_is_stopped() -> None:
    """No period can suspend it, so it would keep its memory without payment."""
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
