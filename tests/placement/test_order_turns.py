"""Turns in which limit orders take hosts: all that is kept from the last turn changes nothing."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.support.ordered_clouds import in_clusters, with_gangs
from merkatd.cluster import Requirements, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.placement.market.orders import order_books
from merkatd.placement.market.orders.local_markets import LocalMarkets, local_sets
from merkatd.placement.market.orders.order_books import opened_book
from merkatd.placement.market.orders.order_clearing import clear_orders
from tests.clouds import crowded, flavoured
from tests.lengths import shorten
from tests.placement.plain_places import PlainPlaces
from tests.placement.test_order_clearing import PRICING, halls
from tests.placement.test_order_places import shown

CLOUDS = shorten(160, 40)
TELLING = 419, 1942, 4861, 1471
"""Seeds of clouds in which the machine code differed when its attempts were counted wrongly."""


def scarce_clusters(seed: int) -> Snapshot:
    """Return clusters of small hosts with orders; some VMs may leave their cluster."""
    rng = np.random.default_rng(seed)
    hosts = int(rng.integers(12, 60))
    drawn = with_gangs(
        (flavoured if seed % 2 else crowded)(hosts, seed),
        seed,
        float(rng.choice([0.0, 0.05, 0.3, 0.9])),
    )
    snapshot = in_clusters(drawn, int(rng.integers(1, 6)), seed)
    vms, part = snapshot.vms, rng.choice([0.3, 0.5, 0.8])
    free = rng.random(len(vms)) < rng.choice([0.0, 0.3])
    level = rng.lognormal(0.0, 1.0, len(snapshot.requirements))[vms.requirement]
    return replace(
        snapshot,
        hosts=replace(snapshot.hosts, capacity=snapshot.hosts.capacity * part),
        vms=replace(
            vms,
            bid=vms.bid * level[:, np.newaxis],
            requirement=np.where(free, NO_ROW, vms.requirement),
            movable=rng.random(len(vms)) < 0.9,
        ),
    )


def tight_gangs(seed: int) -> Snapshot:
    """Return few hosts, and orders whose VMs need nearly all of them, most with requirements."""
    rng = np.random.default_rng([seed, 1])
    hosts, sizes = int(rng.integers(3, 9)), rng.integers(2, 11, int(rng.integers(1, 5)))
    order = np.repeat(np.arange(len(sizes)), sizes)
    runs = (rng.random(len(sizes)) < 0.3)[order] & (rng.random(len(order)) < 0.7)
    place = np.where(runs, rng.integers(0, hosts, len(order)), NO_HOST)
    size = rng.choice([20.0, 30.0, 40.0, 50.0, 60.0, 70.0], len(order))
    bid = (rng.lognormal(3.0, 1.0, len(sizes))[order] * size).tolist()
    rows = zip(place.tolist(), bid, size.tolist(), order.tolist(), strict=True)
    snapshot = halls(hosts, list(rows))
    allowed = rng.random((5, hosts)) < rng.choice([0.4, 0.6, 0.8])
    allowed[:, 0] |= ~allowed.any(axis=1)
    alike = (rng.random(len(sizes)) < 0.3)[order]
    requirement = np.where(
        alike, rng.integers(-1, 5, len(sizes))[order], rng.integers(-1, 5, len(order))
    )
    return replace(
        snapshot,
        vms=replace(snapshot.vms, requirement=requirement),
        requirements=Requirements(name=tuple("abcde"), allowed=allowed),
    )


@pytest.mark.parametrize("block", range(4))
def test_gangs_are_tried_in_as_many_orders_as_by_the_plain_rules(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a VM has no host, it is placed first in the next attempt, unless all are alike."""
    clouds = [tight_gangs(seed) for seed in (TELLING[block], *range(block, 10 * CLOUDS, 4))]
    fast = [shown(clear_orders(snapshot, PRICING)) for snapshot in clouds]
    monkeypatch.setattr(order_books, "OrderPlaces", PlainPlaces)
    assert fast == [shown(clear_orders(snapshot, PRICING)) for snapshot in clouds]


@pytest.mark.parametrize("block", range(4))
def test_turns_give_what_the_plain_rules_give(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those find the hosts of all orders anew in each turn."""
    clouds = [scarce_clusters(seed) for seed in range(block, CLOUDS, 4)]
    fast = [shown(clear_orders(snapshot, PRICING)) for snapshot in clouds]
    monkeypatch.setattr(order_books, "OrderPlaces", PlainPlaces)
    assert fast == [shown(clear_orders(snapshot, PRICING)) for snapshot in clouds]


def nested_sets(seed: int) -> Snapshot:
    """Return clusters, with requirements for the hosts of two of them, and for nearly all hosts."""
    snapshot, rng = scarce_clusters(seed), np.random.default_rng([seed, 2])
    vms, clusters = snapshot.vms, snapshot.requirements.allowed
    pairs = clusters | np.roll(clusters, 1, axis=0)
    most = np.arange(len(snapshot.hosts))[np.newaxis] > 0
    allowed = np.concatenate([clusters, pairs, most])
    drawn = rng.integers(0, len(allowed), len(vms))
    may = (vms.host < 0) | allowed[drawn, vms.host]
    return replace(
        snapshot,
        vms=replace(vms, requirement=np.where(may, drawn, NO_ROW)),
        requirements=Requirements(name=tuple(map(str, range(len(allowed)))), allowed=allowed),
    )


@pytest.mark.parametrize("seed", range(CLOUDS))
def test_a_look_at_local_markets_does_not_depend_on_earlier_looks(seed: int) -> None:
    """Nor does it matter whether the orders that fit on hosts are known before."""
    snapshot, rng = nested_sets(seed), np.random.default_rng(seed)
    opened = opened_book(snapshot, 0, PRICING)
    sets = local_sets(opened, snapshot.vms.owner[opened.places.view.vms])
    assert sets is not None
    markets, fits = LocalMarkets(sets, opened), rng.random(len(opened.places.orders)) < 0.5
    unknown = np.zeros_like(fits)
    for part in (1.0, 0.5, 0.2, 0.5):
        there = sets.members & (rng.random(len(fits)) < part)[opened.places.order]
        again = markets.look_at(there, fits, lambda order: bool(fits[order]))
        anew = LocalMarkets(sets, opened).look_at(there, unknown, lambda order: bool(fits[order]))
        for one, other in zip(again[:3], anew[:3], strict=True):
            assert one.tolist() == other.tolist()
