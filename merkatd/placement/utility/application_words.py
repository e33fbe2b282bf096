"""What a decision of `utility` means for an application, in words for its owner."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from merkatd.cluster import Ints, Snapshot
from merkatd.cluster.columns import NO_HOST, row_of
from merkatd.placement.contract import Standing
from merkatd.placement.utility.placement_trial import Judgment, PlacementTrial
from merkatd.placement.utility.utility_market import UtilityMarket
from merkatd.placement.utility.utility_strategy import (
    UtilitySettings,
    decide_market,
    stopped_vms,
)


def explain_applications(
    snapshot: Snapshot, settings: UtilitySettings, memory: Mapping[str, Any]
) -> Mapping[int, Standing]:
    """Return what the decision of `utility` from these arguments means for each application."""
    stopped = stopped_vms(snapshot, memory)
    found: dict[int, Standing] = {}
    for market in range(len(snapshot.markets)):
        outcome = decide_market(snapshot, market, settings, stopped)
        demands = outcome.market.demands
        numbers = [*demands.jobs.number.tolist(), *demands.services.number.tolist()]
        for number in [*numbers, *demands.unclear]:
            its = explain_application(outcome.market, outcome.trial, outcome.judged, number)
            if its is not None:
                found[number] = its
    return found


def explain_application(
    market: UtilityMarket, trial: PlacementTrial, judged: Judgment, number: int
) -> Standing | None:
    """Return the utility of an application, what it predicts, and what its goal takes.

    None for an application without VMs in the market.
    """
    demands = market.demands
    if number in demands.unclear:
        return Standing(f"has no utility: {demands.unclear[number]}")
    row = row_of(demands.jobs.number, number)
    if row is not None:
        return _of_job(market, trial, judged, row)
    row = row_of(demands.services.number, number)
    return None if row is None else _of_service(market, trial, judged, row)


def _of_job(market: UtilityMarket, trial: PlacementTrial, judged: Judgment, row: int) -> Standing:
    jobs, utility = market.demands.jobs, float(judged.utility[row])
    left_s = jobs.goal_in_s[row] - utility * jobs.span_s[row]
    words = f"has a utility of {_two_digits(utility)}: it ends in about {left_s / 60:,.0f} min"
    if utility >= 0:
        return Standing(f"{words}. It reaches its goal", utility)
    if jobs.goal_in_s[row] < jobs.best_s[row]:
        return Standing(f"{words}. It can't reach its goal any more, even at full speed", utility)
    needed = jobs.left[row] / jobs.goal_in_s[row]
    missing = needed - float(judged.power[market.table.job == row].sum())
    return _with_need(market, trial, judged, Standing(words, utility), needed, missing, row)


def _of_service(
    market: UtilityMarket, trial: PlacementTrial, judged: Judgment, row: int
) -> Standing:
    services, at = market.demands.services, market.jobs + row
    utility = float(judged.utility[at])
    response_s = services.goal_s[row] * (1.0 - utility)
    words = f"has a utility of {_two_digits(utility)}: it answers in about {response_s:,.3f} s"
    if utility >= 0:
        return Standing(f"{words}. It reaches its goal", utility)
    needed = services.requests_work[row] + services.request_work[row] / services.goal_s[row]
    missing = needed - float(judged.power[market.table.service == row].sum())
    return _with_need(market, trial, judged, Standing(words, utility), needed, missing, at)


def _with_need(
    market: UtilityMarket,
    trial: PlacementTrial,
    judged: Judgment,
    standing: Standing,
    needed: float,
    missing: float,
    at: int,
) -> Standing:
    """Return what the goal takes, and the applications whose hosts would pay for it."""
    own = np.flatnonzero(trial.applications(np.arange(len(trial.place))) == at)
    hosts = np.unique(trial.place[own][trial.place[own] != NO_HOST])
    words = f"{standing.words}. Its goal takes {needed:,.0f} % of a core"
    if not len(hosts):
        return Standing(f"{words}, and it has no host", standing.utility)
    beside = np.flatnonzero(np.isin(trial.place, hosts) & ~market.plain)
    rows = np.unique(trial.applications(beside))
    others = rows[rows != at]
    has = f"{missing:,.0f} more than it has" if missing > 0 else "which it has in this period alone"
    words = f"{words}, {has}"
    if not len(others):
        return Standing(words, standing.utility)
    lowest = float(judged.utility[others].min())
    plural = "s" * (len(others) > 1)
    return Standing(
        f"{words}. {len(others)} other application{plural} on its hosts would have less; the lowest"
        f" utility among them is {_two_digits(lowest)} now",
        standing.utility,
        _numbers(market, others),
    )


def _numbers(market: UtilityMarket, rows: Ints) -> tuple[int, ...]:
    """Return the numbers of the applications in these rows of utilities."""
    demands = market.demands
    every = np.concatenate([demands.jobs.number, demands.services.number])
    return tuple(sorted(every[rows].tolist()))


def _two_digits(utility: float) -> str:
    """Return the utility with two digits; a utility that rounds to 0 has no sign."""
    return f"{round(utility, 2) + 0.0:.2f}"
