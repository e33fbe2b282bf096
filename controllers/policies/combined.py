"""Algorithms 2 and 4 together: bids are moved first, the number of VMs where bids can't help.

A VM more is asked for when the application is slow though each VM has all that it can use; one is
released when the others could do its part and the application would still be fast. VMs that
could not even be held at their least allocation are released at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from controllers.policies.bound import Prices
from controllers.policies.horizontal import Fleet, scale
from controllers.policies.vertical import (
    CLOSE,
    Adapted,
    Amounts,
    Means,
    Performance,
    Standing,
    Trace,
    adapt,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Combined:
    """How many VMs there are to be, and the bids of those that there are."""

    vms: int
    request: int
    release: int
    forced: int
    waiting: int
    """For the next time."""
    adapted: Mapping[int, Adapted]
    """By VM."""


def combine(
    fleet: Fleet,
    standings: Mapping[int, Standing],
    performance: Performance,
    means: Means,
    prices: Prices,
    traces: Mapping[int, tuple[Trace, ...]],
    *,
    patience: int = 1,
) -> Combined:
    """One step. `means.bid_max` is for all VMs together; `fleet.size` is alloc_max of one."""
    least = _least(standings, fleet.size)
    judged = _for_the_number(fleet, standings, performance)
    scaled = scale(replace(fleet, size=least), judged, means.bid_max, prices, patience=patience)
    each = replace(means, bid_max=means.bid_max / max(scaled.vms, fleet.vms, 1))
    return Combined(
        vms=scaled.vms,
        request=scaled.request,
        release=scaled.release,
        forced=scaled.forced,
        waiting=scaled.waiting,
        adapted={
            vm: adapt(one, performance, each, traces.get(vm, ())) for vm, one in standings.items()
        },
    )


def _least(standings: Mapping[int, Standing], size: Amounts) -> Amounts:
    """What a VM can't do without: alloc_min of those that there are, all of it where none is."""
    if not standings:
        return size
    columns = zip(*(one.least for one in standings.values()), strict=True)
    return tuple(max(column) for column in columns)


def _for_the_number(
    fleet: Fleet, standings: Mapping[int, Standing], performance: Performance
) -> Performance:
    """The performance as far as the number of VMs can mend it: else one that is as it should be."""
    fine = replace(performance, value=(performance.low + performance.high) / 2)
    if performance.slow:
        return performance if all(map(_full, standings.values())) else fine
    if performance.fast and fleet.vms > 1:
        # The others' work with one VM less, each with all it can use.
        held = sum(map(_part, standings.values()))
        fewer = performance.value * held / (fleet.vms - 1)
        return performance if fewer < performance.low else fine
    return fine


def _full(standing: Standing) -> bool:
    return _part(standing) >= 1 - CLOSE


def _part(standing: Standing) -> float:
    """Of what it can use, the part that it has, in its scarcest resource."""
    return min(
        (got / most for got, most in zip(standing.allocation, standing.most, strict=True) if most),
        default=1.0,
    )
