"""A tenant that does anything at any time, on any kind of cloud: its neighbours lose nothing by it.

A few are played in `make test`; in `make soak` as many as MERKAT_SOAK says, from a new seed each
time. To play one again, give its seed as MERKAT_SEED.
"""

import pytest
import sqlalchemy as sa

from merkatd.database.ledger.entry_store import ENTRIES
from merkatd.database.scheduler import period_store
from tests.abuse.arena import CORES, PERIOD_S, RESERVE, Arena, Outcome, Player
from tests.abuse.chance import Anything, Kind, arena, kind
from tests.abuse.listed import Moves
from tests.daemon.soak import FIRST_SEED, KILLS, KILLS_PER_SITE
from tests.lengths import shorten

PERIODS = shorten(25, 15)
LEAST = 0.95
"""Of what a core-second costs honest tenants, or of the reserve price where cores are idle."""
LEAST_BY_USE = 0.85
"""A guest that vanishes before its counter was read pays for its share instead."""
WASTED = 0.04
"""Of all cores: what starts and ends of VMs take."""
SEEDS = range(FIRST_SEED, FIRST_SEED + (4 if KILLS == KILLS_PER_SITE else KILLS))


def played(of: Kind) -> tuple[Outcome, Arena]:
    """What came of it."""

    def moves(me: Player) -> Moves:
        return Anything(me, of).moves()

    site = arena(of)
    return site.play({"eve": moves}, PERIODS)["eve"], site


def assert_paid(of: Kind, found: Outcome) -> None:
    """The tenant got nothing cheap, and others pay their bids at most."""
    if of.sells:
        return  # the owner at the end computed all that a VM ever computed
    if not of.by_use:
        assert found.fair_paid <= found.fair_bids * 1.001
    if not found.got_something:
        return
    if of.idle:
        bought = 100 * (found.core_s - 0.01 * found.ran_s) / PERIOD_S
        assert found.paid >= LEAST * RESERVE * bought
    else:
        assert found.part >= (LEAST_BY_USE if of.by_use else LEAST), found.part


def assert_used(of: Kind, found: Outcome) -> None:
    """Cores that contending neighbours did not get are paid for at least by half."""
    if of.by_use or of.idle or of.memory or of.sells:
        return  # others want no more, or hosts were disabled, or VMs were given away
    all_s = CORES * of.hosts * PERIODS * PERIOD_S
    lost_s = all_s - found.core_s - found.fair_core_s
    price = found.fair_paid / found.fair_core_s
    assert lost_s < WASTED * all_s or found.paid >= 0.5 * price * (lost_s + found.core_s), lost_s


@pytest.mark.parametrize("seed", SEEDS)
def test_neighbours_lose_nothing_by_a_tenant_that_does_anything(seed: int) -> None:
    """The books balance, and every period is charged."""
    of = kind(seed)
    found, site = played(of)
    try:
        total = site.read(lambda c: c.scalar(sa.select(sa.func.sum(ENTRIES.c.amount))))
        quarantined = site.read(period_store.quarantined)
    finally:
        site.close()
    assert not total
    assert not quarantined
    assert_paid(of, found)
    assert_used(of, found)
