"""A tenant with random actions costs its neighbours nothing, on any kind of cloud.

`make test` plays a few seeds; `make soak` plays MERKAT_SOAK new ones. To replay one, set
MERKAT_SEED to its number.
"""

import pytest
import sqlalchemy as sa

from merkatd.database.ledger.entry_store import ENTRIES
from merkatd.database.scheduler import period_store
from tests.abuse.arena import CORES, PERIOD_S, RESERVE, Arena, Player
from tests.abuse.chance import Kind, RandomTenant, arena, kind
from tests.abuse.counting import Outcome
from tests.abuse.listed import Moves
from tests.daemon.soak import FIRST_SEED, KILLS, KILLS_PER_SITE
from tests.lengths import shorten

PERIODS = shorten(25, 10)
LEAST = 0.95
"""The least part of the honest tenants' price, or of the reserve price of idle cores."""
LEAST_BY_USE = 0.85
"""The least part by use: a guest that ends before its counter is read pays for its share."""
WASTED = 0.04
"""The part of all cores that starts and ends of VMs waste."""
SEEDS = range(FIRST_SEED, FIRST_SEED + (3 if KILLS == KILLS_PER_SITE else KILLS))


def play_kind(of: Kind) -> tuple[Outcome, Arena]:
    """Play a kind of cloud; return its outcome and site."""

    def moves(me: Player) -> Moves:
        return RandomTenant(me, of).moves()

    site = arena(of)
    return site.play({"eve": moves}, PERIODS)["eve"], site


def assert_paid(of: Kind, outcome: Outcome) -> None:
    """Check that the tenant paid the full price and others paid their bids at most."""
    if of.sells:
        return  # all work of a VM counts for its last owner
    if not of.by_use:
        assert outcome.fair_paid <= outcome.fair_bids * 1.001
    if not outcome.got_something:
        return
    if of.idle:
        bought = 100 * (outcome.core_s - 0.01 * outcome.ran_s) / PERIOD_S
        assert outcome.paid >= LEAST * RESERVE * bought
    else:
        assert outcome.price_ratio >= (LEAST_BY_USE if of.by_use else LEAST), outcome.price_ratio


def assert_used(of: Kind, outcome: Outcome) -> None:
    """Check that at least half of the contended cores that neighbours lost is paid for."""
    if of.by_use or of.idle or of.memory or of.sells:
        return  # cores are uncontended, hosts were disabled, or VMs changed owners
    all_s = CORES * of.hosts * PERIODS * PERIOD_S
    lost_s = all_s - outcome.core_s - outcome.fair_core_s
    price = outcome.fair_paid / outcome.fair_core_s
    assert lost_s < WASTED * all_s or outcome.paid >= 0.5 * price * (lost_s + outcome.core_s), (
        lost_s
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_tenant_costs_its_neighbours_nothing(seed: int) -> None:
    """The books balance, and every period is charged."""
    of = kind(seed)
    outcome, site = play_kind(of)
    try:
        total = site.read(lambda c: c.scalar(sa.select(sa.func.sum(ENTRIES.c.amount))))
        quarantined = site.read(period_store.quarantined)
    finally:
        site.close()
    assert not total
    assert not quarantined
    assert_paid(of, outcome)
    assert_used(of, outcome)
