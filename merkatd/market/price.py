"""The price of a unit of each resource for one period (section 2.2.4), under two rules."""

from enum import StrEnum

import numpy as np

from merkatd.cluster.arrays import Floats


class PriceRule(StrEnum):
    """What a unit costs."""

    PAPER = "paper"
    """The sum of all bids over the capacity. With caps a VM can be charged above its bid."""
    CLEARING = "clearing"
    """What a unit costs the bids that set the level. Nobody is charged above their bid."""


def price(
    rule: PriceRule, bids: Floats, capacity: Floats, level: Floats, reserve: Floats
) -> Floats:
    """Credits per unit and period, by resource, at least the reserve price.

    `bids` is [vms, resources]; the others are [resources]. Infinite under the clearing rule
    where the floors alone use up the capacity: nobody's bid decides there.
    """
    if rule is PriceRule.CLEARING:
        asked = np.divide(1.0, level, out=np.full_like(level, np.inf), where=level > 0)
    else:
        asked = np.divide(
            bids.sum(axis=0), capacity, out=np.zeros_like(capacity), where=capacity > 0
        )
    return np.maximum(asked, reserve)
