"""With whom a VM may change places, as far as rules and limits go."""

from collections import Counter

import numpy as np

from merkatd.cluster import Ints
from merkatd.market.view import NOWHERE
from merkatd.placement.search import Search

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
