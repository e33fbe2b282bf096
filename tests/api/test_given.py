"""The shown allocations never exceed a host, even while a migration is postponed."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Decision, Plan
from merkatd.cluster.columns import NO_HOST
from merkatd.limits import LimitPlan
from merkatd.service.base.period_view import PeriodView
from tests.clouds import cloud, hosts_table, vms_table

HOSTS, WHOLE = 3, (400.0, 4096.0)


def shown(places: list[int], allocations: list[tuple[float, float]]) -> PeriodView:
    """Return the view of VMs on these hosts with these decided allocations."""
    count = len(places)
    decided = np.array(allocations, dtype=float).reshape(count, 2)
    capacities = np.tile(WHOLE, (HOSTS, 1))
    snapshot = cloud(hosts_table(capacities), vms_table(places, np.zeros((count, 2)), decided))
    return PeriodView(
        at_s=0.0,
        snapshot=snapshot,
        states=("RUNNING",) * count,
        decision=Decision(Plan(), decided, np.zeros((1, 2))),
        limits=LimitPlan(Plan(), {}, {}, {}),
        host=np.array(places, dtype=np.int64),
        cost=np.zeros((count, 2)),
        rate=np.full(count, np.nan),
        messages={},
    )


amounts = st.tuples(st.floats(0.0, 500.0), st.floats(0.0, 5000.0))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(NO_HOST, HOSTS - 1), amounts), min_size=1, max_size=9))
def test_no_host_gives_more_than_it_has(rows: list[tuple[int, tuple[float, float]]]) -> None:
    """No VM gets more than was decided; on a host with room each gets all of it."""
    now = shown([place for place, _ in rows], [amount for _, amount in rows])
    given_ = now.given()
    decided = now.decision.allocations
    assert (given_ <= decided * (1 + 1e-12)).all()
    for host in range(HOSTS):
        there = now.host == host
        capacity, asked = np.array(WHOLE), decided[there].sum(axis=0)
        assert np.allclose(given_[there].sum(axis=0), np.minimum(asked, capacity))
        assert np.allclose(
            given_[there][:, asked <= capacity], decided[there][:, asked <= capacity]
        )
    assert not given_[now.host == NO_HOST].any()
