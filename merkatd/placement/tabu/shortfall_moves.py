"""The neighbourhood of moves that lower the shortfall, summed over the hosts.

The gain of a move is the gain of its source when the VM leaves, less the loss of its destination
when it comes. The first part is known for every VM and is an upper bound. So VMs are tried in the
order of their bounds, until no untried VM can be better.
"""

from collections.abc import Callable

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import NO_HOST
from merkatd.placement.market.search_state import Move, Search, exchange_partners
from merkatd.placement.market.trial_moves import best_exchange, best_host, likely_hosts

SINGLE_TRIALS = 48
"""Number of VMs that are tried for a move in one iteration."""
EXCHANGE_TRIALS = 8
"""Number of VMs that are tried for a swap in one iteration."""
EXCHANGE_HOSTS = 4
"""Number of hosts that are searched for a partner."""


class ShortfallMoves:
    """Proposes the move that lowers the sum of bid times shortfall most."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._singles = _Ranking(search, lambda vm: try_single(search, vm), SINGLE_TRIALS)
        self._exchanges = _Ranking(search, self._try_exchange, EXCHANGE_TRIALS)

    def total(self) -> float:
        """Return the present value of the objective."""
        return float(self._search.scores.sum())

    def best(self) -> Move | None:
        """Return the move with the largest gain per migration; None if none is left."""
        single = self._singles.best()
        if single is not None and 2 * single.gain >= self._leaving(single):
            return single
        exchange = self._exchanges.best()
        moves = [move for move in (single, exchange) if move is not None]
        return max(moves, key=Move.rate, default=None)

    def best_single(self) -> Move | None:
        """Return the best move of a single VM."""
        return self._singles.best()

    def _leaving(self, single: Move) -> float:
        """Return the gain of the move if the VM got all it needs on its new host."""
        return self._search.leaving(single.changes[0][0])

    def _try_exchange(self, vm: int) -> Move | None:
        """Return the best swap of the VM with another VM; None if none is possible."""
        search = self._search
        source = int(search.board.place[vm])
        if search.game.rules.bound[vm]:
            return None
        hosts = np.empty(EXCHANGE_HOSTS, dtype=np.int64)
        allowed = search.hosts_for(vm)
        count = likely_hosts(vm, allowed, search.table, search.stakes, search.estimates, hosts)
        hosts = hosts[:count]
        willing = np.zeros(len(search.home), dtype=bool)
        willing[exchange_partners(search, vm, hosts.tolist())] = True
        other, gain = best_exchange(
            vm,
            source,
            hosts,
            willing,
            search.table,
            search.stakes,
            search.objective,
            search.scores,
        )
        if other < 0:
            return None
        host = int(search.board.place[other])
        extra = search.extra_migrations(vm, host) + search.extra_migrations(int(other), source)
        return Move(((vm, host), (int(other), source)), float(gain), extra)


def try_single(search: Search, vm: int) -> Move | None:
    """Return the VM's move to the host where it does least harm, or home; None if impossible."""
    allowed = search.hosts_for(vm)
    host, rise = best_host(
        vm,
        allowed,
        search.table,
        search.stakes,
        search.objective,
        search.scores,
        search.estimates,
    )
    home = int(search.home[vm])
    if home not in (-1, host) and allowed[home]:
        back = search.score_with(home, vm, -1) - search.scores[home]
        if back < rise:
            host, rise = home, back
    if host < 0:
        return None
    gain = search.leaving(vm) - rise
    return Move(((vm, int(host)),), gain, search.extra_migrations(vm, int(host)))


class _Ranking:
    """VMs ranked by the gain of moving them.

    The gain is exact for a VM that was tried since its hosts changed, otherwise an upper bound.
    """

    def __init__(self, search: Search, attempt: Callable[[int], Move | None], trials: int) -> None:
        self._search = search
        self._attempt = attempt
        self._trials = trials
        self._value: Floats = np.empty(len(search.home))
        self._known: dict[int, tuple[Move, dict[int, int]]] = {}
        self._version: Ints = search.version.copy()
        self._new: Ints = np.flatnonzero((search.home == NO_HOST) & (search.board.place != NO_HOST))
        self._forget()

    def best(self) -> Move | None:
        """Return the best move among the trials; if it gains nothing, forget all and retry."""
        self._follow()
        move = self._best()
        if move is None or move.gain <= 0:
            self._forget()
            move = self._best()
        return move

    def _best(self) -> Move | None:
        best: Move | None = None
        candidates = self._candidates()
        values = self._value if candidates is None else self._value[candidates]
        for _ in range(self._trials if len(values) else 0):
            at = int(np.argmax(values))
            vm = at if candidates is None else int(candidates[at])
            bound = self._value[vm]
            if bound == -np.inf or (best is not None and bound <= best.gain):
                break
            move = self._still_known(vm) or self._attempt(vm)
            values[at] = self._value[vm] = -np.inf if move is None else move.gain
            if move is None:
                continue
            hosts = {host for _, host in move.changes}
            self._known[vm] = (move, {host: self._search.version[host] for host in hosts})
            if best is None or move.gain > best.gain:
                best = move
        return best

    def _still_known(self, vm: int) -> Move | None:
        move, seen = self._known.get(vm, (None, {}))
        if move is None or any(self._search.version[host] != v for host, v in seen.items()):
            return None
        return move

    def _candidates(self) -> Ints | None:
        """Return the candidate VMs; None for all VMs.

        Once the limit on migrations is reached, only migrated and new VMs are candidates.
        """
        search = self._search
        if search.migrations < search.limits.m_max:
            return None
        return np.union1d(search.away(), self._new)

    def _follow(self) -> None:
        """Update the bounds of the VMs on hosts that have changed."""
        changed = np.flatnonzero(self._search.version != self._version)
        self._version[changed] = self._search.version[changed]
        for host in changed.tolist():
            self._bound(self._search.board.on(host))

    def _forget(self) -> None:
        self._known.clear()
        self._version[:] = self._search.version
        candidates = self._candidates()
        self._bound(np.arange(len(self._value)) if candidates is None else candidates)

    def _bound(self, vms: Ints) -> None:
        for vm in vms.tolist() if len(self._known) else ():
            self._known.pop(vm, None)
        self._value[vms] = np.where(self._search.may_move(vms), self._search.leave(vms), -np.inf)
