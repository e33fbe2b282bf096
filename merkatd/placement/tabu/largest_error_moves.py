"""The neighbourhood of moves that lower the largest error over the hosts.

Only a move that touches the host with the largest error can help: a VM leaves it, comes to it, or
swaps places with a VM there. VMs that the search has migrated may also move, so that the search can
undo its moves.
"""

from collections.abc import Iterator

import numpy as np

from merkatd.cluster import Ints
from merkatd.cluster.columns import NO_HOST
from merkatd.placement.market.host_errors import error_by_host
from merkatd.placement.market.search_state import Move, Search, exchange_partners

DESTINATIONS = 6
"""Number of hosts on which each VM is tried."""
NEWCOMERS = 64
"""Number of VMs that are tried on the host with the largest error."""
EXCHANGE_HOSTS = 4
"""Number of hosts that are searched for a partner."""

Changes = tuple[tuple[int, int], ...]


class LargestErrorMoves:
    """Proposes the move after which the largest error is least."""

    def __init__(self, search: Search) -> None:
        self._search = search

    def total(self) -> float:
        """Return the present value of the objective."""
        return float(self._search.scores.max(initial=0.0))

    def best(self) -> Move | None:
        """Return the best move; of equals the one with the least errors on its two hosts."""
        return self._best(exchanges=True)

    def best_single(self) -> Move | None:
        """Return the best move of a single VM."""
        return self._best(exchanges=False)

    def _best(self, *, exchanges: bool) -> Move | None:
        search = self._search
        if len(search.scores) == 0:
            return None
        host = int(np.argmax(search.scores))
        best: tuple[float, float, Changes] | None = None
        for changes in self._moves(host, exchanges):
            outcome = self._errors_after(changes)
            if outcome is not None and (best is None or outcome[:2] < best[:2]):
                best = outcome
        if best is None:
            return None
        extra = sum(search.extra_migrations(vm, to) for vm, to in best[2])
        return Move(best[2], self.total() - best[0], extra)

    def _moves(self, worst: int, exchanges: bool) -> Iterator[Changes]:
        search = self._search
        there = search.board.on(worst)
        for vm in there[search.may_move(there)].tolist():
            hosts = self._destinations(vm)
            for host in hosts:
                yield ((vm, host),)
            if exchanges:
                yield from self._exchanges(vm, worst, hosts[:EXCHANGE_HOSTS])
        for vm in self._newcomers(worst):
            if search.hosts_for(vm)[worst]:
                yield ((vm, worst),)
        away = search.away()
        for vm in away[search.may_leave(away)].tolist():
            for host in self._destinations(vm):
                yield ((vm, host),)

    def _destinations(self, vm: int) -> list[int]:
        """Return the hosts with the least own error of the VM, and its home."""
        search = self._search
        table = search.table
        allowed = search.hosts_for(vm)
        error = error_by_host(
            vm, allowed, table.rows, table.start, table.counts, table.capacity, search.stakes
        )
        hosts = np.argsort(error, kind="stable")[:DESTINATIONS]
        chosen = [int(host) for host in hosts if error[host] < np.inf]
        home = int(search.home[vm])
        if home != NO_HOST and home not in chosen and error[home] < np.inf:
            chosen.append(home)
        return chosen

    def _newcomers(self, worst: int) -> list[int]:
        """Return the highest bidders on other hosts: they take most from VMs with too much."""
        search = self._search
        vms = np.arange(len(search.home))
        elsewhere: Ints = vms[search.may_move(vms) & (search.board.place != worst)]
        order = np.argsort(-search.stakes.weight[elsewhere], kind="stable")
        return [int(vm) for vm in elsewhere[order[:NEWCOMERS]]]

    def _exchanges(self, vm: int, worst: int, hosts: list[int]) -> Iterator[Changes]:
        search = self._search
        if search.game.rules.bound[vm]:
            return
        for other in exchange_partners(search, vm, hosts).tolist():
            yield ((vm, int(search.board.place[other])), (other, worst))

    def _errors_after(self, changes: Changes) -> tuple[float, float, Changes] | None:
        """Return the largest error and the sum of both hosts' errors after the changes.

        Return None if the changes are impossible.
        """
        search = self._search
        vm, host = changes[0]
        source = int(search.board.place[vm])
        exchanged = changes[1][0] if len(changes) > 1 else NO_HOST
        host_error = search.score_with(host, vm, exchanged)
        if host_error == np.inf:
            return None
        source_error = float(search.without[vm])
        if exchanged != NO_HOST:
            source_error = search.score_with(source, exchanged, vm)
        if source_error == np.inf:
            return None
        others_error = np.delete(search.scores, [source, host]).max(initial=0.0)
        return (
            max(host_error, source_error, float(others_error)),
            host_error + source_error,
            changes,
        )
