"""Hard constraints: where a VM may be at all. They are never traded for anything.

Host states, requirement classes and the roles of VM groups are judged here; whether floors
fit is judged on the board, as it changes with every move.

A VM group has members that take no part in this market: unmanaged ones, failed ones, those of other
markets, those on hosts that are not reached. They stay where they are, and count like all others.
A member that is being migrated counts on the host that it goes to. VMs that must be apart from it
don't come to the host that it leaves either, until it has gone.
"""

import numpy as np

from merkatd.cluster import Bools, Floats, HostState, Ints, RolePolicy, Snapshot
from merkatd.cluster.columns import NOWHERE
from merkatd.market.market_view import MarketView

ELSEWHERE = -2
"""In place of a host that is none of the market's."""

_NONE: Ints = np.zeros(0, dtype=np.int64)


class HardConstraints:
    """What the snapshot allows to each VM of a market."""

    def __init__(self, snapshot: Snapshot, view: MarketView) -> None:
        self._open = view.open
        self._requirement = snapshot.vms.requirement[view.vms]
        classes = snapshot.requirements
        self._allowed = classes.allowed[:, view.hosts] & view.open if len(classes) else None
        ranked = len(classes) and classes.rank.shape[1]
        self._rank = classes.rank[:, view.hosts] if ranked else None
        self.priority: Floats = snapshot.vms.priority[view.vms]
        """[vms]: of new ones the highest is placed first."""
        self.leaving: Bools = snapshot.vms.leaves[view.vms] & (view.place != NOWHERE)
        """[vms]: must be moved away from where they are."""
        disabled = snapshot.hosts.state[view.hosts] == HostState.DISABLED
        self.stays: Bools = np.isin(view.place, np.flatnonzero(disabled)) & ~self.leaving
        """[vms]: run on a disabled host, which no gain moves them off."""
        self._place = view.place
        drained = snapshot.hosts.state[view.hosts] == HostState.DRAINED
        self._going: Bools = view.movable & (
            self.leaving | np.isin(view.place, np.flatnonzero(drained))
        )
        self._floor, self._capacity = view.floor, view.capacity
        self._role = snapshot.vms.role[view.vms]
        self.bound: Bools = self._role != NOWHERE
        """[vms]: have a role, so that what is allowed to them depends on other VMs."""
        self._apart, self._together = _bonds(snapshot)
        self._members = _members(self._role)
        self._outside = _outside(snapshot, view) if self._apart or self._together else {}
        self._left = _left(snapshot, view) if self._apart else {}

    @property
    def outsiders(self) -> dict[int, Ints]:
        """By role: the hosts of members outside this market, ELSEWHERE for hosts of others."""
        return self._outside

    def by_requirement(self, vm: int) -> Bools:
        """[hosts]: open, and allowed by the VM's requirements; not the one it must leave."""
        row = self._requirement[vm]
        known = row != NOWHERE and self._allowed is not None
        allowed: Bools = self._allowed[row] if known else self._open  # type: ignore[index]
        if self.leaving[vm]:
            allowed = allowed.copy()
            allowed[self._place[vm]] = False
        return allowed

    def allow(self, host: int, vms: Ints) -> Bools:
        """[vms]: what `by_requirement` says of one host."""
        may = np.full(len(vms), self._open[host])
        if self._allowed is not None:
            row = self._requirement[vms]
            may = np.where(row == NOWHERE, may, self._allowed[row, host])
        allow: Bools = may & ~(self.leaving[vms] & (self._place[vms] == host))
        return allow

    def preferred(self, vm: int, hosts: Ints) -> int:
        """Of these hosts the one of the highest rank, the first of several."""
        row = self._requirement[vm]
        if row == NOWHERE or self._rank is None:
            return int(hosts[0])
        return int(hosts[np.argmax(self._rank[row, hosts])])

    def allowed(self, vm: int, place: Ints) -> Bools:
        """[hosts]: where the VM may be while the others are where `place` says."""
        mask = self.by_requirement(vm)
        role = int(self._role[vm])
        if role == NOWHERE:
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
        """[hosts]: could take all members of these roles that must leave where they are.

        VMs that have to be together and leave a host are moved one by one. The first goes where all
        find room, and the others follow it: for as long as that takes they are apart.
        """
        there = self._place != NOWHERE
        room = self._capacity.copy()
        np.subtract.at(room, self._place[there], self._floor[there])
        rows = np.concatenate([self._members[role] for role in roles if role in self._members])
        wanted = self._floor[rows[self._going[rows]]].sum(axis=0)
        enough: Bools = (room >= wanted).all(axis=1)
        return enough

    def _hosts_of(
        self, roles: tuple[int, ...], vm: int, place: Ints, out: Bools | None = None
    ) -> Ints:
        """Where the members of these roles are; ELSEWHERE on others' hosts.

        Without this VM, and without those that are `out`.
        """
        rows = [self._members[role] for role in roles if role in self._members]
        found = [self._outside[role] for role in roles if role in self._outside]
        if rows:
            others = np.concatenate(rows)
            others = others[others != vm]
            hosts = place[others if out is None else others[~out[others]]]
            found.append(hosts[hosts != NOWHERE])
        return np.concatenate(found) if found else _NONE


def _bonds(
    snapshot: Snapshot,
) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
    """By role: the roles it must be apart from, and those it must be together with.

    Only of roles that VMs have, and of roles that are bound to those.

    Where two roles are together, so are the members of each: all are on one host. But a role whose
    members are apart has one of them beside each of the other role's.
    """
    apart: dict[int, list[int]] = {}
    together: dict[int, list[int]] = {}
    used = np.unique(snapshot.vms.role)
    policy, pairs = snapshot.roles.policy, snapshot.role_pairs
    own = [(row, row, int(policy[row])) for row in used[used != NOWHERE].tolist()]
    of_vms = np.isin(pairs.first, used) | np.isin(pairs.second, used)
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
    """By role: where the VMs are that have it and take no part in this market."""
    vms = snapshot.vms
    out = (vms.role != NOWHERE) & (vms.host != NOWHERE)
    out[view.vms] = False
    rows = np.flatnonzero(out)
    if not len(rows):
        return {}
    host = _local(snapshot, view)[vms.host[rows]]
    return {role: host[at] for role, at in _members(vms.role[rows]).items()}


def _left(snapshot: Snapshot, view: MarketView) -> dict[int, Ints]:
    """By role: this market's hosts from which members are being migrated, and may come back to."""
    vms = snapshot.vms
    rows = np.flatnonzero((vms.role != NOWHERE) & (vms.source != NOWHERE))
    host = _local(snapshot, view)[vms.source[rows]]
    here = host != ELSEWHERE
    return {role: host[here][at] for role, at in _members(vms.role[rows[here]]).items()}


def _local(snapshot: Snapshot, view: MarketView) -> Ints:
    """[hosts of the snapshot]: their rows in this market, ELSEWHERE for those of others."""
    local = np.full(len(snapshot.hosts), ELSEWHERE)
    local[view.hosts] = np.arange(len(view.hosts))
    return local


def _members(role: Ints) -> dict[int, Ints]:
    """By role: the VMs that have it."""
    bound = np.flatnonzero(role != NOWHERE)
    order = bound[np.argsort(role[bound], kind="stable")]
    roles, first = np.unique(role[order], return_index=True)
    if len(roles) == 0:
        return {}
    return dict(zip(roles.tolist(), np.split(order, first[1:]), strict=True))
