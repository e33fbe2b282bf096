"""OpenNebula's placement rules, tested with whole periods on the embedded cloud."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from twisted.internet.defer import ensureDeferred

from merkatd.opennebula.pools.constraint_facts import (
    AccessRule,
    GroupRule,
    HostFacts,
    NicWant,
    PciDevice,
    PciWant,
    Role,
    RoleMember,
    SiteFacts,
    UserFacts,
    VmRequirements,
)
from merkatd.scheduler.base.settings import MarketRules
from tests.opennebula.constraints.clouds import datastore, network
from tests.scheduler.constrained import ConstrainedCloud, flags
from tests.scheduler.frontend import Frontend


class Site:
    """A frontend with three hosts, and the facts that its cloud reports."""

    def __init__(self, **world: Any) -> None:
        self.frontend = Frontend(**world)
        self.cloud = ConstrainedCloud(self.frontend.scheduler.world.cloud)
        self.frontend.world_settings["cloud"] = self.cloud
        self.frontend.start_daemon()

    def vm(self, wants: VmRequirements | None = None, **attributes: Any) -> int:
        """Create a pending VM with requirements."""
        vm = self.frontend.vm(**attributes)
        if wants is not None:
            self.cloud.wants[vm] = wants
        return vm

    def where(self, *vms: int) -> list[int]:
        """Return the hosts of these VMs, -1 for waiting VMs."""
        waits = {vm for vm in vms if self.frontend.state(vm) == "PENDING"}
        return [-1 if vm in waits else self.frontend.host_of(vm) for vm in vms]

    def after(self, periods: int, *vms: int) -> list[int]:
        """Return the hosts of these VMs after several periods."""
        self.frontend.periods(periods)
        return self.where(*vms)


@pytest.fixture
def site() -> Iterator[Site]:
    """Return a site with one market over all clusters."""
    made = Site()
    yield made
    made.frontend.close()


def test_requirements_are_met_and_the_message_is_shown_and_removed(site: Site) -> None:
    """A VM without a suitable host waits until its requirements change."""
    first = site.vm(VmRequirements(requirements='NAME = "*2"'))
    other = site.vm(VmRequirements(requirements="RACK = 7"))
    assert site.after(2, first, other) == [2, -1]
    assert site.cloud.shown[other] == (
        "no host satisfies SCHED_REQUIREMENTS RACK = 7: 3 hosts have no attribute RACK"
    )
    site.cloud.wants[other] = VmRequirements()
    assert site.after(3, other) != [-1]
    assert site.cloud.shown[other] == ""


def test_the_message_about_a_bad_bid_is_removed_after_a_correction(site: Site) -> None:
    """The message names the accepted values until the bid is valid."""
    vm = site.vm(MERKAT_BID_CPU="lots")
    site.frontend.periods(1)
    assert "a number from 0" in site.cloud.shown[vm]
    site.frontend.bench.ok("one.vm.update", vm, 'MERKAT_BID_CPU="3"', 1)
    site.frontend.periods(2)
    assert site.cloud.shown[vm] == ""


def test_more_than_fifty_messages_are_shown_over_several_periods(site: Site) -> None:
    """VMs without a message come before VMs that have one."""
    vms = [site.vm(VmRequirements(requirements="RACK = 7")) for _ in range(60)]
    site.frontend.periods(2)
    assert set(site.cloud.shown) == set(vms)


def test_rank_decides_between_equal_hosts(site: Site) -> None:
    """All empty hosts are equal."""
    vm = site.vm(VmRequirements(rank="ID"))
    for host in range(3):
        site.cloud.facts[host] = HostFacts(host, 0, {"ID": [str(host)]})
    assert site.after(2, vm) == [2]


def test_an_invalid_rank_is_reported_and_delays_no_vm(site: Site) -> None:
    """The VM is placed without a rank; the message stays until the rank is valid."""
    vm = site.vm(VmRequirements(rank="FREE_CPU +"))
    assert site.after(2, vm) != [-1]
    assert "SCHED_RANK" in site.cloud.shown[vm]
    site.cloud.wants[vm] = VmRequirements()
    site.after(2, vm)
    assert site.cloud.shown[vm] == ""


def test_the_priority_decides_which_vms_start_first(site: Site) -> None:
    """The hosts have room for the floors of three VMs."""
    vms = [site.vm(MEMORY=8192, MERKAT_MIN_MEMORY=5000) for _ in range(4)]
    site.cloud.more["vm_priority"] = lambda seen: np.isin(seen.vm_id, vms[2:]).astype(float)
    waiting = [vm for vm, host in zip(vms, site.after(2, *vms), strict=True) if host == -1]
    assert waiting == [vms[1]]


def test_resched_moves_a_vm_to_another_host(site: Site) -> None:
    """The VM could otherwise stay on its host."""
    vm = site.vm()
    (host,) = site.after(2, vm)
    site.cloud.more["vm_leaves"] = flags(vm)
    site.frontend.periods(1)
    site.cloud.more.clear()
    assert site.after(1, vm) != [host]


def test_the_last_lease_is_given_to_one_vm(site: Site) -> None:
    """The other VMs wait for the next observation."""
    vms = [site.vm(VmRequirements(nics=(NicWant(0),))) for _ in range(4)]
    site.cloud.estate = SiteFacts(networks=[network(0, "red", free=2)])
    assert [host == -1 for host in site.after(1, *vms)] == [False, False, True, True]
    assert site.cloud.shown[vms[3]] == (
        "network red has no lease left in this period: other VMs come first"
    )


def test_a_device_is_given_to_one_vm(site: Site) -> None:
    """The VM of the higher priority gets it, on the device's host."""
    wants = VmRequirements(pcis=(PciWant(vendor="10de"),))
    vms = [site.vm(wants) for _ in range(2)]
    site.cloud.facts[1] = HostFacts(1, 0, {}, pcis=[PciDevice("10de", "1", "3", "01:00")])
    site.cloud.more["vm_priority"] = lambda seen: np.isin(seen.vm_id, vms[1:]).astype(float)
    assert site.after(1, *vms) == [-1, 1]
    assert "no PCI device left (vendor 10de)" in site.cloud.shown[vms[0]]


def test_space_on_a_datastore_is_given_to_one_vm(site: Site) -> None:
    """Two VMs of 40 GiB don't fit into 60 GiB."""
    vms = [site.vm(VmRequirements(system_mib=40_960)) for _ in range(2)]
    store = datastore(0, "fast", 61_440.0)
    site.cloud.estate = SiteFacts(datastores=[store])
    assert [host == -1 for host in site.after(1, *vms)] == [False, True]
    assert "datastore fast has no room left" in site.cloud.shown[vms[1]]


def test_vms_are_placed_only_where_their_owner_has_rights(site: Site) -> None:
    """A user without rights waits; the administrator's VM doesn't."""
    ann = site.frontend.user("ann")
    mine, root = site.vm(owner=ann), site.vm()
    owner = site.frontend.bench.vm(mine).uid
    site.cloud.estate = SiteFacts(users={owner: UserFacts(owner, "ann", (1,))})
    where = site.after(1, mine, root)
    assert (where[0], where[1] >= 0) == (-1, True)
    assert "user ann may use none of 3 hosts" in site.cloud.shown[mine]
    rule = AccessRule(0, 1 << 32 | owner, 0x2000000000 | 1 << 32 | 2, 2, 4 << 32)
    site.cloud.estate = SiteFacts(users=site.cloud.estate.users, acl=[rule])
    assert site.after(2, mine) == [2]


def test_the_roles_of_a_vm_group_are_respected(site: Site) -> None:
    """Roles keep members apart, together, or on given hosts."""
    rules = GroupRule(
        1,
        "shop",
        [
            Role(0, "web", "ANTI_AFFINED"),
            Role(1, "db", "AFFINED", host_affined=frozenset({1})),
        ],
    )
    site.cloud.estate = SiteFacts(groups=[rules])
    web, db = [site.vm() for _ in range(3)], [site.vm() for _ in range(2)]
    site.cloud.members = {vm: RoleMember(1, "web") for vm in web} | {
        vm: RoleMember(1, "db") for vm in db
    }
    assert sorted(site.after(2, *web)) == [0, 1, 2]
    assert site.where(*db) == [1, 1]


def test_a_tenant_cannot_take_a_vm_out_of_the_market(site: Site) -> None:
    """The attribute changes nothing on a running VM: it is limited and charged as before."""
    ann = site.frontend.user("ann")
    vm = site.vm(owner=ann, MERKAT_BID_CPU=3, VCPU=4, MERKAT_MAX_CPU=100)
    site.vm(MERKAT_BID_CPU=1, VCPU=4)
    site.after(3, vm)
    site.frontend.bench.ok("one.vm.update", vm, 'MERKAT_MANAGED="NO"', 1, session=ann)
    site.after(3, vm)
    snapshot = site.frontend.period().seen.snapshot
    row = snapshot.vm_row(vm)
    assert snapshot.vms.market[row] == 0
    assert snapshot.vms.cap[row, 0] == 100
    assert "has no effect" in site.cloud.shown[vm]
    new = site.vm(owner=ann, MERKAT_MANAGED="no")
    assert site.after(3, new) != [-1]


def test_an_administrator_can_take_a_group_out_of_the_market() -> None:
    """Its VMs are neither placed nor charged; running VMs keep their full size."""
    site = Site(markets=(MarketRules(excluded_groups=frozenset({"infra"})),))
    bench = site.frontend.bench
    group = bench.ok("one.group.allocate", "infra")
    site.cloud.more["group_name"] = {0: "oneadmin", 1: "users", group: "infra"}
    ann = site.frontend.user("ann")
    waits, runs = site.vm(owner=ann), site.vm(owner=ann, VCPU=4, CPU=4)
    for vm in (waits, runs):
        bench.ok("one.vm.chown", vm, -1, group)
    bench.ok("one.vm.deploy", runs, 0)
    others = [site.vm() for _ in range(2)]
    assert site.after(3, waits, runs) == [-1, 0]
    assert 0 not in site.where(*others)
    owner = bench.vm(runs).uid
    assert site.frontend.balances().get(owner, 1e6) == 1e6
    assert waits not in site.cloud.shown
    site.frontend.close()


class TestClusters:
    def site(self, **market: Any) -> Site:
        """Return a site with hosts 0 and 1 in no market and host 2 in cluster `gpu`."""
        site = Site(markets=(MarketRules(name="gpu", **market),))
        bench = site.frontend.bench
        cluster = bench.ok("one.cluster.allocate", "gpu")
        bench.ok("one.cluster.adddatastore", cluster, 0)
        bench.ok("one.cluster.addhost", cluster, 2)
        site.cloud.more["cluster_name"] = {0: "default", cluster: "gpu"}
        return site

    def test_a_market_covers_the_clusters_it_names(self) -> None:
        """No VM is placed outside these clusters."""
        site = self.site(cluster_names=frozenset({"gpu"}))
        vms = [site.vm() for _ in range(3)]
        assert site.after(2, *vms) == [2, 2, 2]
        site.frontend.close()

    def test_a_vm_that_needs_a_host_without_a_market_gets_a_message(self) -> None:
        """Merkat leaves the VM alone."""
        site = self.site(cluster_names=frozenset({"gpu"}))
        vm = site.vm(VmRequirements(requirements='NAME != "*2"'))
        assert site.after(2, vm) == [-1]
        assert "are in clusters without a market; Merkat leaves it alone" in site.cloud.shown[vm]
        site.frontend.close()

    def test_a_vm_goes_to_the_market_with_a_suitable_host(self) -> None:
        """The VM itself names no market."""
        gpu = MarketRules(name="gpu", cluster_names=frozenset({"gpu"}))
        site = Site(markets=(gpu, MarketRules(name="rest")))
        bench = site.frontend.bench
        cluster = bench.ok("one.cluster.allocate", "gpu")
        bench.ok("one.cluster.adddatastore", cluster, 0)
        bench.ok("one.cluster.addhost", cluster, 2)
        site.cloud.more["cluster_name"] = {cluster: "gpu"}
        other, plain = site.vm(VmRequirements(requirements='NAME = "*1"')), site.vm()
        assert site.after(2, other, plain) == [1, 2]
        last = site.vm(VmRequirements(requirements='NAME = "*2"'))
        assert site.after(2, last) == [2]
        site.frontend.close()


def test_a_group_can_have_its_own_default_bid() -> None:
    """Goods without a group bid use the market's default bid."""
    market = MarketRules(
        group_bids={"users": {"cpu": 7.0}}, default_bid={"cpu": 1.0, "memory": 2.0}
    )
    site = Site(markets=(market,))
    ann = site.frontend.user("ann")
    silent = {"MERKAT_BID_CPU": None, "MERKAT_BID_MEMORY": None}
    site.vm(owner=ann, **silent)
    site.vm(**silent)
    site.vm(owner=ann)
    site.cloud.more["group_name"] = {0: "oneadmin", 1: "users"}
    assert site.frontend.period().seen.snapshot.vms.bid.tolist() == [[7, 2], [1, 2], [1, 1]]
    site.frontend.close()


def test_postponed_vms_have_no_effect_on_shares_and_prices(site: Site) -> None:
    """Shares and prices are those of the plan that is carried out."""
    for _ in range(3):
        site.vm(VmRequirements(system_mib=40_960))
    site.cloud.estate = SiteFacts(datastores=[datastore(0, "fast", 61_440.0)])
    decided = site.frontend.result(ensureDeferred(site.frontend.scheduler.period())).decided
    assert len(decided.decision.plan.steps) == 1
    assert np.count_nonzero(decided.decision.allocations[:, 0]) == 1
    assert len(decided.decision.reasons) == 2
