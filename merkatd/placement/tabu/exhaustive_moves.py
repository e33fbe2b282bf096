"""The neighbourhood of all moves and all pairs of moves, for small clouds.

If few VMs may migrate, the best single move can prevent the best pair, and no later move repairs
that. With pairs the search can also undo one move and make another in a single step.
"""

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.placement.base.board import floors_fit
from merkatd.placement.base.compiled import compiled
from merkatd.placement.base.host_shares import LARGEST_ERROR, VmTerms, host_score
from merkatd.placement.market.search_state import Move, Search
from merkatd.placement.market.trial_moves import TrialTable

MOST_CHOICES = 96
"""Largest number of VMs times hosts for which all pairs are tried."""


def small_enough(search: Search) -> bool:
    """Return whether the cloud is small enough to try all pairs of moves."""
    return len(search.home) * len(search.scores) <= MOST_CHOICES


class ExhaustiveMoves:
    """Proposes the best move or pair of moves, by either objective."""

    def __init__(self, search: Search) -> None:
        self._search = search

    def total(self) -> float:
        """Return the present value of the objective."""
        scores = self._search.scores
        if self._search.objective == LARGEST_ERROR:
            return float(scores.max(initial=0.0))
        return float(scores.sum())

    def best(self) -> Move | None:
        """Return the best move or pair; of equals the one with fewer migrations, then lower ids."""
        search = self._search
        vms = np.arange(len(search.home))
        choices = [
            (vm, host)
            for vm in vms[search.may_leave(vms)].tolist()
            for host in np.flatnonzero(search.hosts_for(vm)).tolist()
        ]
        if not choices:
            return None
        pairs = np.array(choices)
        extra = np.array([search.extra_migrations(vm, host) for vm, host in choices])
        first, second, then = _best_pair(
            pairs,
            extra,
            self._alone(pairs),
            search.limits.m_max - search.migrations,
            search.board.place,
            search.table,
            search.stakes,
            search.objective,
            search.scores,
        )
        if first < 0:
            return None
        chosen = [first] if second < 0 else [first, second]
        return Move(
            tuple(choices[at] for at in chosen),
            self.total() - float(then),
            int(extra[chosen].sum()),
        )

    def _alone(self, pairs: Ints) -> Bools:
        """Return [choices]: whether a second move could forbid the choice, so it has no pairs."""
        search = self._search
        hosts = np.stack([pairs[:, 1], search.board.place[pairs[:, 0]]])
        tight = (search.touched[hosts] + 2 > search.limits.per_host).any(axis=0)
        near_limit = np.full(len(pairs), search.most_load < np.inf)
        alone: Bools = tight | near_limit | search.game.rules.bound[pairs[:, 0]]
        return alone


@compiled
def _best_pair(
    choices: Ints,
    extra: Ints,
    alone: Bools,
    migrations_left: int,
    place: Ints,
    table: TrialTable,
    terms: VmTerms,
    objective: int,
    scores: Floats,
) -> tuple[int, int, float]:
    """Return the two choices that make the objective least (second -1: none), and its value."""
    best_first = -1
    best_second = -1
    least = np.inf
    least_extra = 3
    size = len(place) + 2
    group = np.empty(size, dtype=np.int64)
    work = np.empty((2, size))
    hosts = np.empty(4, dtype=np.int64)
    for first in range(len(choices)):
        for second in range(-1, first):
            cost = extra[first]
            vm, to = choices[first]
            other, other_to = -1, -1
            if second >= 0:
                other, other_to = choices[second]
                if other == vm or alone[first] or alone[second]:
                    continue
                cost += extra[second]
            if cost > migrations_left and cost > 0:
                continue
            hosts[0], hosts[1] = place[vm], to
            hosts[2], hosts[3] = (place[other], other_to) if second >= 0 else (-1, -1)
            then = _total_after(
                hosts, vm, to, other, other_to, place, table, terms, objective, scores, group, work
            )
            if then < least or (then == least and cost < least_extra):
                best_first, best_second, least, least_extra = first, second, then, cost
    return best_first, best_second, least


@compiled
def _total_after(
    hosts: Ints,
    vm: int,
    to: int,
    other: int,
    other_to: int,
    place: Ints,
    table: TrialTable,
    terms: VmTerms,
    objective: int,
    scores: Floats,
    group: Ints,
    work: Floats,
) -> float:
    """Return the objective after both moves; infinite if floors don't fit."""
    total = 0.0
    for host in range(len(scores)):
        score = scores[host]
        if host == hosts[0] or host == hosts[1] or host == hosts[2] or host == hosts[3]:
            count = 0
            for row in range(len(place)):
                vm_host = place[row]
                if row == vm:
                    vm_host = to
                elif row == other:
                    vm_host = other_to
                if vm_host == host:
                    group[count] = row
                    count += 1
            if not floors_fit(group, count, table.capacity[host], terms.floor):
                return np.inf
            score = host_score(group, count, table.capacity[host], terms, objective, work)
        total = max(total, score) if objective == LARGEST_ERROR else total + score
    return total
