"""Claims of VMs that wait: on which hosts their bids pay for them.

A claim holds as far as the bid pays for it at the price of the VM's own host (see Note [Claims that
settle] in `merkatd/market/floors.py`). A VM that waits has no host yet. Judged by the market's
price alone it would have a claim on a dear host for a low bid in its first period, and so for ever
where its owner makes it anew in each period. So it may not go to hosts that have room for its claim
but on which its bid would not pay for it; where there is no other, it waits.

On a host of capacity C whose VMs bid `b` each and can use `c`, a bid B pays for a claim F if they
would use no more than C - F at the price B / F, at which B buys F: sum of min(b x F / B, c).
"""

from collections.abc import Mapping

import numpy as np

from merkatd.cluster import Bools, Floats, Snapshot, VmState
from merkatd.market.floors import PART
from merkatd.market.price import PriceRule
from merkatd.market.view import NOWHERE, MarketView, view_of
from merkatd.scheduler.narrowing import narrowed_to

MOST_CLAIMS = 20
"""So many different claims of an owner are considered in a period. Its other VMs wait."""
_ROUNDING = 1e-9


def claims_on_hosts(snapshot: Snapshot, kept: Floats, bound: Bools) -> Snapshot:
    """Return the same cloud, in which no VM that waits may go where its bid pays for no claim.

    `kept`, [vms, resources], is what VMs have whatever they bid; `bound`, [markets], says where a
    bid is the most that a VM pays.
    """
    floor, narrow = snapshot.vms.floor, dict[int, Bools]()
    for market in np.flatnonzero(bound[: len(snapshot.markets)]).tolist():
        view = view_of(snapshot, market)
        waits = (view.place == NOWHERE) & (snapshot.vms.state[view.vms] == VmState.PENDING)
        claims = waits & (floor[view.vms] > kept[view.vms] * (1 + _ROUNDING)).any(axis=1)
        if claims.any() and len(view.hosts):
            narrow |= _narrowed(snapshot, view, np.flatnonzero(claims).tolist(), kept)
    return narrowed_to(snapshot, narrow, "hosts on which its bid pays for its claim")


def _narrowed(
    snapshot: Snapshot, view: MarketView, claims: list[int], kept: Floats
) -> Mapping[int, Bools]:
    """The hosts that remain for VMs in these rows of the market, by row of the cloud."""
    hosts, vms = _Hosts(view), snapshot.vms
    known: dict[tuple[object, ...], Bools] = {}
    different: dict[int, int] = {}
    found: dict[int, Bools] = {}
    for at in claims:
        row = int(view.vms[at])
        owner, required = int(vms.owner[row]), int(vms.requirement[row])
        claim = np.where(vms.floor[row] > kept[row] * (1 + _ROUNDING), vms.floor[row], 0.0)
        key = (required, view.bid[at].tobytes(), claim.tobytes())
        if key not in known:
            different[owner] = different.get(owner, 0) + 1
            known[key] = np.ones(len(snapshot.hosts), dtype=bool)
            few = different[owner] <= MOST_CLAIMS
            known[key][view.hosts] = hosts.may_go(view.bid[at], claim) if few else False
        if not known[key].all():
            found[row] = known[key]
    return found


class _Hosts:
    """What the VMs on each host of a market claim, and would use at a price."""

    def __init__(self, view: MarketView) -> None:
        there = np.flatnonzero(view.place != NOWHERE)
        bid, _, cap = view.counted(PriceRule.PAPER, view.place)
        self._bid, self._cap, self._place = bid[there], cap[there], view.place[there]
        self._floor, self._capacity = view.floor[there], view.capacity

    def may_go(self, bid: Floats, claim: Floats) -> Bools:
        """[hosts]: the bid pays for the claim there, or there is no room for it anyway."""
        pays = fits = np.ones(len(self._capacity), dtype=bool)
        for kind in np.flatnonzero((claim > 0) & (bid > 0)).tolist():
            left = self._capacity[:, kind] * (1 + _ROUNDING) - claim[kind]
            price = bid[kind] * PART / claim[kind]
            used = np.minimum(self._bid[:, kind] / price, self._cap[:, kind])
            pays = pays & (self._on_hosts(used) <= left)
            fits = fits & (self._on_hosts(self._floor[:, kind]) <= left)
        return pays | ~fits

    def _on_hosts(self, amounts: Floats) -> Floats:
        return np.bincount(self._place, amounts, len(self._capacity)).astype(np.float64)
