"""Large unpaid guests keep other VMs from a host for some periods only."""

from merkatd.market.price import PriceRule
from tests.abuse.arena import PERIOD_S, Arena, Player
from tests.abuse.listed import Moves

LARGE = 250 * 1024
"""The memory in MiB, of the host's 256 GiB."""


def test_large_guests_give_back_unpaid_memory() -> None:
    """A small VM that bids for its cores starts once the balloons have shrunk."""
    site = Arena(PriceRule.CLEARING)
    small: list[int] = []

    def large(me: Player) -> Moves:
        for _ in range(2):
            me.vm(0.01, MEMORY=LARGE, VCPU=1)
            yield 2 * PERIOD_S
        while True:
            yield PERIOD_S

    def waits(me: Player) -> Moves:
        yield 19 * PERIOD_S
        small.append(me.vm(20, VCPU=1))
        while True:
            yield PERIOD_S

    try:
        site.play({"eve": large, "cyd": waits}, 27)
        assert site.ran_s[small[0]] >= 6 * PERIOD_S
    finally:
        site.close()
