"""What each platform's controller is told after a period: of its own VMs and its own account."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa

from merkatd.cluster import VmState
from merkatd.currency import MICRO
from merkatd.database import budgets, fleets, platforms
from merkatd.database.budgets import Budget
from merkatd.database.fleets import Member
from merkatd.database.platforms import Platform
from merkatd.platforms.keeping import market_of, parsed
from merkatd.platforms.life import ATTENDED, State
from merkatd.platforms.ports import Assignment, News, VmNow
from merkatd.platforms.template import NOBODY
from merkatd.scheduler.settings import Market
from merkatd.scheduler.tell import Announcement


@dataclass(frozen=True, slots=True, eq=False)
class Attended:
    """A platform whose controller is to run."""

    assignment: Assignment
    news: News
    grace_s: float


def attended(
    connection: sa.Connection,
    announcement: Announcement,
    markets: Sequence[Market],
    interval_s: float,
    replenishment_s: float,
) -> dict[int, Attended]:
    """By id, all platforms that are to be attended now."""
    living = [one for one in platforms.living(connection) if State(one.state) in ATTENDED]
    if not living:
        return {}
    members: dict[int, list[Member]] = {one.id: [] for one in living}
    for one in fleets.present(connection):
        members.get(one.platform, []).append(one)
    held = {one.application: one for one in budgets.open_ones(connection)}
    found = {}
    for platform in living:
        template = parsed(platform.template)
        if template.controller == NOBODY:
            continue
        budget = None if platform.account is None else held.get(platform.account)
        news = _news(platform, members[platform.id], budget, announcement, markets)
        assignment = _assignment(platform, budget, interval_s, replenishment_s)
        found[platform.id] = Attended(assignment, news, template.grace_s)
    return found


def _assignment(
    platform: Platform, budget: Budget | None, interval_s: float, replenishment_s: float
) -> Assignment:
    template = parsed(platform.template)
    return Assignment(
        platform=platform.id,
        name=platform.name,
        owner=platform.owner,
        controller=template.controller,
        parameters=template.parameters,
        clusters=tuple(one.terms() for one in template.clusters),
        deadline_s=platform.deadline_s,
        ideal_s=template.goal.ideal_s,
        performance=template.goal.performance,
        started_s=platform.started_s,
        interval_s=interval_s,
        budget=0.0 if budget is None else budget.initial / MICRO,
        replenishment=0.0 if budget is None else budget.replenishment / MICRO,
        replenishment_s=replenishment_s,
        memory=platform.memory,
    )


def _news(
    platform: Platform,
    members: Sequence[Member],
    budget: Budget | None,
    announcement: Announcement,
    markets: Sequence[Market],
) -> News:
    market = market_of(parsed(platform.template), markets)
    return News(
        platform=platform.id,
        period=announcement.period,
        at_s=announcement.at_s,
        state=platform.state,
        prices=announcement.prices.get(market.name, {}),
        vms=tuple(vms_now(members, announcement)),
        balance=0.0 if budget is None else budget.balance / MICRO,
        deadline_s=platform.deadline_s,
        sizes=platform.sizes,
    )


def vms_now(members: Sequence[Member], announcement: Announcement) -> list[VmNow]:
    """Those of the VMs that the last period saw."""
    snapshot = announcement.seen.snapshot
    vms, allocations = snapshot.vms, announcement.decided.decision.allocations
    found = []
    for one in members:
        if one.vm is None:
            continue
        row = int(np.searchsorted(vms.id, one.vm))
        if row == len(vms.id) or vms.id[row] != one.vm:
            continue
        found.append(
            VmNow(
                vm=one.vm,
                cluster=one.cluster,
                state=VmState(int(vms.state[row])).name.lower(),
                bid=_amounts(snapshot.resources, vms.bid[row].tolist()),
                allocation=_amounts(snapshot.resources, allocations[row].tolist()),
            )
        )
    return found


def _amounts(names: Sequence[str], values: Sequence[float]) -> Mapping[str, float]:
    return dict(zip(names, values, strict=True))
