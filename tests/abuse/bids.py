"""Strategies with bids and floors that are not meant."""

from xml.sax.saxutils import escape

from tests.abuse.arena import FAIR_BID, PERIOD_S, Player
from tests.abuse.listed import AFTER_S, BEFORE_S, Moves, forever, strategy

# -- fair, to see that fair players are not accused ---------------------------------------------


@strategy
def fair(me: Player) -> Moves:
    """As the neighbours do."""
    me.vm()
    yield from forever()


@strategy
def cautious(me: Player) -> Moves:
    """A tenth of what the neighbours bid."""
    me.vm(FAIR_BID / 10, VCPU=1)
    yield from forever()


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
    yield from forever()


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
    yield from forever()


@strategy
def splits(me: Player) -> Moves:
    """Many small VMs instead of a large one."""
    for _ in range(10):
        me.vm(FAIR_BID / 10, VCPU=1)
    yield from forever()


@strategy
def merges(me: Player) -> Moves:
    """One with a bid for many."""
    me.vm(4 * FAIR_BID)
    yield from forever()


@strategy
def rounds_down(me: Player) -> Moves:
    """Bids below half a micro-credit, which a charge rounds to nothing."""
    for _ in range(20):
        me.vm(4e-7, VCPU=1)
    yield from forever()


@strategy
def bids_for_memory_alone(me: Player) -> Moves:
    """Nothing for CPU."""
    me.vm(0, MERKAT_BID_MEMORY=1000)
    yield from forever()


# -- floors --------------------------------------------------------------------------------------


@strategy
def floor_for_nothing(me: Player) -> Moves:
    """No bid, and a claim to all cores."""
    me.vm(0, MERKAT_MIN_CPU=800)
    yield from forever()


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
    me.park(1)
    while True:
        vm = me.vm(4, VCPU=4, MERKAT_MIN_CPU=400)
        yield 9 * PERIOD_S
        me.end(vm)


@strategy
def floor_above_the_bid(me: Player) -> Moves:
    """A small bid, and a claim to more than it buys."""
    me.vm(4, MERKAT_MIN_CPU=300, VCPU=3)
    yield from forever()


@strategy
def floor_of_a_phantom(me: Player) -> Moves:
    """A claim that keeps cores from others, who pay for what is left; a fair VM beside it."""
    me.vm(0, MERKAT_MIN_CPU=600)
    me.vm()
    yield from forever()


@strategy
def claim_in_turns(me: Player) -> Moves:
    """A claim to all cores that is judged by a period without its bid."""
    vm = me.vm(0, MERKAT_MIN_CPU=800)
    yield PERIOD_S - 5
    while True:
        me.set(vm, MERKAT_BID_CPU=79)
        yield PERIOD_S
        me.set(vm, MERKAT_BID_CPU=0)
        yield PERIOD_S


@strategy
def pinned(me: Player) -> Moves:
    """It shows that OpenNebula pins it to cores of its own, whatever it bids.

    No tenant may set that: the text ends its section, and goes on as XML.
    """
    shown = "<TOPOLOGY><PIN_POLICY>CORE</PIN_POLICY></TOPOLOGY>"
    text = f"x]]></A></CONTEXT>{shown}<CONTEXT><A><![CDATA["
    forged = f"<TEMPLATE><CONTEXT><A>{escape(text)}</A></CONTEXT></TEMPLATE>"
    vm = me.vm(0.01, CPU=6)
    yield PERIOD_S + 10.0
    me.ask("one.vm.updateconf", vm, forged, 1)
    yield from forever()
