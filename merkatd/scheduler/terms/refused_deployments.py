"""Refused deployments: the VM waits, and takes nothing from its neighbours meanwhile.

# Note [A placement that OpenNebula refuses]

A VM that a period places gets its share at once: its neighbours' limits make room for it before it
is deployed. If OpenNebula then refuses the deployment, the room is unused until the next period. An
owner can cause that at will: OpenNebula deploys no locked VM, no VM that was just terminated or put
on hold, and none with a missing image. Example: one locked VM with a bid of 9,000 would leave its
neighbours 7 % of their cores. It would never pay, as it never runs.

So the next period begins as soon as the rhythm allows, and does not place the VM. The VM is retried
at growing intervals, together with all other refused VMs of its owner. For their neighbours that is
no worse than one such VM with a higher bid. The other VMs of its limit order wait with it,
and the order takes no room from others for longer (`scheduler/clearing/room_rests.py`).

Once one of the VMs runs, the cause may be removed. Then the owner's other VMs that were refused for
the same reason are retried together. The interval to that attempt stays, and shrinks by one attempt
only once none of the owner's VMs is refused any more. Otherwise an owner could let some VMs run at
each attempt and retry the others all the time.

If more than three different VMs of an owner were refused within an hour, the owner's other VMs wait
as well. Otherwise a new VM in each period could do the same harm.

# Note [Unused room]

The balloons of a host shrink for a VM that waits for memory there. The VM pays nothing until it
comes. If its owner withdraws it before, its neighbours have lost memory that they pay for. Example:
in every second period an owner creates a VM that claims half of a host, and ends it while it waits.
The neighbours had 37 % less memory in each of these periods, for nothing. So a VM that is withdrawn
counts like one that was refused: it is gone, held or locked, its bid or its memory is less than
half, its claim differs or exceeds its memory, it is in another market, or its requirements exclude
the host that made room. Controllers may change bids a little. A bid counts as far as its payer can
pay it: an owner could move the payer's credits elsewhere, instead of lowering the bid.

A VM that keeps waiting goes to the host that made room, if that host may still take it. Otherwise
an owner could change the VM's rank before each period, so that two equal hosts make room for it in
turn, and it never comes. This ends after ten intervals, because the guests of a host may be slow to
give memory back, while another host has room.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from merkatd.base.backoff import Backoff
from merkatd.cluster import Bools, HostState
from merkatd.cluster.columns import NO_HOST, NO_ROW, is_one_of, row_of
from merkatd.cluster.left_out import with_their_orders
from merkatd.placement.base.narrowed_hosts import narrowed_to
from merkatd.scheduler.base.settings import RESOURCES
from merkatd.scheduler.charging.charge import PayerFunds
from merkatd.scheduler.clearing.room_rests import with_resting_orders
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.observation.snapshot_builder import MEMORY
from merkatd.scheduler.terms.affordability import Afforded, messages_after_reasons
from merkatd.scheduler.terms.paid_claims import affordable_cloud

LONGEST_REST_S = 600.0
"""The longest wait between two attempts."""
REMEMBERED_S = 3600.0
FREE = 3
"""The number of an owner's VMs that can be refused in that time before its other VMs wait."""


MOST_INTERVALS_AT_A_HOST = 10
"""The most intervals for which a VM waits for the room of the same host alone."""
_MOST_INTERVALS = 3.0
"""The most intervals between two periods in which an owner can withdraw a VM."""
_MUCH_LESS = 0.5
_REFUSED = "OpenNebula did not deploy it; "
_WITHDRAWN = "its owner withdrew it while its host made room for it"


class _Expected(NamedTuple):
    """A waiting VM for which a host makes room."""

    owner: int
    host: int
    market: int
    bid: tuple[float, ...]
    """The bid as far as its payer could pay it."""
    most_mib: float
    claim: Mapping[str, float]
    since_s: float
    """The time since which this host makes room."""


@dataclass(slots=True)
class _Vm:
    owner: int
    attempts: int
    last_s: float
    why: str


@dataclass(slots=True)
class _Owner:
    tried_s: float = 0.0
    """The time of the latest refusal of any of its VMs."""
    periods: int = 0
    """The number of periods with refusals."""
    new_s: list[float] = field(default_factory=list)
    """The time of the first refusal of each of its VMs."""


class RefusedDeployments:
    """The refused deployments; after a restart of the daemon each is tried once."""

    def __init__(self) -> None:
        self._vms: dict[int, _Vm] = {}
        self._owners: dict[int, _Owner] = {}
        self._expected: Mapping[int, _Expected] = {}
        self._expected_s = 0.0
        self._expected_before: Mapping[int, _Expected] = {}
        self._bids: Mapping[int, tuple[float, ...]] = {}
        """By VM id: the affordable bids of waiting VMs in this period."""

    def note(self, observed: Observed, refused: Mapping[int, str]) -> bool:
        """Take note of why VMs were not deployed, by VM id; return whether any was refused."""
        owners = {
            vm: int(observed.snapshot.vms.owner[observed.snapshot.vm_row(vm)]) for vm in refused
        }
        self._count(
            observed.observation.at_s, owners, {vm: _REFUSED + refused[vm] for vm in refused}
        )
        return bool(refused)

    def expect(self, observed: Observed, coming: Mapping[int, int]) -> None:
        """Take note of the hosts that make room for waiting VMs, by VM id."""
        vms, expected, at_s = observed.snapshot.vms, {}, observed.observation.at_s
        for vm, host in coming.items():
            row = observed.snapshot.vm_row(vm)
            if vms.waiting[row]:
                before = self._expected_before.get(vm)
                expected[vm] = _Expected(
                    owner=int(vms.owner[row]),
                    host=host,
                    market=int(vms.market[row]),
                    bid=self._bids.get(vm, tuple(vms.bid[row].tolist())),
                    most_mib=float(vms.cap[row, MEMORY]),
                    claim=_claim(observed, vm),
                    since_s=before.since_s if before and before.host == host else at_s,
                )
        self._expected, self._expected_s = expected, at_s

    def _note_withdrawn(self, observed: Observed, interval_s: float) -> Mapping[int, int]:
        """Count the VMs that their owners have withdrawn since hosts began to make room.

        Nothing counts if no period acted for long, for example during a pause. Return these hosts
        for the other VMs, by VM id, without those that have waited long.
        """
        expected, self._expected = self._expected, {}
        at_s = observed.observation.at_s
        if not _is_within(at_s, self._expected_s, _MOST_INTERVALS * interval_s):
            expected = {}
        self._expected_before = expected
        owners = {
            vm: expectation.owner
            for vm, expectation in expected.items()
            if _is_withdrawn(observed, vm, expectation, self._bids.get(vm, expectation.bid))
        }
        self._count(at_s, owners, dict.fromkeys(owners, _WITHDRAWN))
        return {
            vm: expectation.host
            for vm, expectation in expected.items()
            if vm not in owners
            and _is_within(at_s, expectation.since_s, (MOST_INTERVALS_AT_A_HOST + 0.5) * interval_s)
        }

    def _count(self, at_s: float, owners: Mapping[int, int], whys: Mapping[int, str]) -> None:
        """Count one more attempt of these VMs; owners and reasons are by VM id."""
        self._forget(at_s)
        for vm, why in whys.items():
            owner = owners[vm]
            mine = self._owners.setdefault(owner, _Owner())
            mine.periods += mine.tried_s != at_s
            mine.tried_s = at_s
            if vm not in self._vms:
                mine.new_s.append(at_s)
            before = self._vms.get(vm)
            self._vms[vm] = _Vm(owner, 1 if before is None else before.attempts + 1, at_s, why)

    def affordable(self, context: PeriodContext, seen: Observed, purse: PayerFunds) -> Afforded:
        """Return the cloud to decide about, without the VMs that must wait now."""
        affordable = affordable_cloud(context, seen, purse)
        self._bids = _waiting_bids(seen, affordable.seen)
        stay = self._note_withdrawn(seen, context.rhythm.interval_s)
        affordable = replace(affordable, seen=_with_only_hosts(affordable.seen, stay))
        self._take_in_starts(seen)
        if not self._vms:
            return affordable
        seen, interval_s = affordable.seen, context.rhythm.interval_s
        vms = seen.snapshot.vms
        waits = vms.waiting
        there = vms.id[waits].tolist(), vms.owner[waits].tolist()
        wait = self._not_now(zip(*there, strict=True), seen.observation.at_s, interval_s)
        wait = with_their_orders(seen.snapshot, wait)
        placeable = vms.placeable & ~(is_one_of(vms.id, wait) & waits)
        snapshot = replace(seen.snapshot, vms=replace(vms, placeable=placeable))
        refusals = {vm: (it.attempts, it.last_s, it.why) for vm, it in self._vms.items()}
        snapshot, rests = with_resting_orders(snapshot, refusals, interval_s)
        reasons = messages_after_reasons(affordable.reasons, {**wait, **rests})
        return replace(
            affordable,
            seen=replace(seen, snapshot=snapshot),
            reasons={**affordable.reasons, **reasons},
        )

    def _not_now(
        self, pending: Iterable[tuple[int, int]], at_s: float, interval_s: float
    ) -> Mapping[int, str]:
        """Return, by id, why these VMs (given with their owners) must wait."""
        reasons: dict[int, str] = {}
        for vm, owner in pending:
            mine, before = self._owners.get(owner), self._vms.get(vm)
            if before is not None and mine is not None:
                rests = _is_within(at_s, before.last_s, _rest_s(before.attempts, interval_s))
                if rests or _is_within(at_s, mine.tried_s, _rest_s(mine.periods, interval_s)):
                    reasons[vm] = f"{before.why}; it is retried later"
            elif mine is not None and _others_wait(mine, at_s, interval_s):
                reasons[vm] = (
                    f"OpenNebula refused to deploy {len(mine.new_s)} of its owner's VMs within an"
                    " hour, or the owner withdrew them while hosts made room for them; the others"
                    " are retried later"
                )
        return reasons

    def _take_in_starts(self, observed: Observed) -> None:
        """Forget refused VMs that are on a host now; VMs with the same reason get one attempt."""
        vms = observed.snapshot.vms
        if not self._vms:
            return
        placed = is_one_of(vms.id, self._vms) & (vms.host >= 0)
        started = [self._vms.pop(vm) for vm in vms.id[placed].tolist()]
        resolved = {(refusal.owner, _kind_of(refusal.why)) for refusal in started}
        for refusal in self._vms.values():
            if (refusal.owner, _kind_of(refusal.why)) in resolved:
                refusal.attempts = 0
        still = {refusal.owner for refusal in self._vms.values()}
        for owner in {refusal.owner for refusal in started} & self._owners.keys() - still:
            self._owners[owner].periods -= 1

    def _forget(self, at_s: float) -> None:
        """Drop old entries, and entries with dates in the future from a wrong clock."""
        old = [vm for vm, refusal in self._vms.items() if abs(at_s - refusal.last_s) > REMEMBERED_S]
        for vm in old:
            del self._vms[vm]
        for owner, mine in list(self._owners.items()):
            mine.new_s = [
                moment_s for moment_s in mine.new_s if abs(at_s - moment_s) <= REMEMBERED_S
            ]
            if abs(at_s - mine.tried_s) > REMEMBERED_S:
                del self._owners[owner]


def _claim(observed: Observed, vm: int) -> Mapping[str, float]:
    wish = observed.wishes.get(vm)
    return {} if wish is None else wish.least


def _waiting_bids(observed: Observed, affordable: Observed) -> Mapping[int, tuple[float, ...]]:
    """Return, by id of each waiting VM, its affordable bids; 0 while its owner is in debt."""
    vms, bid = observed.snapshot.vms, affordable.snapshot.vms.bid
    waits = affordable.snapshot.vms.waiting
    rows = np.flatnonzero(vms.waiting)
    bids = np.where(waits[rows, np.newaxis], bid[rows], 0.0).tolist()
    return dict(zip(vms.id[rows].tolist(), map(tuple, bids), strict=True))


def _is_withdrawn(observed: Observed, vm: int, before: _Expected, bid: Sequence[float]) -> bool:
    """Return whether the VM no longer waits for the host as it did; `bid` is affordable."""
    snapshot, vms = observed.snapshot, observed.snapshot.vms
    row, host = row_of(vms.id, vm), row_of(snapshot.hosts.id, before.host)
    if row is None:
        return True
    if not vms.waiting[row]:
        return bool(vms.host[row] == NO_HOST)
    bids = zip(bid, before.bid, strict=False)
    lower = any(now < then * _MUCH_LESS for now, then in bids)
    if lower or _claim(observed, vm) != before.claim:
        return True
    # The claim counts up to the VM's size, which its owner may change too.
    claimed_mib = min(before.claim.get(RESOURCES[MEMORY], 0.0), before.most_mib)
    if vms.cap[row, MEMORY] < max(before.most_mib * _MUCH_LESS, claimed_mib):
        return True
    if host is None or snapshot.hosts.state[host] != HostState.ON:
        return False
    required = int(vms.requirement[row])
    excluded = required != NO_ROW and not snapshot.requirements.allowed[required, host]
    return excluded or bool(vms.market[row] != before.market)


def _with_only_hosts(observed: Observed, hosts: Mapping[int, int]) -> Observed:
    """Return the cloud in which these waiting VMs go to these hosts (by VM id) or nowhere.

    A VM whose host may not take it now is not restricted.
    """
    snapshot, vms = observed.snapshot, observed.snapshot.vms
    only: dict[int, Bools] = {}
    for vm, host in hosts.items():
        row, at = row_of(vms.id, vm), row_of(snapshot.hosts.id, host)
        if row is None or at is None or not vms.waiting[row]:
            continue
        required = int(vms.requirement[row])
        allowed = required == NO_ROW or snapshot.requirements.allowed[required, at]
        if allowed and snapshot.hosts.state[at] == HostState.ON:
            only[row] = np.arange(len(snapshot.hosts)) == at
    return replace(observed, snapshot=narrowed_to(snapshot, only, "the host that made room for it"))


def _kind_of(why: str) -> str:
    """Return a reason without its numbers, because OpenNebula's texts contain the VM's id."""
    return "".join(letter for letter in why if not letter.isdigit())


def _rest_s(attempts: int, interval_s: float) -> float:
    """Return the wait: two periods after the first attempt, doubled each time."""
    return Backoff(first_s=interval_s, longest_s=LONGEST_REST_S).wait_s(attempts + 1)


def _is_within(at_s: float, since_s: float, rest_s: float) -> bool:
    """Return whether less than this time has passed; a clock that was set back prolongs nothing."""
    return abs(at_s - since_s) < rest_s


def _others_wait(mine: _Owner, at_s: float, interval_s: float) -> bool:
    """Return whether the owner's VMs without a refusal must wait."""
    beyond = len(mine.new_s) - FREE
    return beyond > 0 and _is_within(at_s, max(mine.new_s), _rest_s(beyond, interval_s))
