"""Views of groups for users: owner, settings, VMs and their allocations."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import sqlalchemy as sa

from merkatd.cluster.columns import NO_HOST, NO_ROW, rows_of
from merkatd.database.fleets import group_vm_store
from merkatd.database.fleets.group_store import GroupRow
from merkatd.database.fleets.group_vm_store import GROUP_MEMBERS, GroupMember
from merkatd.groups.group_orders import letters, octal
from merkatd.limits.cpu_limits import UNITS_PER_CORE
from merkatd.market.explanation import hosts_after
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.charging.used_cpu import CPU
from merkatd.scheduler.phases.announce import Announcement

RUNNING = "RUNNING"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupVm:
    """A VM of a group that the latest period has not seen."""

    vm: int | None
    """None while it is being created."""
    number: int
    """Its sequence number within its group."""
    leaving: bool
    """Whether it is about to be ended."""
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenGroupVm(GroupVm):
    """A VM of a group, with its host, bid and share in the latest period."""

    host: str | None
    bid: float
    cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """The short view of a group, for lists."""

    id: int
    name: str
    owner: int
    user: str | None
    """The name of its owner."""
    user_group: int
    group: str | None
    """The name of the group of users to which its group permissions apply."""
    permissions: str
    may: str
    """The permissions as letters."""
    market: str
    spending_rate: float
    rate_of_a_vm: float
    nvm: int
    running: int
    vm_ids: Sequence[int]
    cpu: float
    cost_at_most: float
    """The cost of a period if the VMs use all of their shares."""
    state: str
    why: str
    """The last problem with the group, empty if there is none."""
    created_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetails(GroupSummary):
    """The full view of a group."""

    template: str
    vms: Sequence[GroupVm]


class LatestVms:
    """VMs and users' names as of the latest period; `markets` are the configured ones."""

    def __init__(self, latest: Announcement | None, markets: Sequence[MarketRules] = ()) -> None:
        self._latest = latest
        self._markets = {market.name: market for market in markets}
        if latest is not None:
            self._hosts = hosts_after(latest.seen.snapshot, latest.decided.decision.plan)

    def user(self, owner: int) -> str | None:
        """Return the user's name, None if it is not known."""
        names = {} if self._latest is None else self._latest.seen.observation.owner_name
        return names.get(owner)

    def user_group(self, group: int) -> str | None:
        """Return the name of a group of users, None if it is not known."""
        names = {} if self._latest is None else self._latest.seen.observation.group_name
        return names.get(group)

    def remark_on(self, market: str) -> str:
        """Return what keeps this market from its hosts; empty if all its clusters exist."""
        if self._latest is None:
            return ""
        snapshot = self._latest.seen.snapshot
        names = list(snapshot.markets.name)
        if market not in names:
            return f"market {market} is not configured: its VMs get no host"
        missing = self._missing_clusters(market)
        if bool((snapshot.hosts.market == names.index(market)).any()):
            return f"market {market} names {missing}" if missing else ""
        why = f"its configuration names {missing}" if missing else "its clusters are empty"
        return f"market {market} has no host: {why}"

    def _missing_clusters(self, market: str) -> str:
        """Return which named clusters OpenNebula does not have, an empty text for none."""
        rules = self._markets.get(market)
        if self._latest is None or rules is None:
            return ""
        known = self._latest.seen.observation.cluster_name
        ids = sorted((rules.clusters or frozenset()) - known.keys())
        named = sorted((rules.cluster_names or frozenset()) - {*known.values()})
        missing = ", ".join([*map(str, ids), *named])
        if not missing:
            return ""
        if len(ids) + len(named) == 1:
            return f"cluster {missing}, which does not exist"
        return f"clusters {missing}, which do not exist"

    def use(self, vms: Sequence[int]) -> tuple[int, float]:
        """Return how many of these VMs run, and the sum of their CPU allocations."""
        if self._latest is None:
            return 0, 0.0
        rows = self._rows_of(vms)
        words = self._latest.seen.observation.vm_words
        allocations = self._latest.decided.decision.allocations[rows, CPU]
        return sum(words[row] == RUNNING for row in rows), sum(allocations.tolist(), 0.0)

    def _rows_of(self, vms: Sequence[int]) -> list[int]:
        """Return the snapshot's rows of these VMs, in this order, without VMs it lacks."""
        if self._latest is None:
            return []
        rows = rows_of(self._latest.seen.snapshot.vms.id, np.asarray(vms, np.int64))
        known: list[int] = rows[rows != NO_ROW].tolist()
        return known

    def vm(self, member: GroupMember) -> GroupVm:
        """Return the view of a group's VM; VMs not in the snapshot have neither host nor bid."""
        rows = [] if member.vm is None else self._rows_of([member.vm])
        if self._latest is None or not rows:
            state = "being made" if member.vm is None else "not seen yet"
            return GroupVm(vm=member.vm, number=member.number, leaving=member.leaving, state=state)
        row = rows[0]
        snapshot, decision = self._latest.seen.snapshot, self._latest.decided.decision
        host = int(self._hosts[row])
        return SeenGroupVm(
            vm=member.vm,
            number=member.number,
            leaving=member.leaving,
            state=self._latest.seen.observation.vm_words[row],
            host=None if host == NO_HOST else snapshot.hosts.name[host],
            bid=float(snapshot.vms.bid[row, CPU]),
            cpu=float(decision.allocations[row, CPU]),
        )


def summary(group: GroupRow, vms: Sequence[int], sights: LatestVms) -> GroupSummary:
    """Return a group's view without its template and VMs; `vms` are the ids of its VMs."""
    running, cpu = sights.use(vms)
    return GroupSummary(
        id=group.id,
        name=group.name,
        owner=group.owner,
        user=sights.user(group.owner),
        user_group=group.user_group,
        group=sights.user_group(group.user_group),
        permissions=octal(group.permissions),
        may=letters(group.permissions),
        market=group.market,
        spending_rate=group.spending_rate,
        rate_of_a_vm=group.rate_of_a_vm,
        nvm=group.nvm,
        running=running,
        vm_ids=list(vms),
        cpu=cpu,
        cost_at_most=group.spending_rate * cpu / UNITS_PER_CORE,
        state="ending" if group.ending else "active",
        why=group.why or sights.remark_on(group.market),
        created_s=group.created_s,
    )


def rows(
    connection: sa.Connection, some: Sequence[GroupRow], sights: LatestVms
) -> list[GroupSummary]:
    """Return short views of these groups."""
    vms = group_vm_store.ids(connection, [group.id for group in some])
    return [summary(group, vms[group.id], sights) for group in some]


def group_view(connection: sa.Connection, group: GroupRow, sights: LatestVms) -> GroupDetails:
    """Return the full view of a group."""
    living = GROUP_MEMBERS.living(connection, group.id)
    short = summary(group, [vm.vm for vm in living if vm.vm is not None], sights)
    known = {field.name: getattr(short, field.name) for field in fields(short)}
    return GroupDetails(
        **known, template=group.template, vms=[sights.vm(member) for member in living]
    )
