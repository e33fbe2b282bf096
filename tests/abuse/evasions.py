"""Strategies that evade the charge: by time, by money that is moved, outside the market."""

from collections.abc import Callable
from itertools import count

from merkatd.embedded.model.vm_states import Lcm
from tests.abuse.arena import CORES, CREDITS, FAIR_BID, LATER, PERIOD_S, Player
from tests.abuse.listed import AFTER_S, BEFORE_S, Moves, forever, strategy

LARGE = 10_500_000
"""Characters: more than a reader of XML takes in one piece, unless it is told to."""

# -- time ----------------------------------------------------------------------------------------


@strategy
def between_looks(me: Player) -> Moves:
    """Placed by a period, gone before the next."""
    while True:
        vm = me.vm()
        yield PERIOD_S + AFTER_S
        me.end(vm)
        yield BEFORE_S


def _hides(me: Player, away: str, back: str = "resume") -> Moves:
    vm = me.vm()
    yield PERIOD_S + 10
    while True:
        yield AFTER_S - 10
        me.act(vm, away)
        yield BEFORE_S + 5
        me.act(vm, back)
        yield 5


@strategy
def suspends_before_each_look(me: Player) -> Moves:
    """And resumes after it."""
    return _hides(me, "suspend")


@strategy
def off_before_each_look(me: Player) -> Moves:
    """The same with the power."""
    return _hides(me, "poweroff-hard")


@strategy
def stops_before_each_look(me: Player) -> Moves:
    """The same; it waits to be placed again."""
    return _hides(me, "stop")


@strategy
def reboots_after_each_look(me: Player) -> Moves:
    """A guest that boots has no limits until the next period."""
    vm = me.vm(1, VCPU=2)
    yield PERIOD_S + 10
    while True:
        me.act(vm, "reboot-hard")
        yield PERIOD_S


@strategy
def off_and_on_after_each_look(me: Player) -> Moves:
    """The same by the power."""
    vm = me.vm(1, VCPU=2)
    yield PERIOD_S + 10
    while True:
        me.act(vm, "poweroff-hard")
        yield 5
        me.act(vm, "resume")
        yield AFTER_S


def _busy(me: Player, state: Lcm, change: Callable[[int, int], None]) -> Moves:
    me.arena.lasts(state, BEFORE_S + 3)
    vm = me.vm(2 * FAIR_BID)
    yield 2 * PERIOD_S
    for turn in count():
        me.set(vm, MERKAT_BID_CPU=0.01)
        yield AFTER_S
        change(vm, turn)
        yield BEFORE_S


@strategy
def resized_at_each_look(me: Player) -> Moves:
    """A bid for two periods; from then on the VM is busy at each look, and keeps its old limits."""

    def change(vm: int, turn: int) -> None:
        size = f'CPU="1"\nVCPU="{CORES}"\nMEMORY="{513 + turn % 2}"'
        me.ask("one.vm.resize", vm, size, False)

    return _busy(me, Lcm.HOTPLUG_RESIZE, change)


@strategy
def reconfigured_at_each_look(me: Player) -> Moves:
    """The same by its context."""

    def change(vm: int, turn: int) -> None:
        me.ask("one.vm.updateconf", vm, f'CONTEXT=[X="{turn}"]', 1)

    return _busy(me, Lcm.HOTPLUG, change)


@strategy
def made_in_turns(me: Player) -> Moves:
    """Two VMs, of which one runs while the other is not looked at."""
    while True:
        for _ in range(2):
            vm = me.vm(3 * FAIR_BID)
            yield PERIOD_S + 30
            me.end(vm)


@strategy
def beside_a_slow_copy(me: Player) -> Moves:
    """Each VM is gone before the next look, while the image of another is copied for an hour."""
    me.arena.lasts(Lcm.PROLOG_UNDEPLOY, 3_600)
    helper = me.vm(0.01, VCPU=1)
    yield PERIOD_S + 10
    me.act(helper, "undeploy-hard")
    yield 20
    me.act(helper, "resume")
    yield 30
    while True:
        vm = me.vm(3 * FAIR_BID)
        yield PERIOD_S + AFTER_S
        me.end(vm)
        yield BEFORE_S


# -- money ---------------------------------------------------------------------------------------


@strategy
def moves_money(me: Player) -> Moves:
    """A VM of the account and one of a platform; all money is with the one that needn't pay."""
    platform = me.platform(CREDITS / 2)
    me.vm(3 * FAIR_BID)
    while True:
        yield 5
        me.bid(platform, 3 * FAIR_BID)
        me.everything_to(platform)
        yield PERIOD_S
        me.budget(platform, 1)
        yield AFTER_S


@strategy
def parks_money(me: Player) -> Moves:
    """As soon as a VM runs, all money goes into a platform; it comes back before decisions."""
    platform = me.platform(10, start=LATER)
    me.vm(2 * FAIR_BID)
    while True:
        yield 5
        me.budget(platform, 10 + me.credits - 100)
        yield AFTER_S - 5
        me.budget(platform, 10)
        yield BEFORE_S


@strategy
def ends_its_platforms(me: Player) -> Moves:
    """A platform ends before its charge, with all its money gone back."""
    while True:
        platform = me.platform(1000)
        yield PERIOD_S
        me.bid(platform, 2 * FAIR_BID)
        yield 2 * PERIOD_S + AFTER_S
        me.stop(platform)
        yield BEFORE_S + PERIOD_S


@strategy
def ends_platforms_of_the_poor(me: Player) -> Moves:
    """The same, with the account emptied into another platform."""
    me.park(2000)
    yield from ends_its_platforms(me)


@strategy
def bids_the_same_credits_often(me: Player) -> Moves:
    """Many VMs, each with a bid for all that there is."""
    me.park(30)
    for _ in range(6):
        me.vm(30)
    yield from forever()


@strategy
def spends_before_the_renewal(me: Player) -> Moves:
    """Bids more than it has left, for a renewal tops up an account that is empty."""
    me.park(500)
    while True:
        vms = [me.vm(2 * FAIR_BID) for _ in range(2)]
        yield 6 * PERIOD_S
        for vm in vms:
            me.end(vm)


@strategy
def remade_before_arrears(me: Player) -> Moves:
    """No credits, and a VM that is remade before its floor is missed for long."""
    me.park(0)
    while True:
        vm = me.vm(FAIR_BID, MERKAT_MIN_CPU=200)
        yield 8 * PERIOD_S
        me.end(vm)


@strategy
def refunded_while_money_is_moved(me: Player) -> Moves:
    """Each third period is void, twice; what paid for it is in the other account by then."""
    platform = me.platform(CREDITS / 2)
    me.vm()
    for turn in count():
        yield PERIOD_S + 5
        me.bid(platform, FAIR_BID)
        yield PERIOD_S
        if turn % 2:
            me.budget(platform, 1)
        else:
            me.everything_to(platform)
        me.void_newest()
        yield PERIOD_S - 5
        me.budget(platform, CREDITS / 2)
        me.void_newest()


@strategy
def refunded_after_its_platform_ended(me: Player) -> Moves:
    """The void period was paid by a platform whose budget has gone back."""
    me.vm()
    while True:
        platform = me.platform(1000)
        yield 3 * PERIOD_S + AFTER_S
        me.stop(platform)
        yield BEFORE_S + 5
        me.void_newest()
        yield 5
        me.void_newest()
        yield PERIOD_S - 10


# -- outside the market --------------------------------------------------------------------------


@strategy
def unmanaged(me: Player) -> Moves:
    """MERKAT_MANAGED = NO on a VM that runs."""
    vm = me.vm()
    yield PERIOD_S + 10
    me.set(vm, MERKAT_MANAGED="NO")
    yield from forever()


@strategy
def unmanaged_from_the_start(me: Player) -> Moves:
    """The same on one that waits."""
    me.vm(2, VCPU=2, MERKAT_MANAGED="NO", MERKAT="[MANAGED=NO]")
    yield from forever()


@strategy
def of_another_market(me: Player) -> Moves:
    """One that there is not."""
    me.vm(2, VCPU=2, MERKAT_MARKET="elsewhere")
    yield from forever()


@strategy
def of_another_owner(me: Player) -> Moves:
    """Given to a neighbour, or to a group without a market, which OpenNebula refuses."""
    vm = me.vm()
    yield PERIOD_S + 10
    me.ask("one.vm.chown", vm, me.arena.ann, -1)
    me.ask("one.vm.chown", vm, -1, 0)
    yield from forever()


@strategy
def unreadable(me: Player) -> Moves:
    """A text that is too large to be read, on a VM that runs."""
    vm = me.vm()
    yield PERIOD_S + 10
    me.set(vm, LONG="x" * LARGE)
    yield from forever()


@strategy
def unreadable_while_looked_at(me: Player) -> Moves:
    """The same, but only when a period looks."""
    vm = me.vm()
    yield PERIOD_S
    while True:
        yield AFTER_S
        me.set(vm, LONG="x" * LARGE)
        yield BEFORE_S
        me.set(vm, LONG="")


@strategy
def resized_after_each_look(me: Player) -> Moves:
    """A small cap when the period decides, none in between."""
    vm = me.vm(MERKAT_MAX_CPU=10)
    while True:
        yield 5
        me.set(vm, MERKAT_MAX_CPU=800)
        yield AFTER_S - 5
        me.set(vm, MERKAT_MAX_CPU=10)
        yield BEFORE_S


@strategy
def not_to_be_moved(me: Player) -> Moves:
    """A fair VM that is pinned by its owner, and a low one."""
    me.vm(MERKAT_PINNED="YES")
    me.vm(2, VCPU=1, MERKAT_PINNED="YES")
    yield from forever()
