"""The embedded cloud fills every column of the snapshot, each shown by its name."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from merkatd.base.clock import Inline
from merkatd.cluster import Migrate, Snapshot
from merkatd.cluster.columns import column_types
from merkatd.cluster.plan import Sleep, Step
from merkatd.currency.settings import MoneySettings
from merkatd.database.scheduler import limit_order_store
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.embedded.model.vm_states import Lcm
from merkatd.hypervisor.simulated_hosts import EmbeddedPower
from merkatd.market.price import PriceRule
from merkatd.opennebula import OpenNebulaCloud
from merkatd.placement.contract import Pricing
from merkatd.protocol.platform_messages import MonitorReading, ProgressReport
from merkatd.scheduler.base.settings import MarketRules
from tests.clouds import crowded
from tests.platforms.site import Site
from tests.platforms.test_declarations import JOB, MONITOR, NODES, REPLICATED, SERVICE
from tests.scheduler.frontend import PASSWORD
from tests.scheduler.scripted_strategy import Script, scripted
from tests.scheduler.test_room_rests import RefusingSite
from tests.scheduler.test_stuck_vms import FullSite

RESERVE = {"cpu": 0.001, "memory": 0.0001}
MARKET = MarketRules(pricing=Pricing(rule=PriceRule.CLEARING, reserve=RESERVE))
HOSTS = 8
ORDERED = HOSTS - 1
"""The host of the limit orders."""


class Described(Site):
    """A cloud of described hosts that sleep."""

    def __init__(self) -> None:
        money = MoneySettings(supply=100_000_000, renewal_s=1e9)
        super().__init__(hosts=HOSTS, markets=(MARKET,), money=money)
        self.filled: set[str] = set()

    def start_daemon(self) -> None:
        """Start a daemon that can switch hosts."""
        super().start_daemon()
        power = EmbeddedPower(self.client, ["*"])
        cloud = OpenNebulaCloud(self.client, self.clock, Inline(), now=self.wall_s, power=power)
        self.scheduler.world = replace(self.scheduler.world, cloud=cloud)

    def period(self) -> Any:
        """Run a period, and note the columns that it saw filled."""
        announcement = super().period()
        self.filled |= filled_columns(announcement.seen.snapshot)
        return announcement

    def guest(self, name: str, embedded: str, **more: Any) -> int:
        """Create a VM of a tenant with a described guest."""
        values = {"NAME": name, "CPU": 1, "VCPU": 1, "MEMORY": 1024, "MERKAT_BID_CPU": 1} | more
        text = "\n".join(f'{key}="{value}"' for key, value in values.items())
        guest = f"EMBEDDED=[{embedded}]"
        disk = 'DISK=[TYPE="FS",SIZE="2048",FORMAT="raw"]'
        return self.bench.new(f"{text}\n{guest}\n{disk}", session=f"ann:{PASSWORD}")

    def state_order(self, vms: list[int], limit: float) -> None:
        """Store a limit order of these VMs."""
        owner, now_s = self.cloud.world.vms.rows[vms[0]].uid, self.clock.seconds()
        self.read(
            lambda c: limit_order_store.add(
                c, owner=owner, vms=vms, limit=limit, least_run_s=600.0, factor=1.0, stated_s=now_s
            )
        )


def is_filled(values: Any, what: str, default: Any) -> bool:
    """Return whether a column has a value that an empty cloud would not have."""
    if what == "pairs":
        return bool(values) and all((pairs[:, 0] >= 0).any() for pairs in values.values())
    if what == "text":
        return len(values) > 0 and all(values)
    if what in {"reference", "levels"}:
        filled = values >= 0
    elif what in {"flag", "choice"}:
        filled = values != default
    elif what == "members":
        filled = np.array([values.any() and not values.all()])
    else:
        plain = -1 if what == "whole" else (default or 0)
        filled = np.isfinite(np.asarray(values, dtype=float)) & (values != plain)
    return bool(np.size(values)) and bool(np.any(filled))


def filled_columns(snapshot: Snapshot) -> set[str]:
    """Return the names of the columns that are filled."""
    names = {
        f"{name}.{column}"
        for name, table in snapshot.tables()
        for column, form in column_types(type(table)).items()
        if is_filled(getattr(table, column), form.what, None if form.needed else form.default)
    }
    history = snapshot.history
    if history is not None:
        names |= {
            f"history.{part}"
            for part in ("at_s", "vms", "hosts")
            if np.isfinite(getattr(history, part)).any()
        }
    return names


WHILE_DECIDING = {"orders.postponed"}
"""Columns of no observed cloud: a decision that lacks memory fills them, and decides again with
them (`tests/scheduler/test_orders_and_memory.py`)."""
COLUMNS = [
    *sorted(
        {
            f"{name}.{column}"
            for name, table in crowded(2, 1).tables()
            for column in column_types(type(table))
        }
        - WHILE_DECIDING
    ),
    "history.at_s",
    "history.hosts",
    "history.vms",
]


@cache
def seen() -> frozenset[str]:
    """Return the columns that a cloud in use has filled in one of its periods."""
    with scripted() as script:
        site = Described()
        try:
            live(site, script)
        finally:
            site.close()
    return frozenset(site.filled | filled_by_orders())


def filled_by_orders() -> set[str]:
    """Return the columns that orders fill whose VMs OpenNebula refuses, stops late or boots."""
    filled: set[str] = set()
    refusing, full = RefusingSite(), FullSite()
    try:
        for _, announcement in refusing.minutes(8):
            filled |= filled_columns(announcement.seen.snapshot)
        stuck, busy, *_ = full.low
        full.cloud.faults.add(Fault(FaultKind.REFUSE, "one.vm.action", vm=stuck))
        full.set_duration(Lcm.HOTPLUG, 1e6)
        full.bench.ok("one.vm.updateconf", busy, 'CONTEXT=[X="1"]', 1)
        full.set_duration(Lcm.BOOT, 200.0)
        full.state_order(full.vms("bob", 2), 90.0)
        for _ in range(6):
            filled |= filled_columns(full.periods(1).seen.snapshot)
    finally:
        refusing.close()
        full.close()
    return filled


GROUP = '''NAME="g"
ROLE=[NAME="a",POLICY="ANTI_AFFINED"]
ROLE=[NAME="b"]
ANTI_AFFINED="a, b"'''
_PLATFORM = {"top": 'name = "{}"', "controller": '[controller]\nkind = "none"'}


def live(site: Described, script: Script) -> None:
    """Run what fills the columns: VMs of all kinds, platforms, orders, operations."""
    first = site.guest(
        "first",
        "DIRTY_RATE=8",
        MERKAT_KIND="BATCH",
        SCHED_REQUIREMENTS="ID < 3",
        SCHED_RANK="FREE_CPU",
    )
    site.bench.ok("one.vm.update", first, "USER_PRIORITY=60", 1)
    group = site.bench.ok("one.vmgroup.allocate", GROUP)
    for role in ("a", "b"):
        site.bench.new(f'CPU=1\nMEMORY=256\nVMGROUP=[VMGROUP_ID="{group}",ROLE="{role}"]')
    apply_for(site)
    site.bench.ok("one.datastore.update", 0, 'SHARED="NO"', 1)
    site.periods(2)
    migrate(site, script, first)
    displace(site)
    operate(site, first)
    script.steps = lambda cloud: [
        Sleep(period=cloud.period, host=host, reason="to save power at night")
        for host in np.delete(cloud.hosts.id, cloud.vms.host[cloud.vms.host >= 0]).tolist()
    ]
    site.periods(4)


def operate(site: Described, vm: int) -> None:
    """Let an administrator move and lock a VM."""
    site.bench.ok("one.vm.action", "resched", vm)
    site.period()
    site.periods(3)
    site.bench.ok("one.vm.lock", vm, 4, False)
    site.periods(1)
    site.bench.ok("one.vm.unlock", vm)


def displace(site: Described) -> None:
    """State limit orders for the same host, of which OpenNebula refuses, or does not stop, some."""
    size = {"CPU": 4, "VCPU": 4, "MEMORY": 4096, "SCHED_REQUIREMENTS": f"ID = {ORDERED}"}
    low, high, dear = (site.guest(name, "WORK=0", **size) for name in ("low", "high", "dear"))
    refusal = Fault(FaultKind.REFUSE, "one.vm.deploy", vm=low, count=1)
    site.cloud.faults.add(refusal)
    site.state_order([low], 5.0)
    site.periods(10)
    site.state_order([high], 50.0)
    site.period()
    site.clock.advance(1.0)
    site.period()
    site.periods(5)
    site.state_order([dear], 500.0)
    site.periods(4)


def apply_for(site: Described) -> None:
    """Start a platform of each kind that an application may declare, and let them measure."""
    job = site.submit(application=JOB)
    service = site.submit(
        application=SERVICE + "\nwork_per_request = 0.02",
        cluster=NODES + MONITOR,
        top='name = "shop"',
    )
    site.submit(application=REPLICATED, top='name = "sensors"')
    for platform in (job, service):
        site.until(platform, "running")
    site.act(job, ProgressReport(done=0.25))
    vm = site.vms(service)[0]
    texts = 'EMBEDDED=[ARRIVALS="20",REQUEST_WORK="0.02"]'
    site.bench.ok("one.vm.update", vm, texts, 1)
    site.periods(1)
    now = site.bench.ok("embedded.guest.service", vm)
    names = ("arrivals_per_s", "response_s")
    site.notes.measured[service] = {
        "nodes": MonitorReading(1.0, {name: float(now[name]) for name in names})
    }
    site.periods(2)


def migrate(site: Described, script: Script, vm: int) -> None:
    """Move a VM slowly, so that a period sees it on its way."""
    site.cloud.faults.add(Fault(FaultKind.DELAY, "one.vm.migrate", seconds=1.0))

    def move(cloud: Snapshot) -> Sequence[Step]:
        at = cloud.vms.host[cloud.vm_row(vm)]
        if at < 0 or not cloud.vms.movable[cloud.vm_row(vm)]:
            return ()
        host = int(cloud.hosts.id[at])
        why = "it is moved as a test"
        return [Migrate(period=cloud.period, vm=vm, reason=why, source=host, host=(host + 1) % 3)]

    script.steps = move
    site.period()
    script.steps = lambda _cloud: ()
    site.clock.advance(2.0)
    site.periods(3)


@pytest.mark.parametrize("column", COLUMNS)
def test_the_cloud_fills(column: str) -> None:
    """A host, a VM, an application or the daemon itself has a value there."""
    assert column in seen()
