"""The paper's form of the division of power: sampled utilities, and values between them.

`common_utility.py` solves for the common utility. This form stays to compare the two.

The paper (section 4.4.1) takes the power of each job at a few utilities (Eq. 8 and 9), finds the
two samples whose total powers enclose the given power (Eq. 10), and takes powers between them. If
no job is at its greatest utility there, all are at the same part of the way (Eq. 13). Otherwise
this part is multiplied for each job by a ratio (Eq. 14 and 15): the growth of the total divided by
that of the job. The equations as printed don't give the numbers of the paper's example. This
reading gives them within 6 %; a job never leaves the range between its two samples (Eq. 12).
"""

import numpy as np

from merkatd.cluster import Floats
from merkatd.placement.utility.powers.power_curves import LEAST_UTILITY, PowerCurves

SAMPLES: Floats = np.array([LEAST_UTILITY, -10, -5, -2, -1, *np.linspace(-0.5, 1.0, 16)])
"""The sampled utilities, from one that needs no power to the greatest."""


def sampled_powers(curves: PowerCurves, power: float, samples: Floats = SAMPLES) -> Floats:
    """Return [jobs]: the power of each, by the paper's interpolation."""
    powers = np.stack([curves.power(float(utility)) for utility in samples])
    totals = powers.sum(axis=1)
    if power >= totals[-1]:
        return curves.power(float(samples[-1]))
    at = max(int(np.searchsorted(totals, power, side="right")) - 1, 0)
    constrained = bool((samples[at + 1] > curves.most_utility).any())
    return between(powers[at], powers[at + 1], power, constrained=constrained)


def between(low: Floats, high: Floats, power: float, *, constrained: bool) -> Floats:
    """Return [applications]: powers between those of two samples, which add up to about `power`.

    `constrained` tells whether a job is at its greatest utility in one of the samples.
    """
    part = (power - low.sum()) / (high.sum() - low.sum())
    parts = np.full(len(low), part)
    if constrained and low.all():
        growth = (high.sum() / low.sum()) / (high / low)
        parts = np.clip(part * growth, 0.0, 1.0)
    powers: Floats = low + (high - low) * parts
    return powers


def sampled_utilities(curves: PowerCurves, power: float, samples: Floats = SAMPLES) -> Floats:
    """Return [applications]: the utility that each reaches with its power (Eq. 16)."""
    return curves.utility(sampled_powers(curves, power, samples))
