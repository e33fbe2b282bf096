"""Wishes of `utility`: the number of VMs that a service should have."""

import numpy as np

from merkatd.cluster.plan import Scale
from merkatd.placement.utility.placement_trial import Judgment
from merkatd.placement.utility.utility_market import UtilityMarket

_SLACK = 0.8
"""A service has a VM too many if the others can do its work with this part of their sizes."""


def service_wishes(market: UtilityMarket, judged: Judgment, least_gain: float) -> list[Scale]:
    """Return the wishes for other numbers of VMs, by application.

    A service gets a VM more if its VMs have all that they can use, and it is still less satisfied
    than all others by `least_gain`, or can't answer its requests at all. It gets one less if the
    others can do its work.
    """
    wishes = [_overloaded(market, number) for number in sorted(market.demands.overloaded)]
    services, table = market.demands.services, market.table
    utility = judged.utility[market.jobs :]
    for row, number in enumerate(services.number.tolist()):
        vms = np.flatnonzero(table.service == row)
        power, top = judged.power[vms], (table.low + table.room)[vms]
        others = np.delete(judged.utility, market.jobs + row)
        lowest = float(others.min()) if len(others) else 0.0
        bound = bool((power >= top * (1 - 1e-6)).all()) and len(vms) > 0
        if bound and utility[row] < min(lowest, 0.5) - least_gain:
            wishes.append(_more(number, len(vms), float(utility[row])))
        elif len(vms) > 1 and power.sum() < _SLACK * (top.sum() - top.max()):
            why = f"{len(vms) - 1} VMs can do its work: it uses {power.sum():.0f} % of a core"
            wishes.append(Scale(application=number, replicas=len(vms) - 1, reason=why))
    return wishes


def _more(number: int, vms: int, utility: float) -> Scale:
    why = f"its {vms} VMs have all that they can use, and its utility is {utility:.2f}"
    return Scale(application=number, replicas=vms + 1, reason=why)


def _overloaded(market: UtilityMarket, number: int) -> Scale:
    snapshot, view = market.problem.snapshot, market.view
    own = snapshot.vms.application[view.vms] == number
    return Scale(
        application=number,
        replicas=int(own.sum()) + 1,
        reason=f"{market.demands.unclear[number]}: it needs another one",
    )
