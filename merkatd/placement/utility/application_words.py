"""What a decision of `utility` means for an application, in words for its owner."""

import numpy as np

from merkatd.cluster.columns import NO_HOST, row_of
from merkatd.placement.utility.placement_trial import Judgment, PlacementTrial
from merkatd.placement.utility.utility_market import UtilityMarket


def explain_application(
    market: UtilityMarket, trial: PlacementTrial, judged: Judgment, number: int
) -> str:
    """Return the utility of an application, what it predicts, and what its goal takes.

    Empty for an application without VMs in the market.
    """
    if number in market.demands.unclear:
        return f"it has no utility: {market.demands.unclear[number]}"
    row = row_of(market.demands.jobs.number, number)
    if row is not None:
        return _job_words(market, trial, judged, row)
    row = row_of(market.demands.services.number, number)
    return "" if row is None else _service_words(market, trial, judged, row)


def _job_words(market: UtilityMarket, trial: PlacementTrial, judged: Judgment, row: int) -> str:
    jobs, utility = market.demands.jobs, float(judged.utility[row])
    left_s = jobs.goal_in_s[row] - utility * jobs.span_s[row]
    words = f"its utility is {utility:.2f}: it ends in about {left_s / 60:,.0f} min"
    if utility >= 0:
        return words
    if jobs.goal_in_s[row] < jobs.best_s[row]:
        return f"{words}. It can't reach its goal any more, even at full speed"
    needed = jobs.left[row] / jobs.goal_in_s[row]
    own = market.table.job == row
    missing = needed - float(judged.power[own].sum())
    return f"{words}. {_need_words(market, trial, judged, needed, missing, row)}"


def _service_words(market: UtilityMarket, trial: PlacementTrial, judged: Judgment, row: int) -> str:
    services, at = market.demands.services, market.jobs + row
    utility = float(judged.utility[at])
    response_s = services.goal_s[row] * (1.0 - utility)
    words = f"its utility is {utility:.2f}: it answers in about {response_s:,.3f} s"
    if utility >= 0:
        return words
    needed = services.requests_work[row] + services.request_work[row] / services.goal_s[row]
    missing = needed - float(judged.power[market.table.service == row].sum())
    return f"{words}. {_need_words(market, trial, judged, needed, missing, at)}"


def _need_words(
    market: UtilityMarket,
    trial: PlacementTrial,
    judged: Judgment,
    needed: float,
    missing: float,
    at: int,
) -> str:
    """Return what the goal takes, and the number of applications whose hosts would pay for it."""
    own = np.flatnonzero(trial.applications(np.arange(len(trial.place))) == at)
    hosts = np.unique(trial.place[own][trial.place[own] != NO_HOST])
    words = f"Its goal takes {needed:,.0f} % of a core"
    if not len(hosts):
        return f"{words}, and it has no host"
    beside = np.flatnonzero(np.isin(trial.place, hosts) & ~market.plain)
    rows = np.unique(trial.applications(beside))
    others = rows[rows != at]
    if not len(others) or missing <= 0:
        return f"{words}, {max(missing, 0.0):,.0f} more than it has"
    lowest = float(judged.utility[others].min())
    return (
        f"{words}, {missing:,.0f} more than it has. Other applications on its hosts, {len(others)},"
        f" would have less; the lowest utility among them is {lowest:.2f} now"
    )
