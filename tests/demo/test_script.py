"""The story depends on the seed alone, and tenants bid by their characters."""

import pytest

from merkatd.demo.demo_script import (
    CAST,
    LEAST_PART,
    MOST_TIMES,
    BidPace,
    Character,
    ScriptedWork,
    errand,
    next_bid,
    vm_template,
)


def story(seed: int, hosts: int = 4) -> list[ScriptedWork]:
    """Return five rounds of work of every tenant."""
    return [errand(tenant, number, seed, hosts) for number in range(5) for tenant in CAST]


def test_a_seed_determines_the_story() -> None:
    """The order of the questions has no effect; another seed gives another story."""
    assert story(1) == story(1)
    assert errand(CAST[2], 4, 1, 4) == story(1)[4 * len(CAST) + 2]
    assert story(1) != story(2)


def test_tenants_have_distinct_initials() -> None:
    """Every character has its tenant."""
    assert len({tenant.name[0] for tenant in CAST}) == len(CAST)
    assert {tenant.character for tenant in CAST} == set(Character)


def test_more_hosts_get_more_vms() -> None:
    """Every number of hosts has contention, and every tenant has at least one VM."""
    vms = [sum(player.vms for player in story(1, hosts)) for hosts in (1, 4, 40)]
    assert vms == sorted(vms)
    assert vms[2] == 10 * vms[1]
    assert all(player.vms >= 1 for player in story(1, 1))


def test_a_template_has_bids_and_work() -> None:
    """It has a bid for both resources, and the work in core-seconds."""
    text = vm_template("ana-1", 60.0, 3.0)
    for part in ('NAME="ana-1"', 'MERKAT_BID_CPU="3"', 'MERKAT_BID_MEMORY="0.75"', 'WORK="3600"'):
        assert part in text


@pytest.mark.parametrize(
    ("character", "pace", "wanted"),
    [
        (Character.PATIENT, BidPace(0.0, 0.9), 10.0),
        (Character.RICH, BidPace(0.0, 0.9), 10.0),
        (Character.THRIFTY, BidPace(0.5, 0.2), 8.0),
        (Character.THRIFTY, BidPace(0.2, 0.5), 13.0),
        (Character.URGENT, BidPace(0.1, 0.2), 16.0),
        (Character.URGENT, BidPace(0.9, 0.2), 9.0),
        (Character.LATE, BidPace(0.1, 0.5), 10.0),
        (Character.LATE, BidPace(0.1, 0.6), 20.0),
        (Character.LATE, BidPace(0.7, 0.6), 10.0),
    ],
)
def test_characters_bid_by_their_rules(character: Character, pace: BidPace, wanted: float) -> None:
    """Each starts with a bid of ten."""
    assert next_bid(character, 10.0, 10.0, pace) == wanted


@pytest.mark.parametrize("character", list(Character))
def test_bids_have_bounds(character: Character) -> None:
    """They stay bounded however far a tenant is ahead or behind."""
    for pace in (BidPace(0.0, 0.9), BidPace(0.9, 0.1)):
        bid = 10.0
        for _ in range(50):
            bid = next_bid(character, 10.0, bid, pace)
        assert 10.0 * LEAST_PART <= bid <= 10.0 * MOST_TIMES
