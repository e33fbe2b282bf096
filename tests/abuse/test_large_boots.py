"""Guests far larger than their tenant pays for keep others from a host for some periods only."""

from merkatd.market.price import PriceRule
from tests.abuse.arena import PERIOD_S, Arena, Player
from tests.abuse.listed import Moves

LARGE = 250 * 1024
"""MiB, of 256 GiB that the host has."""


def test_large_guests_that_boot_one_after_another_give_back_what_they_do_not_pay_for() -> None:
    """As fast as their balloons can: a small VM that bids for its cores comes then."""
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
