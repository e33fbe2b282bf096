"""Turns in which limit orders take hosts: all that is kept from the last turn changes nothing."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.support.ordered_clouds import in_clusters, with_gangs
from merkatd.cluster import Snapshot
from merkatd.cluster.columns import NO_ROW
from merkatd.placement.market.orders import order_books
from merkatd.placement.market.orders.order_clearing import clear_orders
from tests.clouds import crowded, flavoured
from tests.lengths import shorten
from tests.placement.plain_places import PlainPlaces
from tests.placement.test_order_clearing import PRICING
from tests.placement.test_order_places import shown

CLOUDS = shorten(160, 40)


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


@pytest.mark.parametrize("block", range(4))
def test_turns_give_what_the_plain_rules_give(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those find the hosts of all orders anew in each turn."""
    clouds = [scarce_clusters(seed) for seed in range(block, CLOUDS, 4)]
    fast = [shown(clear_orders(snapshot, PRICING)) for snapshot in clouds]
    monkeypatch.setattr(order_books, "OrderPlaces", PlainPlaces)
    assert fast == [shown(clear_orders(snapshot, PRICING)) for snapshot in clouds]
