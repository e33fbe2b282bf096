"""The state of a tabu search: the board, the scores of hosts, and the permitted moves.

Neighbourhoods propose moves. This module checks them against the limits (migrations in all and
per host, tabu pairs), and updates the state after each move.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import NO_HOST
from merkatd.placement.base.board import Board, floors_fit
from merkatd.placement.base.compiled import compiled
from merkatd.placement.base.host_shares import SUM_OF_SHORTFALLS, VmTerms, host_score
from merkatd.placement.base.placement_problem import PlacementProblem
from merkatd.placement.market.trial_moves import Estimates, TrialTable, update_hosts


@dataclass(frozen=True, slots=True)
class Move:
    """The move of one VM to another host, or the swap of two VMs."""

    changes: tuple[tuple[int, int], ...]
    """Pairs of VM and new host."""
    gain: float
    """Decrease of the objective."""
    extra: int
    """Number of additional migrations; negative if a VM returns home."""

    def rate(self) -> float:
        """Return the gain per additional migration."""
        return self.gain / self.extra if self.gain > 0 and self.extra > 1 else self.gain


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """The limits of a search."""

    m_max: int
    per_host: int
    """Most migrations from and to one host together."""
    tenure: int


class Search:
    """A board that a search improves."""

    def __init__(
        self,
        problem: PlacementProblem,
        board: Board,
        movable: Bools,
        objective: int,
        limits: SearchLimits,
        most_load: float = np.inf,
    ) -> None:
        self.game = problem
        self.board = board
        self.stakes = problem.stakes
        self.objective = objective
        self.limits = limits
        self.movable = movable
        self.most_load = most_load
        self.home = problem.view.place
        """[vms]: the present host; NO_HOST for a new VM, which may start on any host."""
        self.migrations = 0
        self.iteration = 0
        hosts, resources = problem.view.capacity.shape
        self.touched: Ints = np.zeros(hosts, dtype=np.int64)
        self.version: Ints = np.zeros(hosts, dtype=np.int64)
        self.scores: Floats = np.zeros(hosts)
        self.without: Floats = np.zeros(len(self.home))
        self.estimates = Estimates(
            spare=np.zeros((hosts, resources)),
            level=np.zeros((hosts, resources)),
            harm=np.zeros((hosts, resources)),
            floors=np.zeros((hosts, resources)),
            bids=np.zeros((hosts, resources)),
            load=np.zeros(hosts),
        )
        for vm in self.away().tolist():
            self._count(vm, int(board.place[vm]), 1)
        self._tabu: dict[int, dict[int, int]] = {}
        self._score_hosts(np.arange(hosts))

    @property
    def table(self) -> TrialTable:
        """Return the board for compiled code."""
        board = self.board
        return TrialTable(board.rows, board.start, board.count, board.capacity)

    def leave(self, vms: Ints) -> Floats:
        """Return [these VMs]: the decrease of its host's score when the VM leaves."""
        gain: Floats = self.scores[self.board.place[vms]] - self.without[vms]
        return gain

    def leaving(self, vm: int) -> float:
        """Return the decrease of the host's score when the VM leaves."""
        return float(self.scores[self.board.place[vm]] - self.without[vm])

    def may_move(self, vms: Ints) -> Bools:
        """Return [these VMs]: whether the limits let the VM move to another host now."""
        may = self.may_leave(vms)
        if self.migrations >= self.limits.m_max:
            may &= self.board.place[vms] != self.home[vms]
        return may

    def may_leave(self, vms: Ints) -> Bools:
        """Return [these VMs]: whether the VM may leave its host, apart from `m_max`."""
        place = self.board.place[vms]
        full = self.touched[place] >= self.limits.per_host
        at_home = place == self.home[vms]
        may: Bools = self.movable[vms] & (place != NO_HOST) & ~(at_home & full)
        return may

    def hosts_for(self, vm: int) -> Bools:
        """Return [hosts]: whether constraints, tabu list and limits per host allow the VM there."""
        place = self.board.place
        allowed = self.game.rules.allowed(vm, place).copy()
        home = int(self.home[vm])
        if home != NO_HOST:
            going_home = allowed[home]
            allowed &= self.touched < self.limits.per_host
            allowed[home] = going_home
        allowed[place[vm]] = False
        if self.most_load < np.inf:
            allowed &= self._light_enough(vm)
        for host, end in self._tabu.get(vm, {}).items():
            if end >= self.iteration:
                allowed[host] = False
        return allowed

    def extra_migrations(self, vm: int, host: int) -> int:
        """Return the number of additional migrations when the VM moves there: 1, 0 or -1."""
        home, place = int(self.home[vm]), int(self.board.place[vm])
        if home == NO_HOST:
            return 0
        return int(host != home) - int(place != home)

    def away(self) -> Ints:
        """Return the running VMs that are not on their present host."""
        away: Ints = np.flatnonzero((self.home != NO_HOST) & (self.home != self.board.place))
        return away

    def keeps_to_limits(self) -> bool:
        """Return whether the number of migrations is within the limits, in all and per host."""
        within = self.touched <= self.limits.per_host
        return self.migrations <= self.limits.m_max and bool(within.all())

    def loss_without(self, vm: int) -> float:
        """Return the increase of the objective if the VM returns home; infinite if it can't."""
        home, place = int(self.home[vm]), int(self.board.place[vm])
        if not self.game.rules.allowed(vm, self.board.place)[home]:
            return np.inf
        if self.most_load < np.inf and not self._light_enough(vm)[home]:
            return np.inf
        at_home = self.score_with(home, vm, NO_HOST)
        behind = float(self.without[vm])
        if self.objective == SUM_OF_SHORTFALLS:
            return float(at_home + behind - self.scores[home] - self.scores[place])
        others = float(np.delete(self.scores, [home, place]).max(initial=0.0))
        return max(at_home, behind, others) - float(self.scores.max())

    def _light_enough(self, vm: int) -> Bools:
        """Return [hosts]: whether the load stays within `most_load` with this VM."""
        bids = self.estimates.bids + self.game.view.bid[vm]
        light: Bools = (bids <= self.most_load * self.board.capacity).all(axis=1)
        return light

    def may_take(self, host: int, vms: Ints) -> Bools:
        """Return [these VMs]: the entry of `hosts_for` for this host, without constraints."""
        tabu = (self._tabu.get(vm, {}).get(host, -1) < self.iteration for vm in vms.tolist())
        may = np.fromiter(tabu, dtype=bool, count=len(vms))
        if self.touched[host] >= self.limits.per_host:
            may &= self.home[vms] == host
        if self.most_load < np.inf:
            bids = self.estimates.bids[host] + self.game.view.bid[vms]
            may &= (bids <= self.most_load * self.board.capacity[host]).all(axis=1)
        return may

    def score_with(self, host: int, come: int, go: int) -> float:
        """Return the host's score if the VM `come` came and the VM `go` left (-1: no VM).

        Return infinity if the floors would not fit.
        """
        table = self.table
        return float(
            _score_with(
                table.rows,
                table.start[host],
                table.counts[host],
                come,
                go,
                table.capacity[host],
                self.stakes,
                self.objective,
            )
        )

    def make(self, changes: tuple[tuple[int, int], ...]) -> None:
        """Move the VMs, make their old hosts tabu for them, update the scores of the hosts."""
        self.iteration += 1
        changed: set[int] = set()
        for vm, host in changes:
            source = int(self.board.place[vm])
            self._count(vm, source, -1)
            self.board.move(vm, host)
            self._count(vm, host, 1)
            self._tabu.setdefault(vm, {})[source] = self.iteration + self.limits.tenure
            changed |= {source, host, int(self.home[vm])} - {NO_HOST}
        hosts = np.array(sorted(changed), dtype=np.int64)
        self._score_hosts(hosts)
        self.version[hosts] += 1

    def _count(self, vm: int, host: int, change: int) -> None:
        """Add `change` to the number of migrations, in all and at both hosts, if it is one."""
        home = int(self.home[vm])
        if home not in (NO_HOST, host):
            self.migrations += change
            self.touched[home] += change
            self.touched[host] += change

    def _score_hosts(self, hosts: Ints) -> None:
        if len(hosts):
            update_hosts(
                hosts,
                self.table,
                self.stakes,
                self.objective,
                self.scores,
                self.without,
                self.estimates,
            )


@compiled
def _score_with(
    rows: Ints,
    start: int,
    count: int,
    come: int,
    go: int,
    capacity: Floats,
    terms: VmTerms,
    objective: int,
) -> float:
    group = np.empty(count + 1, dtype=np.int64)
    size = 0
    waiting = come >= 0
    for i in range(count):
        row = rows[start + i]
        if waiting and row > come:
            group[size] = come
            size += 1
            waiting = False
        if row != go:
            group[size] = row
            size += 1
    if waiting:
        group[size] = come
        size += 1
    if come >= 0 and not floors_fit(group, size, capacity, terms.floor):
        return np.inf
    return host_score(group, size, capacity, terms, objective, np.empty((2, size + 1)))


_NO_VMS: Ints = np.zeros(0, dtype=np.int64)


def exchange_partners(search: Search, vm: int, hosts: list[int]) -> Ints:
    """Return the VMs on these hosts that may swap places with the VM.

    The VM must be allowed on the hosts. VMs with a role never swap. Floors are not checked.
    """
    rules, home, place = search.game.rules, search.home, search.board.place
    others: Ints = np.concatenate([search.board.on(host) for host in hosts] or [_NO_VMS])
    source = int(place[vm])
    others = others[search.movable[others] & ~rules.bound[others]]
    others = others[rules.allow(source, others) & search.may_take(source, others)]
    if home[vm] == NO_HOST and (home[others] == NO_HOST).all():
        return others
    extra = _extra(home[others], place[others], source) + _extra(home[vm], source, place[others])
    others = others[search.migrations + extra <= search.limits.m_max]
    spared = [
        _spares_hosts(search, ((vm, int(place[other])), (other, source)))
        for other in others.tolist()
    ]
    left: Ints = others[np.array(spared, dtype=bool)]
    return left


def _extra(home: Ints | int, place: Ints | int, host: Ints | int) -> Ints:
    """Return the number of additional migrations when these VMs go to the host."""
    more = np.subtract(np.not_equal(home, host), np.not_equal(home, place), dtype=np.int64)
    extra: Ints = np.where(np.equal(home, NO_HOST), 0, more)
    return extra


def _spares_hosts(search: Search, changes: tuple[tuple[int, int], ...]) -> bool:
    """Return whether every host stays within its limit of migrations after these changes."""
    change: Counter[int] = Counter()
    for vm, host in changes:
        home, place = int(search.home[vm]), int(search.board.place[vm])
        if home not in {NO_HOST, place}:
            change.subtract((home, place))
        if home not in {NO_HOST, host}:
            change.update((home, host))
    return all(
        more <= 0 or search.touched[host] + more <= search.limits.per_host
        for host, more in change.items()
    )
