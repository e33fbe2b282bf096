"""Hard constraints: the hosts that a VM may use. No gain overrides them.

This module checks host states, requirement classes and the roles of VM groups. The board checks
whether floors fit, as that changes with every move.

A VM group can have members that take no part in this market: unmanaged VMs, failed VMs, VMs of
other markets, VMs on unreachable hosts. They stay where they are, and count like all other members.
A member that is being migrated counts on its destination. Until it has left its source, VMs that
must be apart from it can't move to the source either.
"""

from functools import cached_property

import numpy as np

from merkatd.cluster import Bools, Floats, HostState, Ints, RolePolicy, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_ROW, is_one_of
from merkatd.market.market_view import MarketView

ELSEWHERE = -2
"""Placeholder for a host outside the market."""

_NONE: Ints = np.zeros(0, dtype=np.int64)


class HardConstraints:
    """The hosts that the snapshot allows for each VM of a market."""

    def __init__(self, snapshot: Snapshot, view: MarketView) -> None:
        self._open = view.open
        self._requirement = snapshot.vms.requirement[view.vms]
        classes = snapshot.requirements
        # One layout for all clouds: numba would compile the strategies anew for another one.
        self._allowed = (
            np.ascontiguousarray(classes.allowed[:, view.hosts] & view.open)
            if len(classes)
            else None
        )
        ranked = len(classes) and classes.rank.shape[1]
        self._rank = classes.rank[:, view.hosts] if ranked else None
        self.priority: Floats = snapshot.vms.priority[view.vms]
        """[vms]: new VMs of the highest priority are placed first."""
        self.order: Ints = snapshot.vms.order[view.vms]
        """[vms]: the limit order of the VM, whose VMs start together; NO_ROW for none."""
        self.leaving: Bools = snapshot.vms.leaves[view.vms] & (view.place != NO_HOST)
        """[vms]: whether the VM must leave its host."""
        disabled = snapshot.hosts.state[view.hosts] == HostState.DISABLED
        self.stays: Bools = is_one_of(view.place, np.flatnonzero(disabled)) & ~self.leaving
        """[vms]: whether the VM runs on a disabled host; no gain moves it away."""
        self._place = view.place
        drained = snapshot.hosts.state[view.hosts] == HostState.DRAINED
        self._going: Bools = view.movable & (
            self.leaving | is_one_of(view.place, np.flatnonzero(drained))
        )
        self._floor, self._capacity = view.floor, view.capacity
        self._role = snapshot.vms.role[view.vms]
        self.bound: Bools = self._role != NO_ROW
        """[vms]: whether the VM has a role, so that its allowed hosts depend on other VMs."""
        self._apart, self._together = _bonds(snapshot)
        self._members = _members(self._role)
        self._outside = _outside(snapshot, view) if self._apart or self._together else {}
        self._left = _left(snapshot, view) if self._apart else {}

    @property
    def outsiders(self) -> dict[int, Ints]:
        """Return, by role, the hosts of members outside this market.

        ELSEWHERE stands for hosts of other markets.
        """
        return self._outside

    @cached_property
    def classes(self) -> Bools:
        """Return [requirement classes + 1, hosts]: allowed hosts; the last row is for no class."""
        open_ = self._open[np.newaxis]
        return open_ if self._allowed is None else np.concatenate([self._allowed, open_])

    @cached_property
    def requirement(self) -> Ints:
        """Return [vms]: the row of `classes`."""
        return np.where(self._requirement == NO_ROW, -1, self._requirement)

    @cached_property
    def plain(self) -> Bools:
        """Return [vms]: whether the VM's class alone decides on its hosts, without a rank."""
        ranked = self._rank is not None and self._requirement != NO_ROW
        plain: Bools = ~(self.bound | self.leaving | ranked)
        return plain

    @cached_property
    def all_plain(self) -> bool:
        """Return whether all VMs are plain."""
        return bool(self.plain.all())

    def by_requirement(self, vm: int) -> Bools:
        """Return [hosts]: open, allowed by the VM's requirements, and not a host it must leave."""
        row = self._requirement[vm]
        known = row != NO_ROW and self._allowed is not None
        allowed: Bools = self._allowed[row] if known else self._open  # type: ignore[index]
        if self.leaving[vm]:
            allowed = allowed.copy()
            allowed[self._place[vm]] = False
        return allowed

    def allow(self, host: int, vms: Ints) -> Bools:
        """Return [vms]: the entry of `by_requirement` for this host, for each VM."""
        may = np.full(len(vms), self._open[host])
        if self._allowed is not None:
            row = self._requirement[vms]
            may = np.where(row == NO_ROW, may, self._allowed[row, host])
        allow: Bools = may & ~(self.leaving[vms] & (self._place[vms] == host))
        return allow

    def alike(self, vms: Ints) -> bool:
        """Return whether the same hosts may take each of these VMs, wherever the others are."""
        required = self._requirement[vms]
        return not self.bound[vms].any() and bool((required == required[:1]).all())

    def partners(self, vm: int, among: Ints) -> Ints:
        """Return those of these VMs that must be on the same host as the VM."""
        roles = self._together.get(int(self._role[vm]), ())
        partners: Ints = among[is_one_of(self._role[among], roles)]
        return partners

    def preferred(self, vm: int, hosts: Ints) -> int:
        """Return the host with the highest rank; the first of equals."""
        row = self._requirement[vm]
        if row == NO_ROW or self._rank is None:
            return int(hosts[0])
        return int(hosts[np.argmax(self._rank[row, hosts])])

    def allowed(self, vm: int, place: Ints) -> Bools:
        """Return [hosts]: where the VM may be while the other VMs are placed as in `place`."""
        mask = self.by_requirement(vm)
        role = int(self._role[vm])
        if role == NO_ROW:
            return mask
        mask = mask.copy()
        rivals = self._hosts_of(self._apart.get(role, ()), vm, place)
        mask[rivals[rivals != ELSEWHERE]] = False
        for rival in self._apart.get(role, ()):
            mask[self._left.get(rival, _NONE)] = False
        together = self._together.get(role, ())
        partners = self._hosts_of(together, vm, place)
        if len(partners) and self._going[vm]:
            partners = self._hosts_of(together, vm, place, self._going & (place == self._place))
            if not len(partners):
                return mask & self._room_for(together)
        if len(partners):
            beside = np.zeros_like(mask)
            beside[partners[partners != ELSEWHERE]] = True
            mask &= beside
        return mask

    def _room_for(self, roles: tuple[int, ...]) -> Bools:
        """Return [hosts]: has room for all members of these roles that must leave their hosts.

        VMs that must be together leave a host one by one. The first moves to a host with room for
        all, and the others follow. Until then they are apart.
        """
        there = self._place != NO_HOST
        room = self._capacity.copy()
        np.subtract.at(room, self._place[there], self._floor[there])
        rows = np.concatenate([self._members[role] for role in roles if role in self._members])
        wanted = self._floor[rows[self._going[rows]]].sum(axis=0)
        enough: Bools = (room >= wanted).all(axis=1)
        return enough

    def _hosts_of(
        self, roles: tuple[int, ...], vm: int, place: Ints, out: Bools | None = None
    ) -> Ints:
        """Return the hosts of the members of these roles; ELSEWHERE for hosts of other markets.

        Leave out this VM and the VMs marked in `out`.
        """
        rows = [self._members[role] for role in roles if role in self._members]
        parts = [self._outside[role] for role in roles if role in self._outside]
        if rows:
            others = np.concatenate(rows)
            others = others[others != vm]
            hosts = place[others if out is None else others[~out[others]]]
            parts.append(hosts[hosts != NO_HOST])
        return np.concatenate(parts) if parts else _NONE


def _bonds(
    snapshot: Snapshot,
) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
    """Return, by role, the roles it must be apart from and the roles it must be together with.

    The result has only the roles of VMs, and roles bound to these.

    If two roles must be together, the members within each role must be too: all on one host.
    Exception: if the members of one role must be apart, each stands beside a member of the other.
    """
    apart: dict[int, list[int]] = {}
    together: dict[int, list[int]] = {}
    used = np.flatnonzero(np.bincount(snapshot.vms.role - NO_ROW)) + NO_ROW
    policy, pairs = snapshot.roles.policy, snapshot.role_pairs
    own = [(row, row, int(policy[row])) for row in used[used != NO_ROW].tolist()]
    of_vms = is_one_of(pairs.first, used) | is_one_of(pairs.second, used)
    others = np.stack([pairs.first, pairs.second, pairs.policy], axis=1)[of_vms].tolist()
    for first, second, kind in [*own, *others]:
        bonds = {RolePolicy.APART: apart, RolePolicy.TOGETHER: together}.get(kind)
        if bonds is not None:
            bonds.setdefault(first, []).append(second)
            if first != second:
                bonds.setdefault(second, []).append(first)
    for role, beside in together.items():
        if role not in beside and role not in apart.get(role, ()):
            beside.append(role)
    return _fixed(apart), _fixed(together)


def _fixed(bonds: dict[int, list[int]]) -> dict[int, tuple[int, ...]]:
    return {role: tuple(others) for role, others in bonds.items()}


def _outside(snapshot: Snapshot, view: MarketView) -> dict[int, Ints]:
    """Return, by role, the hosts of its VMs that take no part in this market."""
    vms = snapshot.vms
    out = (vms.role != NO_ROW) & (vms.host != NO_HOST)
    out[view.vms] = False
    rows = np.flatnonzero(out)
    if not len(rows):
        return {}
    host = _local(snapshot, view)[vms.host[rows]]
    return {role: host[at] for role, at in _members(vms.role[rows]).items()}


def _left(snapshot: Snapshot, view: MarketView) -> dict[int, Ints]:
    """Return, by role, this market's hosts that members are leaving by migration.

    A member returns there if its migration fails.
    """
    vms = snapshot.vms
    rows = np.flatnonzero((vms.role != NO_ROW) & (vms.source != NO_HOST))
    host = _local(snapshot, view)[vms.source[rows]]
    here = host != ELSEWHERE
    return {role: host[here][at] for role, at in _members(vms.role[rows[here]]).items()}


def _local(snapshot: Snapshot, view: MarketView) -> Ints:
    """Return [hosts of the snapshot]: the row in this market; ELSEWHERE outside the market."""
    local = np.full(len(snapshot.hosts), ELSEWHERE)
    local[view.hosts] = np.arange(len(view.hosts))
    return local


def _members(role: Ints) -> dict[int, Ints]:
    """Return, by role, the VMs with that role."""
    bound = np.flatnonzero(role != NO_ROW)
    order = bound[np.argsort(role[bound], kind="stable")]
    roles, first = np.unique(role[order], return_index=True)
    if len(roles) == 0:
        return {}
    return dict(zip(roles.tolist(), np.split(order, first[1:]), strict=True))
