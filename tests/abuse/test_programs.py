"""A tenant with a rhythm of its own pays for what its neighbours lose by it, whatever it is.

A few are played in `make test`; in `make soak` as many as MERKAT_SOAK says, from a new seed each
time. To play one again, give its seed as MERKAT_SEED.
"""

import pytest

from tests.abuse.arena import CORES, FAIR_BID, NEIGHBOURS, PERIOD_S, Arena, Outcome, Player
from tests.abuse.listed import Moves
from tests.abuse.programs import Playing, Program, program
from tests.daemon.soak import FIRST_SEED, KILLS, KILLS_PER_SITE

PERIODS = 10
LEAST = 0.95
"""Of what a core-second costs honest tenants where all are wanted."""
LEAST_BY_USE = 0.85
"""Cores that nobody could use while guests start and end are not charged there."""
WASTED = 0.04
"""Of all cores: what starts and ends of VMs take."""
FOUND = (1567,)
"""Seeds that found something: a guest on its way as a period was decided counted as started."""
SEEDS = (*range(FIRST_SEED, FIRST_SEED + (4 if KILLS == KILLS_PER_SITE else KILLS)), *FOUND)


def played(of: Program) -> tuple[Outcome, float]:
    """What came of it, and the core-seconds that there were."""

    def moves(me: Player) -> Moves:
        return Playing(me, of).moves()

    strategy = "groups" if of.by_use else None
    site = Arena(of.rule, hosts=of.hosts, strategy=strategy, tick_s=2.0)
    try:
        found = site.play({"eve": moves}, PERIODS)["eve"]
        return found, CORES * of.hosts * (site.clock.seconds() - site.begun_s)
    finally:
        site.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_tenant_pays_for_what_its_neighbours_lose(seed: int) -> None:
    """And they pay their bids at most."""
    of = program(seed)
    found, all_s = played(of)
    price = NEIGHBOURS * FAIR_BID / (CORES * PERIOD_S)
    if of.by_use:
        price = found.fair_paid / found.fair_core_s
    else:
        assert found.fair_paid <= found.fair_bids * 1.001
    lost_s = all_s - found.fair_core_s - WASTED * all_s
    least = LEAST_BY_USE if of.by_use else LEAST
    assert found.paid >= least * price * lost_s, (of, found, lost_s / all_s)
