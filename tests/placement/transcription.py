"""Algorithm 1 line by line, recomputing everything: the reference for `paper`.

It shares only the market's arithmetic (`market/`) and the reading of the snapshot with the
strategy. Placing, moving, tabu and migration counts are written again from the paper, with its
errors corrected as the design says.
"""

from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Floats, Ints, RolePolicy, Snapshot
from merkatd.cluster.columns import NO_HOST
from merkatd.market.error import errors
from merkatd.market.market_view import MarketView, market_view
from merkatd.placement.tabu.paper import MarketSettings


@dataclass
class Transcription:
    """One market's run of the algorithm; `place` is the result."""

    snapshot: Snapshot
    view: MarketView
    place: Ints

    def feasible(self, vm: int, host: int) -> bool:
        """Return whether the rules and the floors allow the VM on the host."""
        view, row = self.view, self.view.vms[vm]
        if not view.open[host]:
            return False
        requirement = self.snapshot.vms.requirement[row]
        allowed = self.snapshot.requirements.allowed
        if requirement >= 0 and not allowed[requirement, view.hosts[host]]:
            return False
        if not self._roles_allow(vm, host):
            return False
        for resource in range(view.bid.shape[1]):
            total = 0.0
            for other in range(len(self.place)):
                if self.place[other] == host or other == vm:
                    total += float(view.floor[other, resource])
            if total > view.capacity[host, resource]:
                return False
        return True

    def _roles_allow(self, vm: int, host: int) -> bool:
        roles = self.snapshot.vms.role[self.view.vms]
        if roles[vm] < 0:
            return True
        partners = []
        for other in range(len(self.place)):
            if other == vm or roles[other] < 0 or self.place[other] == NO_HOST:
                continue
            policy = self._policy(int(roles[vm]), int(roles[other]))
            if policy == RolePolicy.APART and self.place[other] == host:
                return False
            if policy == RolePolicy.TOGETHER:
                partners.append(int(self.view.hosts[self.place[other]]))
        # Members outside of the market stay on their hosts, and count.
        vms, inside = self.snapshot.vms, set(self.view.vms.tolist())
        for other in range(len(vms.role)):
            if other in inside or vms.role[other] < 0 or vms.host[other] == NO_HOST:
                continue
            policy = self._policy(int(roles[vm]), int(vms.role[other]))
            if policy == RolePolicy.APART and vms.host[other] == self.view.hosts[host]:
                return False
            if policy == RolePolicy.TOGETHER:
                partners.append(int(vms.host[other]))
        return not partners or int(self.view.hosts[host]) in partners

    def _policy(self, first: int, second: int) -> int:
        if first == second:
            return int(self.snapshot.roles.policy[first])
        pairs = self.snapshot.role_pairs
        for role, other, policy in zip(pairs.first, pairs.second, pairs.policy, strict=True):
            if {int(role), int(other)} == {first, second}:
                return int(policy)
        return RolePolicy.NONE

    def load(self, host: int) -> float:
        """Return the largest ratio of bids to capacity over the resources."""
        load = 0.0
        for resource in range(self.view.bid.shape[1]):
            total = 0.0
            for vm in range(len(self.place)):
                if self.place[vm] == host:
                    total += float(self.view.bid[vm, resource])
            capacity = float(self.view.capacity[host, resource])
            if capacity > 0:
                load = max(load, total / capacity)
            elif total > 0:
                load = np.inf
        return load

    def compute_errors(self) -> Floats:
        """ComputeErrors: both allocations for the whole cloud, Eq. 2, the larger resource."""
        first = self.view.first(self.started != NO_HOST).allocation
        error_of_vm: Floats = errors(first, self.view.on_hosts(self.place).allocation).max(axis=1)
        return error_of_vm

    def run(self, settings: MarketSettings) -> Ints:
        """ComputePlacement of the paper."""
        hosts = range(len(self.view.hosts))
        for vm in np.flatnonzero(self.place == NO_HOST).tolist():
            candidates = [host for host in hosts if self.feasible(vm, host)]
            if candidates:
                self.place[vm] = min(candidates, key=lambda host: (self.load(host), host))
        self.started = self.place.copy()
        new = (self.view.place == NO_HOST) & (self.started != NO_HOST)
        movable = self.view.movable | new
        best = self.place.copy()
        tabu: list[tuple[int, int, int]] = []
        e = self.compute_errors()
        e_worse = float(e.max(initial=0.0))
        n_iterations = iteration = 0
        while n_iterations < settings.n_iter and e_worse > settings.e_max:
            iteration += 1
            forbidden = {(vm, host) for vm, host, end in tabu if iteration <= end}
            move = self.next_move(e, movable, forbidden)
            if move is None:
                break
            vm, destination = move
            tabu.append((vm, int(self.place[vm]), iteration + settings.tenure))
            self.place[vm] = destination
            e = self.compute_errors()
            e_max = float(e.max())
            migrations = int(((self.place != self.view.place) & ~new)[movable].sum())
            if e_worse - e_max > 0 and migrations <= settings.m_max(len(self.place)):
                best, e_worse, n_iterations = self.place.copy(), e_max, 0
            else:
                n_iterations += 1
        self.place = best
        return best

    def next_move(
        self, e: Floats, movable: Ints, forbidden: set[tuple[int, int]]
    ) -> tuple[int, int] | None:
        """Return the VM with the largest error that can move, and its best node."""
        for vm in sorted(np.flatnonzero(movable).tolist(), key=lambda vm: (-e[vm], vm)):
            source = int(self.place[vm])
            best: tuple[float, int] | None = None
            for host in range(len(self.view.hosts)):
                if host == source or (vm, host) in forbidden or not self.feasible(vm, host):
                    continue
                self.place[vm] = host
                error = float(self.compute_errors()[vm])
                self.place[vm] = source
                if best is None or error < best[0]:
                    best = (error, host)
            if best is not None:
                return vm, best[1]
        return None


def transcription(snapshot: Snapshot, settings: MarketSettings, market: int = 0) -> Ints:
    """Return [vms of the market]: their hosts by Algorithm 1."""
    view = market_view(snapshot, market)
    return Transcription(snapshot, view, view.place.copy()).run(settings)
