"""The histories of a host, a VM, a tenant and a platform, from the moments that are kept; pure."""

from collections.abc import Sequence

import numpy as np

from merkatd.cluster import Bools
from merkatd.web.charts import NAMES, PER_UNIT, UNITS, Chart, Charts, Line, Values, plain
from merkatd.web.past import Moment

CREDITS = "credits a period"
NO_ONES = -2
"""No application's id."""


def of_vm(moments: Sequence[Moment], vm: int, owner: int, resources: Sequence[str]) -> Charts:
    """What a VM got, used, bid and paid while it was this owner's."""
    rows = [(one, one.row(vm)) for one in moments]
    there = [(one, at) for one, at in rows if at is not None and int(one.owner[at]) == owner]

    def column(name: str, place: int) -> Values:
        scale = PER_UNIT.get(resources[place], 1.0)
        return [plain(getattr(one, name)[at, place], scale) for one, at in there]

    charts = [
        Chart(
            NAMES[resource],
            UNITS[resource],
            [
                Line("gets", column("given", place)),
                Line("uses", _before(there, column("used", place))),
            ],
        )
        for place, resource in enumerate(resources)
    ]
    bids = [plain(one.bid[at].sum()) for one, at in there]
    pays = [plain(one.cost[at]) for one, at in there]
    charts.append(Chart("Money", CREDITS, [Line("pays", pays), Line("bids", bids, dashed=True)]))
    return _over([one for one, _ in there], charts)


def of_host(
    moments: Sequence[Moment], host: int, owner: int | None, resources: Sequence[str]
) -> Charts:
    """What was given of a host, to one owner or to all, out of how much."""
    rows = [(one, one.host_row(host)) for one in moments]
    there = [(one, at) for one, at in rows if at is not None]
    known = [one for one, _ in there]
    here = [(one.host == host) & (True if owner is None else one.owner == owner) for one in known]
    charts = []
    for place, resource in enumerate(resources):
        scale = PER_UNIT.get(resource, 1.0)
        whole = [plain(one.whole[at, place], scale) for one, at in there]
        given = Line("given" if owner is None else "yours", _given(known, here, place, scale))
        charts.append(
            Chart(NAMES[resource], UNITS[resource], [given, Line("has", whole, dashed=True)])
        )
    charts.append(Chart("Money", CREDITS, [Line("its VMs pay", _cost(known, here))]))
    return _over(known, charts)


def of_tenant(
    moments: Sequence[Moment],
    owner: int,
    balance: float,
    entries: Sequence[tuple[float, float]],
    resources: Sequence[str],
) -> Charts:
    """What a tenant held, bid, paid and got.

    `balance` is what it holds now; `entries` are the times and the amounts that led to it.
    """
    held = Line("left", _balances([one.at_s for one in moments], balance, entries))
    mine = [one.owner == owner for one in moments]
    return _over(moments, [*_together(moments, mine, resources), Chart("Credits", "left", [held])])


def of_platform(
    moments: Sequence[Moment], platform: int, application: int | None, resources: Sequence[str]
) -> Charts:
    """How far a platform was, what its VMs bid and paid, and what they got for it."""
    goals = [
        next((goal for goal in one.goals if goal.platform == platform), None) for one in moments
    ]
    theirs = NO_ONES if application is None else application
    began = (
        goal is not None or (one.application == theirs).any()
        for one, goal in zip(moments, goals, strict=True)
    )
    first = next((at for at, there in enumerate(began) if there), len(goals))
    known = moments[first:]
    pairs = list(zip(known, goals[first:], strict=True))
    done = [None if goal is None else _percent(goal.done) for _, goal in pairs]
    passed = [None if goal is None else _percent(goal.passed(one.at_s)) for one, goal in pairs]
    charts = [
        Chart("Its work", "percent", [Line("done", done), Line("of its time", passed, dashed=True)])
    ]
    if application is not None:
        charts += _together(known, [one.application == application for one in known], resources)
    return _over(known, charts)


def _together(
    moments: Sequence[Moment], rows: Sequence[Bools], resources: Sequence[str]
) -> list[Chart]:
    """What the VMs in these rows bid, pay and get, all together."""
    bids = [plain(one.bid[some].sum()) for one, some in zip(moments, rows, strict=True)]
    money = [Line("pays", _cost(moments, rows)), Line("bids", bids, dashed=True)]
    return [
        Chart("Money", CREDITS, money),
        *(
            Chart(
                NAMES[resource],
                UNITS[resource],
                [Line("gets", _given(moments, rows, place, PER_UNIT.get(resource, 1.0)))],
            )
            for place, resource in enumerate(resources)
        ),
    ]


def _given(moments: Sequence[Moment], rows: Sequence[Bools], place: int, scale: float) -> Values:
    return [
        plain(one.given[some, place].sum(), scale) for one, some in zip(moments, rows, strict=True)
    ]


def _cost(moments: Sequence[Moment], rows: Sequence[Bools]) -> Values:
    return [plain(one.cost[some].sum()) for one, some in zip(moments, rows, strict=True)]


def _balances(
    at_s: Sequence[float], balance: float, entries: Sequence[tuple[float, float]]
) -> Values:
    """What was held at these times: what is held now, without what came after."""
    times = np.array([moved_s for moved_s, _ in entries])
    order = np.argsort(times)
    after = np.cumsum(np.array([amount for _, amount in entries])[order][::-1])[::-1]
    later = np.append(after, 0.0)[np.searchsorted(times[order], at_s, side="right")]
    return [plain(balance - float(one)) for one in later]


def _before(there: Sequence[tuple[Moment, int]], values: Values) -> Values:
    """What each period found of the one before, put where it was: of the last nobody knows yet."""
    found = {one.period - 1: value for (one, _), value in zip(there, values, strict=True)}
    return [found.get(one.period) for one, _ in there]


def _percent(part: float | None) -> float | None:
    return None if part is None else plain(min(max(part, 0.0), 1.0), 0.01)


def _over(moments: Sequence[Moment], charts: Sequence[Chart]) -> Charts:
    return Charts([one.period for one in moments], [one.at_s for one in moments], charts)
