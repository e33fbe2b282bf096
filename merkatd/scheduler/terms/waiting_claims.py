"""Claims of waiting VMs: the hosts on which their bids pay for them.

# Note [Claims of waiting VMs]

A claim is valid as far as the bid pays for it at the price of the VM's own host (Note [Claims that
settle] in `merkatd/market/floors.py`). A waiting VM has no host yet. Judged by the market's price
alone, a low bid would have a valid claim on an expensive host in its first period. An owner could
repeat that with a new VM in each period.

So the VM may not go to hosts that have room for its claim, but on which its bid would not pay for
it. If there are no other hosts, its claim shrinks to the amount that its bid buys on the best of
them if the other VMs use all that they bid for: B x C / (sum of b + B).

On a host of capacity C, whose VMs bid `b` each and can use `c`, a bid B pays for a claim F under
one condition: at the price B / F, at which B buys F, the other VMs use at most C - F. Their use is
the sum of min(b x F / B, c).

Example, in MiB: a host of 8,192 has two VMs that bid 4 each and can use 4,096 each. A bid of 2 does
not pay for a claim of 2,048: the others would use 2 x 4,096, more than 6,144. It buys 2 x 8,192 /
(8 + 2) = 1,638.
"""

from collections import Counter
from dataclasses import replace

import numpy as np

from merkatd.cluster import Bools, Floats, Snapshot
from merkatd.cluster.columns import NO_HOST
from merkatd.market.floors import PART
from merkatd.market.market_view import MarketView, market_view
from merkatd.market.price import PriceRule
from merkatd.placement.base.narrowed_hosts import narrowed_to

MOST_CLAIMS = 20
"""The number of different claims of an owner that are considered in a period. Further waiting VMs
claim nothing until they run, because each claim is compared with all VMs of the market."""
_ROUNDING = 1e-9


def claims_of_waiting_vms(snapshot: Snapshot, kept: Floats, bound: Bools) -> Snapshot:
    """Return the cloud in which a waiting VM goes only to hosts where its bid pays for its claim.

    `kept`, [vms, resources], are the amounts that VMs have regardless of their bids. `bound`,
    [markets], marks the markets in which a bid is the most that a VM pays.
    """
    floor, narrow = snapshot.vms.floor.copy(), dict[int, Bools]()
    for market in np.flatnonzero(bound[: len(snapshot.markets)]).tolist():
        view = market_view(snapshot, market)
        waits = (view.place == NO_HOST) & snapshot.vms.waiting[view.vms]
        claims = waits & (floor[view.vms] > kept[view.vms] * (1 + _ROUNDING)).any(axis=1)
        if claims.any() and len(view.hosts):
            _judge(snapshot, view, np.flatnonzero(claims).tolist(), kept, floor, narrow)
    claiming = replace(snapshot, vms=replace(snapshot.vms, floor=floor))
    return narrowed_to(claiming, narrow, "hosts on which its bid pays for its claim")


def _judge(
    snapshot: Snapshot,
    view: MarketView,
    claims: list[int],
    kept: Floats,
    floor: Floats,
    narrow: dict[int, Bools],
) -> None:
    """Lower the floors and restrict the hosts of the VMs in these rows of the market."""
    hosts, vms = _HostsOfMarket(view), snapshot.vms
    known: dict[tuple[object, ...], tuple[Floats, Bools]] = {}
    different: Counter[int] = Counter()
    for at in claims:
        row = int(view.vms[at])
        owner, required = int(vms.owner[row]), int(vms.requirement[row])
        claim = np.where(floor[row] > kept[row] * (1 + _ROUNDING), floor[row], 0.0)
        key = (required, view.bid[at].tobytes(), claim.tobytes())
        if key not in known:
            different[owner] += 1
            if different[owner] > MOST_CLAIMS:
                floor[row] = np.minimum(floor[row], kept[row])
                continue
            may = view.open
            if required != NO_HOST:
                may = may & snapshot.requirements.allowed[required][view.hosts]
            holds, allowed = hosts.judged(view.bid[at], claim, may)
            known[key] = holds, np.ones(len(snapshot.hosts), dtype=bool)
            known[key][1][view.hosts] = allowed
        holds, allowed = known[key]
        floor[row] = np.where(claim > 0, np.maximum(holds, kept[row]), floor[row])
        if not allowed.all():
            narrow[row] = allowed


class _HostsOfMarket:
    """The claims of the VMs on each host of a market, and their use at a given price."""

    def __init__(self, view: MarketView) -> None:
        there = np.flatnonzero(view.place != NO_HOST)
        bid, _, cap = view.counted(PriceRule.PAPER, view.place)
        self._bid, self._cap, self._place = bid[there], cap[there], view.place[there]
        self._floor, self._capacity = view.floor[there], view.capacity

    def judged(self, bid: Floats, claim: Floats, may: Bools) -> tuple[Floats, Bools]:
        """Return the valid part of a claim, and the hosts that pay for it or have no room."""
        pays, fits = self._where(bid, claim)
        if (pays & may).any() or not (fits & may).any():
            return claim, pays | ~fits
        held = np.stack([self._surely(bid, kind) for kind in range(len(bid))], axis=1)
        part = np.divide(held, claim, out=np.ones_like(held), where=claim > 0).min(axis=1)
        lowered = np.minimum(claim, held[int(np.argmax(np.where(fits & may, part, -1.0)))])
        pays, fits = self._where(bid, lowered)
        return lowered, pays | ~fits

    def _where(self, bid: Floats, claim: Floats) -> tuple[Bools, Bools]:
        """[hosts]: whether the bid pays for the claim, and whether there is room for it."""
        pays = fits = np.ones(len(self._capacity), dtype=bool)
        for kind in np.flatnonzero((claim > 0) & (bid > 0)).tolist():
            left = self._capacity[:, kind] * (1 + _ROUNDING) - claim[kind]
            price = bid[kind] * PART / claim[kind]
            used = np.minimum(self._bid[:, kind] / price, self._cap[:, kind])
            pays = pays & (self._on_hosts(used) <= left)
            fits = fits & (self._on_hosts(self._floor[:, kind]) <= left)
        return pays, fits

    def _surely(self, bid: Floats, kind: int) -> Floats:
        """[hosts]: the least amount that the bid buys."""
        others = self._on_hosts(self._bid[:, kind])
        all_bids = others + bid[kind]
        part = np.divide(bid[kind], all_bids, out=np.ones_like(all_bids), where=all_bids > 0)
        bought: Floats = self._capacity[:, kind] * part * PART
        return bought

    def _on_hosts(self, amounts: Floats) -> Floats:
        return np.bincount(self._place, amounts, len(self._capacity)).astype(np.float64)
