"""One daemon with two clusters: Merkat's market on one, groups on the other."""

from dataclasses import replace

import pytest

from merkatd.placement.contract import Pricing
from merkatd.scheduler.base.settings import MarketRules
from merkatd.service.base.callers import LOCAL
from tests.groups.site import GROUPS, Site, groups_at

MARKETS = (
    MarketRules(name="merkat", pricing=Pricing(reserve={"cpu": 0.01})),
    MarketRules(name="groups", strategy="groups", cluster_names=frozenset({"groups"})),
)


@pytest.fixture
def both() -> Site:
    """Return a site with two hosts in each market."""
    site = Site(hosts=2, markets=MARKETS)
    cluster = site.bench.ok("one.cluster.allocate", "groups")
    site.bench.ok("one.cluster.adddatastore", cluster, 0)
    site.bench.ok("one.cluster.adddatastore", cluster, 0)
    site.cloud.add_hosts(2, cluster=cluster)
    return site


def test_each_market_uses_its_own_strategy(both: Site) -> None:
    """Each kind of VM is on its market's hosts and pays by its market's rules."""
    try:
        bidders = [both.vm(bid, owner="bob:secret", VCPU=4) for bid in (1.0, 3.0, 4.0)]
        group = both.create(60.0, 3)
        announcement = both.periods(5)
        assert {both.host_of(vm) for vm in bidders} == {0, 1}
        assert {both.host_of(vm) for vm in both.vms(group)} == {2, 3}
        assert len(both.running()) == 6
        prices = announcement.prices
        assert prices["groups"]["memory"] == 0.0
        assert prices["groups"]["cpu"] == pytest.approx(60.0 / 800)
        assert prices["merkat"]["cpu"] == pytest.approx(8.0 / 800)
        floors = announcement.seen.snapshot.vms.floor
        rows = [announcement.seen.snapshot.vm_row(vm) for vm in both.vms(group)]
        assert (floors[rows, 1] == 1024.0).all()
        before = both.balances()
        both.periods(4)
        after = both.balances()
        # Two VMs share four cores, the third uses its three: seven of the eight.
        assert before[both.ann] - after[both.ann] == pytest.approx(4 * 60.0 * 7, rel=0.01)
        assert 0 < before[both.bob] - after[both.bob] < 4 * 60
        both.agree()
    finally:
        both.close()


def test_a_vm_without_a_group_counts_as_a_group_of_one() -> None:
    """Its bid for CPU is its spending rate."""
    site = Site(hosts=1, markets=(GROUPS,))
    try:
        single = site.vm(30.0, owner="bob:secret", VCPU=4)
        group = site.create(10.0, 1)
        site.periods(4)
        assert site.quota(single) == pytest.approx(300.0, abs=0.1)
        assert site.quota(site.vms(group)[0]) == pytest.approx(100.0, abs=0.1)
        before = site.balances()[site.bob]
        site.periods(3)
        assert before - site.balances()[site.bob] == pytest.approx(3 * 30.0 * 3.0, rel=0.01)
    finally:
        site.close()


def test_a_market_without_hosts_is_a_remark() -> None:
    """Its cluster does not exist, so no VM of the group ever gets a host; then it is created."""
    site = Site(hosts=1, markets=MARKETS)
    try:
        group = site.create(60.0, 1)

        def remark() -> str:
            """Return what `onegroup` shows as the remark."""
            details = site.wait(groups_at(site).group(LOCAL, group))
            return str(details.why)

        site.scheduler.latest = site.periods(2)
        assert remark() == (
            "market groups has no host: its configuration names cluster groups, which does not"
            " exist"
        )
        cluster = site.bench.ok("one.cluster.allocate", "groups")
        site.bench.ok("one.cluster.adddatastore", cluster, 0)
        site.cloud.add_hosts(1, cluster=cluster)
        site.scheduler.latest = site.periods(4)
        assert len(site.running()) == 1
        assert remark() == ""
    finally:
        site.close()


def test_a_missing_cluster_is_a_remark_also_beside_others() -> None:
    """The group runs on the cluster that exists, and its owner learns of the other one."""
    rules = replace(
        MARKETS[1], cluster_names=frozenset({"groups", "gone"}), clusters=frozenset({77})
    )
    site = Site(hosts=1, markets=(MARKETS[0], rules))
    try:
        cluster = site.bench.ok("one.cluster.allocate", "groups")
        site.bench.ok("one.cluster.adddatastore", cluster, 0)
        site.cloud.add_hosts(1, cluster=cluster)
        group = site.create(60.0, 1)
        site.scheduler.latest = site.periods(3)
        (listed,) = site.wait(groups_at(site).groups(LOCAL))
        assert listed.id == group
        assert listed.why == "market groups names clusters 77, gone, which do not exist"
        assert len(site.running()) == 1
    finally:
        site.close()
