"""Claims of VMs that wait: on which hosts their bids pay for them.

A claim holds as far as the bid pays for it at the price of the VM's own host (see Note [Claims that
settle] in `merkatd/market/floors.py`). A VM that waits has no host yet. Judged by the market's
price alone it would have a claim on a dear host for a low bid in its first period, and so for ever
where its owner makes it anew in each period. So it may go to hosts only on which its bid would pay
for all of its claim. Where there is none, it claims what its bid buys on the best host, if the
others there used all that they bid for: that holds whatever they do.

On a host of capacity C whose VMs bid `b` each and can use `c`, a bid B pays for a claim F if they
would use no more than C - F at the price B / F, at which B buys F: sum of min(b x F / B, c).
"""

from dataclasses import replace

import numpy as np

from merkatd.cluster import Bools, Floats, Snapshot, VmState
from merkatd.market.floors import PART
from merkatd.market.price import PriceRule
from merkatd.market.view import NOWHERE, MarketView, view_of
from merkatd.scheduler.narrowing import narrowed_to

MOST_CLAIMS = 20
"""So many different claims of an owner are considered. Others hold from the next period on."""
_ROUNDING = 1e-9


def claims_on_hosts(snapshot: Snapshot, kept: Floats, bound: Bools) -> Snapshot:
    """Return the same cloud, in which no VM waits for a claim that no host could hold for its bid.

    `kept`, [vms, resources], is what VMs have whatever they bid; `bound`, [markets], says where a
    bid is the most that a VM pays.
    """
    floor, narrow = snapshot.vms.floor.copy(), dict[int, Bools]()
    for market in np.flatnonzero(bound[: len(snapshot.markets)]).tolist():
        view = view_of(snapshot, market)
        waits = (view.place == NOWHERE) & (snapshot.vms.state[view.vms] == VmState.PENDING)
        claims = waits & (floor[view.vms] > kept[view.vms] * (1 + _ROUNDING)).any(axis=1)
        if claims.any() and len(view.hosts):
            _judge(snapshot, view, np.flatnonzero(claims).tolist(), kept, floor, narrow)
    if not narrow and (floor == snapshot.vms.floor).all():
        return snapshot
    lowered = replace(snapshot, vms=replace(snapshot.vms, floor=floor))
    return narrowed_to(lowered, narrow, "hosts on which its bid pays for its claim")


def _judge(
    snapshot: Snapshot,
    view: MarketView,
    claims: list[int],
    kept: Floats,
    floor: Floats,
    narrow: dict[int, Bools],
) -> None:
    """Lower floors, and narrow the hosts, of the VMs in these rows of the market."""
    hosts = _Hosts(view)
    known: dict[tuple[object, ...], tuple[Floats, Bools | None]] = {}
    different: dict[int, int] = {}
    for at in claims:
        row = int(view.vms[at])
        owner, required = int(snapshot.vms.owner[row]), int(snapshot.vms.requirement[row])
        bid, asked, least = view.bid[at], floor[row], kept[row]
        key = (required, bid.tobytes(), asked.tobytes(), least.tobytes(), view.cap[at].tobytes())
        if key not in known:
            different[owner] = different.get(owner, 0) + 1
            if different[owner] > MOST_CLAIMS:
                floor[row] = np.minimum(asked, least)
                continue
            may = view.open.copy()
            if required != NOWHERE:
                may &= snapshot.requirements.allowed[required][view.hosts]
            known[key] = hosts.judged(bid, asked, least, may)
        floor[row], allowed = known[key]
        if allowed is not None:
            narrow[row] = np.zeros(len(snapshot.hosts), dtype=bool)
            narrow[row][view.hosts[allowed]] = True


class _Hosts:
    """What the VMs on each host of a market would use at a price."""

    def __init__(self, view: MarketView) -> None:
        there = np.flatnonzero(view.place != NOWHERE)
        bid, _, cap = view.counted(PriceRule.PAPER, view.place)
        self._bid, self._cap, self._place = bid[there], cap[there], view.place[there]
        self._capacity, self._hosts = view.capacity, len(view.hosts)
        kinds = range(view.capacity.shape[1])
        self._bids = np.stack([self._on_hosts(self._bid[:, kind]) for kind in kinds], axis=1)

    def judged(
        self, bid: Floats, asked: Floats, kept: Floats, may: Bools
    ) -> tuple[Floats, Bools | None]:
        """The claim that holds, by resource, and the hosts on which it does; None for all."""
        claimed = np.flatnonzero((asked > kept * (1 + _ROUNDING)) & (bid > 0))
        if (asked > self._capacity[may].max(axis=0, initial=0.0)).any():
            return asked, None  # it waits, whatever it pays
        holds = may.copy()
        for kind in claimed.tolist():
            amount = float(asked[kind])
            price = float(bid[kind]) * PART / amount
            used = self._on_hosts(np.minimum(self._bid[:, kind] / price, self._cap[:, kind]))
            holds &= used + amount <= self._capacity[:, kind] * (1 + _ROUNDING)
        if holds.any():
            return asked, holds if (may & ~holds).any() else None
        lowered = asked.copy()
        for kind in claimed.tolist():
            part = bid[kind] / (self._bids[may, kind] + bid[kind])
            most = (self._capacity[may, kind] * part).max(initial=0.0) * PART
            lowered[kind] = max(min(asked[kind], most), kept[kind])
        return lowered, None

    def _on_hosts(self, amounts: Floats) -> Floats:
        return np.bincount(self._place, amounts, self._hosts).astype(np.float64)
