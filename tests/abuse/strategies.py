"""Ways to get cores for less than others pay, or to make others pay more.

Each is a generator: it acts as a tenant can, and yields the seconds that it waits then. It begins
right after a period; periods are a minute apart, and see what is there at that moment.
"""

from collections.abc import Generator

from tests.abuse.arena import CREDITS, FAIR_BID, PERIOD_S, Play, Player

Moves = Generator[float, None, None]

BEFORE_S = 5.0
"""So long before a period a strategy prepares for it."""
AFTER_S = PERIOD_S - BEFORE_S

LARGE = 10_500_000
"""Characters: more than a reader of XML takes in one piece, unless it is told to."""

LATER = "[start]\nnot_before = 2030-01-01T00:00:00Z"
"""Of a platform that does not start."""

STRATEGIES: dict[str, Play] = {}


def strategy(play: Play) -> Play:
    """List it by its name."""
    STRATEGIES[play.__name__] = play
    return play


def _forever() -> Moves:
    while True:
        yield PERIOD_S


# -- fair, to see that fair players are not accused ---------------------------------------------


@strategy
def fair(me: Player) -> Moves:
    """As the neighbours do."""
    me.vm()
    yield from _forever()


@strategy
def cautious(me: Player) -> Moves:
    """A tenth of what the neighbours bid."""
    me.vm(FAIR_BID / 10, VCPU=1)
    yield from _forever()


# -- bids that are not meant ---------------------------------------------------------------------


@strategy
def phantom(me: Player) -> Moves:
    """Each period a new VM with a high bid that can use next to nothing; a fair one beside it."""
    me.vm()
    while True:
        high = me.vm(9000, MERKAT_MAX_CPU=1, VCPU=1)
        yield PERIOD_S + 10
        me.end(high)
        yield PERIOD_S - 10


@strategy
def phantoms(me: Player) -> Moves:
    """Ten of them, which stay."""
    me.vm()
    for _ in range(10):
        me.vm(900, MERKAT_MAX_CPU=1, VCPU=1)
    yield from _forever()


@strategy
def bids_high_early_and_low_late(me: Player) -> Moves:
    """A high bid when the period decides, a low one when it is charged."""
    vm = me.vm(3 * FAIR_BID)
    while True:
        yield 5
        me.set(vm, MERKAT_BID_CPU=0.01)
        yield AFTER_S - 5
        me.set(vm, MERKAT_BID_CPU=3 * FAIR_BID)
        yield BEFORE_S


@strategy
def bids_low_and_high_in_turns(me: Player) -> Moves:
    """A high bid in one period, none in the next."""
    vm = me.vm(3 * FAIR_BID)
    while True:
        yield PERIOD_S
        me.set(vm, MERKAT_BID_CPU=0)
        yield PERIOD_S
        me.set(vm, MERKAT_BID_CPU=3 * FAIR_BID)


@strategy
def bids_nonsense(me: Player) -> Moves:
    """Numbers that are none."""
    for text in ("-5", "nan", "1e400", "0x10", "1,5"):
        me.vm(None, MERKAT_BID_CPU=text, VCPU=1)
    yield from _forever()


@strategy
def splits(me: Player) -> Moves:
    """Many small VMs instead of a large one."""
    for _ in range(10):
        me.vm(FAIR_BID / 10, VCPU=1)
    yield from _forever()


@strategy
def merges(me: Player) -> Moves:
    """One with a bid for many."""
    me.vm(4 * FAIR_BID)
    yield from _forever()


@strategy
def rounds_down(me: Player) -> Moves:
    """Bids below half a micro-credit, which a charge rounds to nothing."""
    for _ in range(20):
        me.vm(4e-7, VCPU=1)
    yield from _forever()


@strategy
def bids_for_memory_alone(me: Player) -> Moves:
    """Nothing for CPU."""
    me.vm(0, MERKAT_BID_MEMORY=1000)
    yield from _forever()


# -- floors --------------------------------------------------------------------------------------


@strategy
def floor_for_nothing(me: Player) -> Moves:
    """No bid, and a claim to all cores."""
    me.vm(0, MERKAT_MIN_CPU=800)
    yield from _forever()


@strategy
def floor_remade(me: Player) -> Moves:
    """The same, made anew before anybody suspends it."""
    while True:
        vm = me.vm(0, MERKAT_MIN_CPU=400)
        yield 9 * PERIOD_S
        me.end(vm)


@strategy
def floor_with_money_parked(me: Player) -> Moves:
    """The same, with all money in a platform that does not start."""
    me.platform(CREDITS - 1, start=LATER)
    while True:
        vm = me.vm(4, VCPU=4, MERKAT_MIN_CPU=400)
        yield 9 * PERIOD_S
        me.end(vm)


@strategy
def floor_above_the_bid(me: Player) -> Moves:
    """A small bid, and a claim to more than it buys."""
    me.vm(4, MERKAT_MIN_CPU=300, VCPU=3)
    yield from _forever()


@strategy
def floor_of_a_phantom(me: Player) -> Moves:
    """A claim that keeps cores from others, who pay for what is left; a fair VM beside it."""
    me.vm(0, MERKAT_MIN_CPU=600)
    me.vm()
    yield from _forever()


@strategy
def pinned(me: Player) -> Moves:
    """OpenNebula pins it to cores of its own, whatever it bids."""
    me.vm(0.01, CPU=4, VCPU=4, TOPOLOGY='[PIN_POLICY="CORE",SOCKETS="1",CORES="4",THREADS="1"]')
    yield from _forever()


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


@strategy
def made_in_turns(me: Player) -> Moves:
    """Two VMs, of which one runs while the other is not looked at."""
    while True:
        for _ in range(2):
            vm = me.vm(3 * FAIR_BID)
            yield PERIOD_S + 30
            me.end(vm)


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
        me.budget(platform, CREDITS - 100)
        yield AFTER_S - 5
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
    me.platform(CREDITS - 2000, start=LATER)
    while True:
        platform = me.platform(1000)
        yield PERIOD_S
        me.bid(platform, 2 * FAIR_BID)
        yield 2 * PERIOD_S + AFTER_S
        me.stop(platform)
        yield BEFORE_S + PERIOD_S


@strategy
def bids_the_same_credits_often(me: Player) -> Moves:
    """Many VMs, each with a bid for all that there is."""
    me.platform(CREDITS - 30, start=LATER)
    for _ in range(6):
        me.vm(30)
    yield from _forever()


@strategy
def spends_before_the_renewal(me: Player) -> Moves:
    """Bids more than it has left, for a renewal tops up an account that is empty."""
    me.platform(CREDITS - 500, start=LATER)
    while True:
        vms = [me.vm(2 * FAIR_BID) for _ in range(2)]
        yield 6 * PERIOD_S
        for vm in vms:
            me.end(vm)


@strategy
def remade_before_arrears(me: Player) -> Moves:
    """No credits, and a VM that is remade before its floor is missed for long."""
    me.platform(CREDITS, start=LATER)
    while True:
        vm = me.vm(FAIR_BID, MERKAT_MIN_CPU=200)
        yield 8 * PERIOD_S
        me.end(vm)


# -- outside the market --------------------------------------------------------------------------


@strategy
def unmanaged(me: Player) -> Moves:
    """MERKAT_MANAGED = NO on a VM that runs."""
    vm = me.vm()
    yield PERIOD_S + 10
    me.set(vm, MERKAT_MANAGED="NO")
    yield from _forever()


@strategy
def unmanaged_from_the_start(me: Player) -> Moves:
    """The same on one that waits."""
    me.vm(2, VCPU=2, MERKAT_MANAGED="NO", MERKAT="[MANAGED=NO]")
    yield from _forever()


@strategy
def of_another_market(me: Player) -> Moves:
    """One that there is not."""
    me.vm(2, VCPU=2, MERKAT_MARKET="elsewhere")
    yield from _forever()


@strategy
def of_another_owner(me: Player) -> Moves:
    """Given to a neighbour, or to a group without a market, which OpenNebula refuses."""
    vm = me.vm()
    yield PERIOD_S + 10
    me.ask("one.vm.chown", vm, me.arena.ann, -1)
    me.ask("one.vm.chown", vm, -1, 0)
    yield from _forever()


@strategy
def unreadable(me: Player) -> Moves:
    """A text that is too large to be read, on a VM that runs."""
    vm = me.vm()
    yield PERIOD_S + 10
    me.set(vm, LONG="x" * LARGE)
    yield from _forever()


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
    yield from _forever()
