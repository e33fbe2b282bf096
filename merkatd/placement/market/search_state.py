"""What a tabu search keeps: the board, scores of hosts, which VMs and pairs may move.

Neighbourhoods propose moves; this part knows whether the limits allow them (how many VMs
are migrated, how many at each host, what is tabu) and keeps everything up to date when one
is made.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import NOWHERE
from merkatd.placement.base.board import Board, floors_fit
from merkatd.placement.base.compiled import compiled
from merkatd.placement.base.host_shares import SUM_OF_SHORTFALLS, Stakes, score
from merkatd.placement.base.placement_problem import PlacementProblem
from merkatd.placement.market.trial_moves import Estimates, TrialTable, look_at


@dataclass(frozen=True, slots=True)
class Move:
    """One VM to another host, or two that change places."""

    changes: tuple[tuple[int, int], ...]
    """(vm, host)"""
    gain: float
    """What it takes off the objective."""
    extra: int
    """How many more VMs are migrated once it is made; less than 0 where one goes home."""

    def rate(self) -> float:
        """The gain for each migration it costs."""
        return self.gain / self.extra if self.gain > 0 and self.extra > 1 else self.gain


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """What the search must keep to."""

    m_max: int
    per_host: int
    """Migrations from and to one host together."""
    tenure: int


class Search:
    """A board that is being improved."""

    def __init__(
        self,
        game: PlacementProblem,
        board: Board,
        movable: Bools,
        objective: int,
        limits: SearchLimits,
        most_load: float = np.inf,
    ) -> None:
        self.game = game
        self.board = board
        self.stakes = game.stakes
        self.objective = objective
        self.limits = limits
        self.movable = movable
        self.most_load = most_load
        self.home = game.view.place
        """[vms]: NOWHERE for a new VM, which may start anywhere."""
        self.migrations = 0
        self.iteration = 0
        hosts, resources = game.view.capacity.shape
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
        self._look_at(np.arange(hosts))

    @property
    def table(self) -> TrialTable:
        """The board for compiled code."""
        board = self.board
        return TrialTable(board.rows, board.start, board.count, board.capacity)

    def leave(self, vms: Ints) -> Floats:
        """By how much the score of their host falls when each of these VMs leaves it."""
        gain: Floats = self.scores[self.board.place[vms]] - self.without[vms]
        return gain

    def leaving(self, vm: int) -> float:
        """The same for one."""
        return float(self.scores[self.board.place[vm]] - self.without[vm])

    def may_move(self, vms: Ints) -> Bools:
        """Which of these VMs could be given another host now, as far as limits go."""
        may = self.may_leave(vms)
        if self.migrations >= self.limits.m_max:
            may &= self.board.place[vms] != self.home[vms]
        return may

    def may_leave(self, vms: Ints) -> Bools:
        """The same while the number of migrations does not count."""
        place = self.board.place[vms]
        full = self.touched[place] >= self.limits.per_host
        at_home = place == self.home[vms]
        may: Bools = self.movable[vms] & (place != NOWHERE) & ~(at_home & full)
        return may

    def hosts_for(self, vm: int) -> Bools:
        """[hosts]: where the VM may go now: rules, tabu and the limit of moves at a host."""
        place = self.board.place
        allowed = self.game.rules.allowed(vm, place).copy()
        home = int(self.home[vm])
        if home != NOWHERE:
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
        """How many more VMs are migrated when this one goes there: 1, 0 or -1."""
        home, place = int(self.home[vm]), int(self.board.place[vm])
        if home == NOWHERE:
            return 0
        return int(host != home) - int(place != home)

    def away(self) -> Ints:
        """The VMs that run already and are not where they were."""
        away: Ints = np.flatnonzero((self.home != NOWHERE) & (self.home != self.board.place))
        return away

    def keeps_to_limits(self) -> bool:
        """Whether no more VMs are migrated than may be, in all and at each host."""
        within = self.touched <= self.limits.per_host
        return self.migrations <= self.limits.m_max and bool(within.all())

    def loss_without(self, vm: int) -> float:
        """What the objective would lose if this VM went home; infinite where it can't."""
        home, place = int(self.home[vm]), int(self.board.place[vm])
        if not self.game.rules.allowed(vm, self.board.place)[home]:
            return np.inf
        if self.most_load < np.inf and not self._light_enough(vm)[home]:
            return np.inf
        at_home = self.score_with(home, vm, NOWHERE)
        behind = float(self.without[vm])
        if self.objective == SUM_OF_SHORTFALLS:
            return float(at_home + behind - self.scores[home] - self.scores[place])
        others = float(np.delete(self.scores, [home, place]).max(initial=0.0))
        return max(at_home, behind, others) - float(self.scores.max())

    def _light_enough(self, vm: int) -> Bools:
        """[hosts]: with this VM too, the load stays within the limit."""
        bids = self.estimates.bids + self.game.view.bid[vm]
        light: Bools = (bids <= self.most_load * self.board.capacity).all(axis=1)
        return light

    def may_take(self, host: int, vms: Ints) -> Bools:
        """What `hosts_for` says of one host for each of these, but for its rules."""
        tabu = (self._tabu.get(vm, {}).get(host, -1) < self.iteration for vm in vms.tolist())
        may = np.fromiter(tabu, dtype=bool, count=len(vms))
        if self.touched[host] >= self.limits.per_host:
            may &= self.home[vms] == host
        if self.most_load < np.inf:
            bids = self.estimates.bids[host] + self.game.view.bid[vms]
            may &= (bids <= self.most_load * self.board.capacity[host]).all(axis=1)
        return may

    def score_with(self, host: int, come: int, go: int) -> float:
        """The host's score if one VM came and one went (-1: nobody).

        Infinite where the floors would not fit.
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
        """Move the VMs, remember where they came from, look at the hosts again."""
        self.iteration += 1
        changed: set[int] = set()
        for vm, host in changes:
            source = int(self.board.place[vm])
            self._count(vm, source, -1)
            self.board.move(vm, host)
            self._count(vm, host, 1)
            self._tabu.setdefault(vm, {})[source] = self.iteration + self.limits.tenure
            changed |= {source, host, int(self.home[vm])} - {NOWHERE}
        hosts = np.array(sorted(changed), dtype=np.int64)
        self._look_at(hosts)
        self.version[hosts] += 1

    def _count(self, vm: int, host: int, change: int) -> None:
        """Keep the number of migrations, in all and at both hosts of each."""
        home = int(self.home[vm])
        if home not in (NOWHERE, host):
            self.migrations += change
            self.touched[home] += change
            self.touched[host] += change

    def _look_at(self, hosts: Ints) -> None:
        if len(hosts):
            look_at(
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
    stakes: Stakes,
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
    if come >= 0 and not floors_fit(group, size, capacity, stakes.floor):
        return np.inf
    return score(group, size, capacity, stakes, objective, np.empty((2, size + 1)))


_NOBODY: Ints = np.zeros(0, dtype=np.int64)


def partners(search: Search, vm: int, hosts: list[int]) -> Ints:
    """Those on these hosts that may come to where the VM is while it goes to where they are.

    The VM may go to the hosts; neither side may have a role. Whether floors fit is not asked.
    """
    rules, home, place = search.game.rules, search.home, search.board.place
    others: Ints = np.concatenate([search.board.on(host) for host in hosts] or [_NOBODY])
    source = int(place[vm])
    others = others[search.movable[others] & ~rules.bound[others]]
    others = others[rules.allow(source, others) & search.may_take(source, others)]
    if home[vm] == NOWHERE and (home[others] == NOWHERE).all():
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
    """How many more VMs are migrated when these go from their places to the host."""
    more = np.subtract(np.not_equal(home, host), np.not_equal(home, place), dtype=np.int64)
    extra: Ints = np.where(np.equal(home, NOWHERE), 0, more)
    return extra


def _spares_hosts(search: Search, changes: tuple[tuple[int, int], ...]) -> bool:
    """Whether no host sees more migrations than it may once all these are made."""
    change: Counter[int] = Counter()
    for vm, host in changes:
        home, place = int(search.home[vm]), int(search.board.place[vm])
        if home not in {NOWHERE, place}:
            change.subtract((home, place))
        if home not in {NOWHERE, host}:
            change.update((home, host))
    return all(
        more <= 0 or search.touched[host] + more <= search.limits.per_host
        for host, more in change.items()
    )
