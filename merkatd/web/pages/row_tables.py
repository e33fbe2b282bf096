"""Tables of tenants, deadlines and VMs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from merkatd.base.quantities import duration_text
from merkatd.cluster import Floats
from merkatd.service.account_rows import TenantStanding
from merkatd.service.base.period_view import PeriodView
from merkatd.web.base.goals import Goal, of_platform
from merkatd.web.base.routes import PageRequest
from merkatd.web.layout.html import Markup, Part, element
from merkatd.web.layout.row_lists import RowFields
from merkatd.web.layout.widgets import (
    COLOURS,
    NONE,
    HeadLinks,
    amount,
    bar,
    credits_text,
    deadline,
    link,
    percent,
    swatch,
    table,
    tenant,
)

_LATELY_PERIODS = 30
"""The number of periods for which ended work is still shown."""


async def goals_of(request: PageRequest) -> list[Goal]:
    """Return goals: running work with the nearest deadline first, then work that ended lately.

    A tenant gets its own goals, an administrator gets all.
    """
    goals = [goal for goal in request.goals.collect() if request.admin or goal.owner == request.uid]
    goals += [of_platform(row) for row in await request.platforms()]
    context = request.house.world
    since_s = context.now() - _LATELY_PERIODS * context.rhythm.interval_s
    under_way = [goal for goal in goals if goal.ended_s is None]
    over = [goal for goal in goals if goal.ended_s is not None and goal.ended_s >= since_s]
    return [
        *sorted(under_way, key=lambda goal: (goal.deadline_s is None, goal.deadline_s, goal.name)),
        *sorted(over, key=lambda goal: (-(goal.ended_s or 0.0), goal.name)),
    ]


def goals_table(goals: Sequence[Goal], names: Mapping[int, str], now_s: float) -> Markup:
    """Return a table of goals."""
    return table(
        "Work with deadlines: its progress, and whether it will be in time",
        ("Work", "Tenant", "Progress", "Deadline", "End", "In time?"),
        [
            (
                link("platforms", goal.platform, goal.name),
                tenant(goal.owner, names),
                progress(goal, now_s),
                deadline(goal.deadline_s, now_s),
                ending(goal),
                verdict(goal),
            )
            for goal in goals
        ],
        nothing=[
            "There are no deadlines. ",
            element("a", "Submit a platform", href="/platforms/new"),
            " with one, and its progress is shown here.",
        ],
    )


def progress(goal: Goal, now_s: float) -> Part:
    """Return a bar of the work done, with a tick at the time passed, and the same as text."""
    if goal.done is None:
        return element("span", goal.state, class_="quiet")
    shade = f"t{goal.owner % COLOURS}"
    words = f"{percent(goal.done)} done"
    if goal.ended_s is not None:
        return [bar(goal.done, None, shade), element("small", words)]
    passed = goal.passed(now_s)
    if passed is not None:
        words += f", {percent(min(passed, 1.0))} of its time"
    return [bar(goal.done, passed, shade), element("small", words)]


def ending(goal: Goal) -> Part:
    """Return how early or late the work ends or ended."""
    if goal.projected_end_s is None or goal.deadline_s is None:
        return NONE
    slack_s = goal.deadline_s - goal.projected_end_s
    if abs(slack_s) < 1.0:
        return "at its deadline"
    return f"{duration_text(slack_s)} {'early' if slack_s > 0 else 'late'}"


def verdict(goal: Goal) -> Part:
    """Return a badge that says whether the work is on track, or ended in time."""
    if goal.on_track is None or (goal.ended_s is not None and goal.state != "done"):
        return element("span", goal.state, class_="badge")
    if goal.on_track:
        return element(
            "span", "✓ on track" if goal.ended_s is None else "✓ in time", class_="badge good"
        )
    return element("span", "▲ late", class_="badge bad")


_LONG_S = 1e9


async def tenant_rows(request: PageRequest) -> list[dict[str, Any]]:
    """Return a row for each visible tenant: bids, shares, costs, balance; highest costs first."""
    standing: Sequence[TenantStanding] = await request.read(
        ("tenants",), lambda: request.house.accounts.tenants(request.caller), []
    )
    now = request.now
    shares = await request.house.world.executor.run(partial(_shares, now))
    all_cpu = sum(share.cpu for share in shares.values())
    rows = []
    for account in standing:
        share = shares.get(account.id, _Share())
        left = account.balance + account.in_applications
        lasts_s = (
            request.house.world.rhythm.interval_s * left / share.cost if share.cost > 0 else None
        )
        rows.append(
            {
                "owner": account.id,
                "name": account.name or f"user {account.id}",
                "balance": left,
                "part": share.cpu / all_cpu if all_cpu > 0 else 0.0,
                "lasts_s": lasts_s,
                **asdict(share),
            }
        )
    return sorted(rows, key=lambda row: (-row["cost"], row["name"]))


@dataclass(frozen=True, slots=True)
class _Share:
    """The summed bids, shares and costs of a tenant's VMs."""

    vms: int = 0
    bid: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0
    cost: float = 0.0


def _shares(view: PeriodView) -> dict[int, _Share]:
    """Return the sums by owner, of running and pending VMs."""
    vms, gets = view.snapshot.vms, view.given()
    there = vms.bidding
    owners, at = np.unique(vms.owner[there], return_inverse=True)
    cpu, memory = (view.snapshot.resources.index(name) for name in ("cpu", "memory"))
    columns = (
        vms.bid[there].sum(axis=1),
        gets[there, cpu],
        gets[there, memory],
        view.cost[there].sum(axis=1),
    )
    sums = [np.bincount(at, values, len(owners)).tolist() for values in columns]
    counts = np.bincount(at, minlength=len(owners)).tolist()
    return {
        owner: _Share(count, *values)
        for owner, count, *values in zip(owners.tolist(), counts, *sums, strict=True)
    }


TENANT_FIELDS: RowFields[Mapping[str, Any]] = RowFields(
    text=lambda row: f"{row['name']} {row['owner']}",
    orders={
        "Tenant": lambda row: row["name"],
        "VMs": lambda row: row["vms"],
        "Bids": lambda row: row["bid"],
        "Gets": lambda row: row["cpu"],
        "Pays": lambda row: row["cost"],
        "Left": lambda row: row["balance"],
        "Lasts": lambda row: row["lasts_s"],
    },
    numbers=("VMs", "Bids", "Gets", "Pays", "Left"),
)


def tenants_table(rows: Sequence[Mapping[str, Any]], links: HeadLinks | None = None) -> Markup:
    """Return a table of tenants."""
    return table(
        "Tenants: their bids, shares, costs and balances",
        ("Tenant", "VMs", "Bids", "Gets", "", "Pays", "Left", "Lasts"),
        [
            (
                [swatch(row["owner"]), link("tenants", row["owner"], row["name"])],
                row["vms"],
                credits_text(row["bid"]) if row["vms"] else NONE,
                amount("cpu", row["cpu"]) if row["vms"] else NONE,
                bar(row["part"], class_=f"t{row['owner'] % COLOURS}"),
                credits_text(row["cost"]) if row["vms"] else NONE,
                credits_text(row["balance"]),
                _lasts(row["lasts_s"]),
            )
            for row in rows
        ],
        numbers=(1, 2, 3, 5, 6, 7),
        nothing="There are no tenants yet. Each user of OpenNebula becomes one with its first VM.",
        links=links,
    )


def _lasts(lasts_s: float | None) -> Part:
    if lasts_s is None:
        return NONE
    return duration_text(lasts_s) if lasts_s < _LONG_S else "unlimited"


NO_VMS: Part = [
    "There are no VMs. Create one in OpenNebula, for example with `onevm create`, or ",
    element("a", "submit a platform", href="/platforms/new"),
    ", which creates its own.",
]


def vm_fields(view: PeriodView) -> RowFields[int]:
    """Return what a visitor can search, filter and order in a table of VMs, by row."""
    vms, names = view.snapshot.vms, view.owner_names
    ids, owners, markets = vms.id.tolist(), vms.owner.tolist(), vms.market.tolist()
    cpu, memory = (view.snapshot.resources.index(name) for name in ("cpu", "memory"))
    market_names = view.snapshot.markets.name
    given = view.given()
    return RowFields(
        text=lambda row: " ".join(
            (vms.name[row], f"VM {ids[row]}", names.get(owners[row], ""), view.host_name(row) or "")
        ),
        orders={
            "VM": lambda row: vms.name[row],
            "Tenant": lambda row: names.get(owners[row]),
            "State": lambda row: view.states[row],
            "Host": view.host_name,
            "Bid for CPU": lambda row: float(vms.bid[row, cpu]),
            "Gets": lambda row: float(given[row, cpu]),
            "Memory": lambda row: float(given[row, memory]),
            "Pays": lambda row: float(view.cost[row].sum()),
        },
        numbers=("Bid for CPU", "Gets", "Memory", "Pays"),
        filters={
            "state": lambda row: view.states[row].lower(),
            "market": lambda row: market_names[markets[row]],
        },
    )


def vms_table(
    view: PeriodView,
    hosts: Mapping[str, int],
    rows: Sequence[int],
    links: HeadLinks | None = None,
) -> Markup:
    """Return a table of the VMs in these rows; `hosts` are the ids of hosts with a page."""
    gets = view.given()
    return table(
        "VMs: their bids, shares and costs",
        (
            "VM",
            "Tenant",
            "State",
            "Host",
            "Bid for CPU",
            "Gets",
            "Memory",
            "Pays",
            "Reason for the limit",
        ),
        [_row(view, row, gets, hosts) for row in rows],
        numbers=(4, 5, 6, 7),
        nothing=NO_VMS,
        links=links,
    )


def _row(view: PeriodView, row: int, gets: Floats, hosts: Mapping[str, int]) -> Sequence[Part]:
    vms = view.snapshot.vms
    vm, owner, host = int(vms.id[row]), int(vms.owner[row]), view.host_name(row)
    cpu, memory = (view.snapshot.resources.index(name) for name in ("cpu", "memory"))
    return (
        link("vms", vm, vms.name[row] or f"VM {vm}"),
        tenant(owner, view.owner_names),
        view.states[row].lower(),
        link("hosts", hosts.get(host or ""), host),
        credits_text(float(vms.bid[row, cpu])),
        amount("cpu", float(gets[row, cpu])),
        amount("memory", float(gets[row, memory])),
        credits_text(float(view.cost[row].sum())),
        view.messages.get(vm, ""),
    )
