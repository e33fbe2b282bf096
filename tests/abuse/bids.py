"""Strategies with insincere bids and floors."""

from xml.sax.saxutils import escape

from tests.abuse.arena import FAIR_BID, PERIOD_S, Player
from tests.abuse.listed import AFTER_S, BEFORE_S, Moves, forever, list_strategy

# -- fair strategies, which must pass ------------------------------------------------------------


@list_strategy
def fair(me: Player) -> Moves:
    """Bid as the neighbours do."""
    me.vm()
    yield from forever()


@list_strategy
def cautious(me: Player) -> Moves:
    """Bid a tenth of the neighbours' bids."""
    me.vm(FAIR_BID / 10, VCPU=1)
    yield from forever()


# -- insincere bids ------------------------------------------------------------------------------


@list_strategy
def phantom(me: Player) -> Moves:
    """Each period create a VM with a high bid and a tiny cap, beside a fair one."""
    me.vm()
    while True:
        high = me.vm(9000, MERKAT_MAX_CPU=1, VCPU=1)
        yield PERIOD_S + 10
        me.end(high)
        yield PERIOD_S - 10


@list_strategy
def phantoms(me: Player) -> Moves:
    """Keep ten such VMs."""
    me.vm()
    for _ in range(10):
        me.vm(900, MERKAT_MAX_CPU=1, VCPU=1)
    yield from forever()


@list_strategy
def bids_high_early_and_low_late(me: Player) -> Moves:
    """Bid high at the decision and low at the charge."""
    vm = me.vm(3 * FAIR_BID)
    while True:
        yield 5
        me.set(vm, MERKAT_BID_CPU=0.01)
        yield AFTER_S - 5
        me.set(vm, MERKAT_BID_CPU=3 * FAIR_BID)
        yield BEFORE_S


@list_strategy
def bids_low_and_high_in_turns(me: Player) -> Moves:
    """Bid high in one period and nothing in the next."""
    vm = me.vm(3 * FAIR_BID)
    while True:
        yield PERIOD_S
        me.set(vm, MERKAT_BID_CPU=0)
        yield PERIOD_S
        me.set(vm, MERKAT_BID_CPU=3 * FAIR_BID)


@list_strategy
def bids_nonsense(me: Player) -> Moves:
    """Bid texts that are not valid numbers."""
    for text in ("-5", "nan", "1e400", "0x10", "1,5"):
        me.vm(None, MERKAT_BID_CPU=text, VCPU=1)
    yield from forever()


@list_strategy
def splits(me: Player) -> Moves:
    """Run many small VMs instead of a large one."""
    for _ in range(10):
        me.vm(FAIR_BID / 10, VCPU=1)
    yield from forever()


@list_strategy
def merges(me: Player) -> Moves:
    """Run one VM with the bid of many."""
    me.vm(4 * FAIR_BID)
    yield from forever()


@list_strategy
def rounds_down(me: Player) -> Moves:
    """Bid less than half a micro-credit, which a charge rounds to zero."""
    for _ in range(20):
        me.vm(4e-7, VCPU=1)
    yield from forever()


@list_strategy
def bids_for_memory_alone(me: Player) -> Moves:
    """Bid nothing for CPU."""
    me.vm(0, MERKAT_BID_MEMORY=1000)
    yield from forever()


# -- floors --------------------------------------------------------------------------------------


@list_strategy
def floor_for_nothing(me: Player) -> Moves:
    """Claim all cores without a bid."""
    me.vm(0, MERKAT_MIN_CPU=800)
    yield from forever()


@list_strategy
def floor_remade(me: Player) -> Moves:
    """Claim cores without a bid, and replace the VM before the daemon suspends it."""
    while True:
        vm = me.vm(0, MERKAT_MIN_CPU=400)
        yield 9 * PERIOD_S
        me.end(vm)


@list_strategy
def floor_with_money_parked(me: Player) -> Moves:
    """Do the same with all credits in a platform that does not start."""
    me.park(1)
    while True:
        vm = me.vm(4, VCPU=4, MERKAT_MIN_CPU=400)
        yield 9 * PERIOD_S
        me.end(vm)


@list_strategy
def floor_above_the_bid(me: Player) -> Moves:
    """Claim more than a small bid buys."""
    me.vm(4, MERKAT_MIN_CPU=300, VCPU=3)
    yield from forever()


@list_strategy
def floor_of_a_phantom(me: Player) -> Moves:
    """Claim cores without a bid to make others pay for the rest, beside a fair VM."""
    me.vm(0, MERKAT_MIN_CPU=600)
    me.vm()
    yield from forever()


@list_strategy
def claim_in_turns(me: Player) -> Moves:
    """Claim all cores with a bid only in periods that do not check the claim."""
    vm = me.vm(0, MERKAT_MIN_CPU=800)
    yield PERIOD_S - 5
    while True:
        me.set(vm, MERKAT_BID_CPU=79)
        yield PERIOD_S
        me.set(vm, MERKAT_BID_CPU=0)
        yield PERIOD_S


@list_strategy
def pinned(me: Player) -> Moves:
    """Forge the sign of CPU pinning by OpenNebula, regardless of the bid.

    No tenant may set it: the text closes its section and continues as XML.
    """
    shown = "<TOPOLOGY><PIN_POLICY>CORE</PIN_POLICY></TOPOLOGY>"
    text = f"x]]></A></CONTEXT>{shown}<CONTEXT><A><![CDATA["
    forged = f"<TEMPLATE><CONTEXT><A>{escape(text)}</A></CONTEXT></TEMPLATE>"
    vm = me.vm(0.01, CPU=6)
    yield PERIOD_S + 10.0
    me.ask("one.vm.updateconf", vm, forged, 1)
    yield from forever()
