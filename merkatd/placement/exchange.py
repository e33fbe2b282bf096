"""With whom a VM may change places, as far as rules and limits go."""

from collections import Counter

import numpy as np

from merkatd.cluster import Ints
from merkatd.market.view import NOWHERE
from merkatd.placement.search import Search


def partners(search: Search, vm: int, host: int) -> Ints:
    """Those on the host that may come to where the VM is while it goes there.

    The VM may go to the host; neither side may have a role. Whether floors fit is not asked.
    """
    others = search.board.on(host)
    rules, home = search.game.rules, search.home
    source = int(search.board.place[vm])
    others = others[search.movable[others] & ~rules.bound[others]]
    others = others[rules.allow(source, others) & search.may_take(source, others)]
    extra = search.extra_migrations(vm, host) + _extra(search, others, source)
    others = others[search.migrations + extra <= search.limits.m_max]
    if home[vm] == NOWHERE and (home[others] == NOWHERE).all():
        return others
    spared = [_spares_hosts(search, ((vm, host), (other, source))) for other in others.tolist()]
    return others[np.array(spared, dtype=bool)]


def _extra(search: Search, vms: Ints, host: int) -> Ints:
    """How many more VMs are migrated when each of these goes to the host."""
    home, place = search.home[vms], search.board.place[vms]
    more = (home != host).astype(np.int64) - (home != place)
    return np.where(home == NOWHERE, 0, more)


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
