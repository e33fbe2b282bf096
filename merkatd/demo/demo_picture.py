"""The displayed state of a demo, derived from the announcements of periods."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from merkatd.base.quantities import credits_text
from merkatd.cluster import ACTIVE, Deploy, Migrate, OnHost, Step, VmState
from merkatd.cluster.columns import NO_HOST, is_one_of, row_of
from merkatd.demo.demo_script import Character
from merkatd.demo.demo_tenant import RunningErrand, ScriptPlayer
from merkatd.demo.screen.display_state import (
    DisplayedDecision,
    DisplayedHost,
    DisplayedTenant,
    GoalStatus,
    VmBar,
)
from merkatd.scheduler.phases.announce import Announcement
from merkatd.web.base.goals import Goal

NO_TENANT = -1
CPU, MEMORY = 0, 1
CORE_UNITS, GIB_UNITS = 100.0, 1024.0
Cast = Mapping[int, int]
"""By OpenNebula's user id, the index among the tenants."""


def prices(latest: Announcement) -> tuple[float, float]:
    """Return the prices of a core and of a GiB in the first market, in credits per period."""
    market = next(iter(latest.prices.values()))
    return market["cpu"] * CORE_UNITS, market["memory"] * GIB_UNITS


def hosts(latest: Announcement, cast: Cast) -> tuple[DisplayedHost, ...]:
    """Return each host with its VMs, including those on their way to it."""
    snapshot = latest.seen.snapshot
    vms, given = snapshot.vms, latest.decided.decision.allocations
    place = _places(latest)
    return tuple(
        DisplayedHost(
            name=name,
            cpu=float(snapshot.hosts.capacity[row, CPU]),
            memory=float(snapshot.hosts.capacity[row, MEMORY]),
            vms=tuple(
                sorted(
                    (
                        VmBar(
                            vm=int(vms.id[at]),
                            name=vms.name[at],
                            tenant=cast.get(int(vms.owner[at]), NO_TENANT),
                            cpu=float(given[at, CPU]),
                            memory=float(given[at, MEMORY]),
                        )
                        for at in np.flatnonzero(place == row)
                    ),
                    key=lambda vm: (vm.tenant, vm.vm),
                )
            ),
        )
        for row, name in enumerate(snapshot.hosts.name)
    )


def _places(latest: Announcement) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return [vms]: the host row of each VM after the decided steps are done, -1 for none."""
    snapshot = latest.seen.snapshot
    vms = snapshot.vms
    on = is_one_of(vms.state, ACTIVE)
    place = np.where(on, vms.host, NO_HOST)
    # The allocations are for the whole plan, including steps that are not sent.
    for step in latest.decided.decision.plan:
        if isinstance(step, Deploy | Migrate):
            place[snapshot.vm_row(step.vm)] = snapshot.host_row(step.host)
    return place


def counts(latest: Announcement) -> tuple[int, int]:
    """Return the number of VMs on hosts or on their way, and the number of pending VMs."""
    place = _places(latest)
    pending = (latest.seen.snapshot.vms.state == VmState.PENDING) & (place == NO_HOST)
    return int((place != NO_HOST).sum()), int(pending.sum())


def decisions(
    latest: Announcement, cast: Cast, told_before: Mapping[int, str]
) -> tuple[DisplayedDecision, ...]:
    """Return the decisions about VMs' places, and the new reasons of waiting VMs."""
    lines = [
        _decided(latest, step.vm, _step_text(latest, step), step.reason, cast)
        for step in latest.decided.steps
        if not isinstance(step, OnHost)
    ]
    lines += [
        _decided(latest, vm, _subject(latest, vm), why, cast)
        for vm, why in sorted(latest.decided.decision.reasons.items())
        if told_before.get(vm) != why and not why.startswith(_OF_AN_ORDER)
    ]
    return tuple(lines)


_OF_AN_ORDER = "limit order "
"""The start of a reason that all VMs of a limit order share: `order_changes` shows it once."""


def _subject(latest: Announcement, vm: int) -> str:
    """Return the VM that a reason concerns, with "waits" if it is pending."""
    vms = latest.seen.snapshot.vms
    waits = VmState.PENDING in vms.state[vms.id == vm]
    return f"{_vm_name(latest, vm)}{' waits' if waits else ''}"


@dataclass(frozen=True, slots=True)
class OrderChange:
    """A limit order that starts, waits or is displaced."""

    order: int
    tenant: int
    what: str
    why: str


def order_changes(
    latest: Announcement, cast: Cast, ran_before: Mapping[int, bool]
) -> tuple[OrderChange, ...]:
    """Return the limit orders that start, are displaced, or wait from the first.

    `ran_before` says of each order that was seen before whether it ran.
    """
    vms, table = latest.seen.snapshot.vms, latest.seen.snapshot.orders
    changes = []
    for row, order in enumerate(table.id.tolist()):
        outcome = latest.decided.decision.orders.get(order)
        if outcome is None or ran_before.get(order) == outcome.runs:
            continue
        rows = np.flatnonzero(vms.order == row)
        tenant = cast.get(int(vms.owner[rows[0]]), NO_TENANT) if len(rows) else NO_TENANT
        what = "is displaced" if ran_before.get(order) else "waits"
        if outcome.runs:
            pays = f"its {len(rows)} VMs cost {credits_text(outcome.cost)} credits a period"
            changes.append(OrderChange(order, tenant, "runs", pays))
        else:
            changes.append(OrderChange(order, tenant, what, outcome.why.partition(": ")[2]))
    return tuple(changes)


def _decided(latest: Announcement, vm: int, what: str, why: str, cast: Cast) -> DisplayedDecision:
    vms = latest.seen.snapshot.vms
    row = row_of(vms.id, vm)
    tenant = NO_TENANT if row is None else cast.get(int(vms.owner[row]), NO_TENANT)
    return DisplayedDecision(period=latest.period, tenant=tenant, what=what, why=why)


def _step_text(latest: Announcement, step: Step) -> str:
    host = getattr(step, "host", None)
    to = "" if host is None else f" to {_host_name(latest, host)}"
    return f"{step.kind} {_vm_name(latest, step.vm)}{to}"


def _host_name(latest: Announcement, host: int) -> str:
    snapshot = latest.seen.snapshot
    return snapshot.hosts.name[snapshot.host_row(host)]


def _vm_name(latest: Announcement, vm: int) -> str:
    vms = latest.seen.snapshot.vms
    row = row_of(vms.id, vm)
    return f"VM {vm}" if row is None else vms.name[row]


def cores_of(latest: Announcement | None, user: int) -> float:
    """Return the cores that a user's VMs may use together."""
    if latest is None:
        return 0.0
    rows = (latest.seen.snapshot.vms.owner == user) & (_places(latest) != NO_HOST)
    return float(latest.decided.decision.allocations[rows, CPU].sum()) / CORE_UNITS


def bid_of(latest: Announcement | None, user: int) -> float | None:
    """Return the highest bid for CPU of a user's VMs, whatever its source; None without VMs."""
    if latest is None:
        return None
    vms = latest.seen.snapshot.vms
    bids = vms.bid[vms.owner == user, CPU]
    return float(bids.max()) if len(bids) else None


def tenant_row(
    player: ScriptPlayer,
    latest: Announcement | None,
    now_min: float,
    balance: float,
    got: float | None = None,
) -> DisplayedTenant:
    """Return the displayed state of a tenant."""
    kept = sum(application.kept for application in player.past)
    common = DisplayedTenant(
        name=player.tenant.name,
        character=str(player.tenant.character),
        standing=GoalStatus.AWAY,
        kept=kept,
        missed=len(player.past) - kept,
        balance=balance,
        got=got,
        left_min=player.next_errand.arrival_min - now_min,
    )
    if player.now is None:
        return common
    now, cores = player.now, cores_of(latest, player.user)
    # A limit is of all VMs together: no VM has it alone.
    bid = None if player.states_orders else bid_of(latest, player.user)
    return replace(
        common,
        standing=standing(now, now_min, cores),
        vms=len(now.alive),
        pending=pending_of(latest, player.user),
        bid=now.bid if bid is None else bid,
        cores=cores,
        done=now.done,
        passed=now.pace(now_min).passed,
        left_min=now.deadline_min - now_min,
    )


def standing(now: RunningErrand, now_min: float, cores: float) -> GoalStatus:
    """Return whether the application is overdue, on track or behind, with its present cores."""
    if now_min > now.deadline_min:
        return GoalStatus.OVERDUE
    missing = now.errand.work * now.errand.vms * (1.0 - now.done)
    in_time = missing <= cores * (now.deadline_min - now_min) or not now.pace(now_min).behind
    return GoalStatus.ON_TRACK if in_time else GoalStatus.BEHIND


def pending_of(latest: Announcement | None, user: int) -> int:
    """Return the number of a user's pending VMs."""
    if latest is None:
        return 0
    vms = latest.seen.snapshot.vms
    waits = (vms.state == VmState.PENDING) & (_places(latest) == NO_HOST)
    return int((waits & (vms.owner == user)).sum())


def newest(
    decisions: Sequence[DisplayedDecision], most: int = 200
) -> tuple[DisplayedDecision, ...]:
    """Return the newest decisions, at most as many as a screen can show."""
    return tuple(decisions[-most:])


_MANNERS = {
    Character.PATIENT: "patient: bids little",
    Character.THRIFTY: "thrifty: bids what it must",
    Character.URGENT: "urgent: bids more once behind",
    Character.RICH: "rich: bids much from the first",
    Character.LATE: "hasty: bids near the deadline",
    Character.WHOLE: "all or nothing: a limit order",
}
"""The name of a tenant's work on the web page, by the tenant's character."""
_STEADY = "steady: never changes its bid"
"""The name for a tenant with a limit order, if the market takes none."""


def goals(
    players: Sequence[ScriptPlayer],
    latest: Announcement | None,
    began_s: float,
    now_min: float,
    minute_s: float,
) -> list[Goal]:
    """Return the last and the present application of each tenant as goals.

    The script's minutes are converted to the cloud's seconds.
    """

    def at_s(minute: float) -> float:
        return began_s + minute * minute_s

    shown_goals = []
    for player in players:
        current, cores = player.now, cores_of(latest, player.user)
        whole = player.tenant.character is Character.WHOLE
        bids = whole and not player.states_orders
        name = _STEADY if bids else _MANNERS[player.tenant.character]
        if player.past:
            shown_goals.append(_ended_goal(name, player.user, player.past[-1], at_s))
        if current is None:
            continue
        ending_min = min(_endings(current, now_min, cores), default=None)
        stands = standing(current, now_min, cores)
        if stands is GoalStatus.ON_TRACK and ending_min is not None:
            ending_min = min(ending_min, current.deadline_min)  # on track: show no small delay
        shown_goals.append(
            Goal(
                name=name,
                owner=player.user,
                state=str(stands),
                vms=len(current.alive),
                began_s=at_s(current.errand.arrival_min),
                deadline_s=at_s(current.deadline_min),
                projected_end_s=None if ending_min is None else at_s(ending_min),
                done=current.done,
                on_track=stands is GoalStatus.ON_TRACK,
            )
        )
    return shown_goals


def _ended_goal(name: str, owner: int, last: RunningErrand, at_s: Callable[[float], float]) -> Goal:
    """Return a tenant's last application as a goal."""
    ended_s = None if last.ended_min is None else at_s(last.ended_min)
    return Goal(
        name=name,
        owner=owner,
        state="done" if last.finished else "given up",
        vms=last.errand.vms,
        began_s=at_s(last.errand.arrival_min),
        deadline_s=at_s(last.deadline_min),
        projected_end_s=ended_s,
        done=last.done,
        on_track=last.kept,
        ended_s=ended_s,
    )


def _endings(now: RunningErrand, now_min: float, cores: float) -> Iterator[float]:
    """Yield the end of the application at its present speed, and at its average speed.

    The earlier of the two applies: an application ahead of its time may be slow for a while.
    """
    missing = now.errand.work * now.errand.vms * (1.0 - now.done)
    if cores > 0:
        yield now_min + missing / cores
    passed_min = now_min - now.errand.arrival_min
    if now.done > 0 and passed_min > 0:
        yield now.errand.arrival_min + passed_min / now.done
