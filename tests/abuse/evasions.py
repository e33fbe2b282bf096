"""Strategies that evade charges by timing, by moving credits, or by leaving the market."""

from collections.abc import Callable
from itertools import count

from merkatd.embedded.model.vm_states import Lcm
from tests.abuse.arena import CORES, CREDITS, FAIR_BID, LATER, PERIOD_S, Player
from tests.abuse.listed import AFTER_S, BEFORE_S, Moves, forever, list_strategy
from tests.long_texts import TOO_LONG

"""A number of characters that the daemon does not read; the first is above the default limit of XML
parsers for one text."""

# -- time ----------------------------------------------------------------------------------------


@list_strategy
def between_looks(me: Player) -> Moves:
    """Run from one period's placement until before the next observation."""
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


@list_strategy
def suspends_before_each_look(me: Player) -> Moves:
    """Suspend the VM before each observation and resume it afterwards."""
    return _hides(me, "suspend")


@list_strategy
def off_before_each_look(me: Player) -> Moves:
    """Power the VM off before each observation."""
    return _hides(me, "poweroff-hard")


@list_strategy
def stops_before_each_look(me: Player) -> Moves:
    """Stop the VM before each observation; it is placed again later."""
    return _hides(me, "stop")


@list_strategy
def reboots_after_each_look(me: Player) -> Moves:
    """Reboot after each observation: a booting guest has no limits until the next period."""
    vm = me.vm(1, VCPU=2)
    yield PERIOD_S + 10
    while True:
        me.act(vm, "reboot-hard")
        yield PERIOD_S


@list_strategy
def off_and_on_after_each_look(me: Player) -> Moves:
    """Power the VM off and on after each observation."""
    vm = me.vm(1, VCPU=2)
    yield PERIOD_S + 10
    while True:
        me.act(vm, "poweroff-hard")
        yield 5
        me.act(vm, "resume")
        yield AFTER_S


def _busy(me: Player, state: Lcm, change: Callable[[int, int], None]) -> Moves:
    me.arena.set_duration(state, BEFORE_S + 3)
    vm = me.vm(2 * FAIR_BID)
    yield 2 * PERIOD_S
    for turn in count():
        me.set(vm, MERKAT_BID_CPU=0.01)
        yield AFTER_S
        change(vm, turn)
        yield BEFORE_S


@list_strategy
def resized_at_each_look(me: Player) -> Moves:
    """Bid for two periods, then resize at each observation to keep the old limits."""

    def change(vm: int, turn: int) -> None:
        size = f'CPU="1"\nVCPU="{CORES}"\nMEMORY="{513 + turn % 2}"'
        me.ask("one.vm.resize", vm, size, False)

    return _busy(me, Lcm.HOTPLUG_RESIZE, change)


@list_strategy
def reconfigured_at_each_look(me: Player) -> Moves:
    """Do the same with changes of the VM's context."""

    def change(vm: int, turn: int) -> None:
        me.ask("one.vm.updateconf", vm, f'CONTEXT=[X="{turn}"]', 1)

    return _busy(me, Lcm.HOTPLUG, change)


@list_strategy
def made_in_turns(me: Player) -> Moves:
    """Run one of two VMs between the observations of the other."""
    while True:
        for _ in range(2):
            vm = me.vm(3 * FAIR_BID)
            yield PERIOD_S + 30
            me.end(vm)


@list_strategy
def beside_a_slow_copy(me: Player) -> Moves:
    """End each VM before the next observation, during the long copy of another VM's image."""
    me.arena.set_duration(Lcm.PROLOG_UNDEPLOY, 3_600)
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


# -- credits -------------------------------------------------------------------------------------


@list_strategy
def moves_money(me: Player) -> Moves:
    """Keep all credits in the account or the platform, whichever need not pay."""
    platform = me.platform(CREDITS / 2)
    me.vm(3 * FAIR_BID)
    while True:
        yield 5
        me.bid(platform, 3 * FAIR_BID)
        me.move_all_to(platform)
        yield PERIOD_S
        me.set_budget_of(platform, 1)
        yield AFTER_S


@list_strategy
def parks_money(me: Player) -> Moves:
    """Move all credits into a platform while a VM runs, and back before decisions."""
    platform = me.platform(10, start=LATER)
    me.vm(2 * FAIR_BID)
    while True:
        yield 5
        me.set_budget_of(platform, 10 + me.credits - 100)
        yield AFTER_S - 5
        me.set_budget_of(platform, 10)
        yield BEFORE_S


@list_strategy
def ends_its_platforms(me: Player) -> Moves:
    """Stop each platform before its charge, so that its budget returns."""
    while True:
        platform = me.platform(1000)
        yield PERIOD_S
        me.bid(platform, 2 * FAIR_BID)
        yield 2 * PERIOD_S + AFTER_S
        me.stop(platform)
        yield BEFORE_S + PERIOD_S


@list_strategy
def ends_platforms_of_the_poor(me: Player) -> Moves:
    """Do the same with the account's credits moved to another platform."""
    me.park(2000)
    yield from ends_its_platforms(me)


@list_strategy
def bids_the_same_credits_often(me: Player) -> Moves:
    """Bid the whole balance for each of many VMs."""
    me.park(30)
    for _ in range(6):
        me.vm(30)
    yield from forever()


@list_strategy
def spends_before_the_renewal(me: Player) -> Moves:
    """Bid more than the balance before a renewal fills the account."""
    me.park(500)
    while True:
        vms = [me.vm(2 * FAIR_BID) for _ in range(2)]
        yield 6 * PERIOD_S
        for vm in vms:
            me.end(vm)


@list_strategy
def remade_before_arrears(me: Player) -> Moves:
    """Replace a VM without credits before its unpaid floor is suspended."""
    me.park(0)
    while True:
        vm = me.vm(FAIR_BID, MERKAT_MIN_CPU=200)
        yield 8 * PERIOD_S
        me.end(vm)


@list_strategy
def refunded_while_money_is_moved(me: Player) -> Moves:
    """Have periods voided twice while their credits are in the other account."""
    platform = me.platform(CREDITS / 2)
    me.vm()
    for turn in count():
        yield PERIOD_S + 5
        me.bid(platform, FAIR_BID)
        yield PERIOD_S
        if turn % 2:
            me.set_budget_of(platform, 1)
        else:
            me.move_all_to(platform)
        me.void_newest()
        yield PERIOD_S - 5
        me.set_budget_of(platform, CREDITS / 2)
        me.void_newest()


@list_strategy
def refunded_after_its_platform_ended(me: Player) -> Moves:
    """Have a period voided after its platform's budget has returned."""
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


@list_strategy
def unmanaged(me: Player) -> Moves:
    """Set MERKAT_MANAGED = NO on a running VM."""
    vm = me.vm()
    yield PERIOD_S + 10
    me.set(vm, MERKAT_MANAGED="NO")
    yield from forever()


@list_strategy
def unmanaged_from_the_start(me: Player) -> Moves:
    """Set the same on a pending VM."""
    me.vm(2, VCPU=2, MERKAT_MANAGED="NO", MERKAT="[MANAGED=NO]")
    yield from forever()


@list_strategy
def of_another_market(me: Player) -> Moves:
    """Name an unknown market."""
    me.vm(2, VCPU=2, MERKAT_MARKET="elsewhere")
    yield from forever()


@list_strategy
def of_another_owner(me: Player) -> Moves:
    """Try to change the owner or the group, which OpenNebula refuses."""
    vm = me.vm()
    yield PERIOD_S + 10
    me.ask("one.vm.chown", vm, me.arena.ann, -1)
    me.ask("one.vm.chown", vm, -1, 0)
    yield from forever()


@list_strategy
def unreadable(me: Player) -> Moves:
    """Give a running VM a template that is too large to read."""
    vm = me.vm()
    yield PERIOD_S + 10
    me.set(vm, LONG=TOO_LONG)
    yield from forever()


@list_strategy
def unreadable_while_looked_at(me: Player) -> Moves:
    """Do the same during each observation only."""
    vm = me.vm()
    yield PERIOD_S
    while True:
        yield AFTER_S
        me.set(vm, LONG=TOO_LONG)
        yield BEFORE_S
        me.set(vm, LONG="")


@list_strategy
def resized_after_each_look(me: Player) -> Moves:
    """Set a small cap at each decision and a large one in between."""
    vm = me.vm(MERKAT_MAX_CPU=10)
    while True:
        yield 5
        me.set(vm, MERKAT_MAX_CPU=800)
        yield AFTER_S - 5
        me.set(vm, MERKAT_MAX_CPU=10)
        yield BEFORE_S


@list_strategy
def not_to_be_moved(me: Player) -> Moves:
    """Pin a fair VM and a VM with a low bid."""
    me.vm(MERKAT_PINNED="YES")
    me.vm(2, VCPU=1, MERKAT_PINNED="YES")
    yield from forever()
