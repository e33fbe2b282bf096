"""Random numbers of a run: a stream for each purpose, all from one seed.

A part of the simulation draws from its own stream only. So more failures change no arrival, and
another placement changes no lifetime.
"""

from enum import StrEnum

import numpy as np

from merkatd.placement.base.repeatable_random import repeatable_random


class StreamPurpose(StrEnum):
    """The purposes that draw random numbers."""

    ARRIVALS = "arrivals"
    LIFETIMES = "lifetimes"
    TYPES = "types"
    DEMANDS = "demands"
    GOALS = "goals"
    DIRTY_RATES = "dirty rates"
    FAILURES = "failures"
    REPAIRS = "repairs"
    PLACEMENT = "placement"
    OVERLAYS = "overlays"
    PEER_CHOICES = "peer choices"
    VIEW_TIES = "view ties"
    PEER_SAMPLES = "peer samples"
    MESSAGE_LOSS = "message loss"
    MESSAGE_DELAYS = "message delays"
    CRASHES = "crashes"
    JOINS = "joins"


def stream_of(
    seed: int, purpose: StreamPurpose, part: str = "", number: int = 0
) -> np.random.Generator:
    """Return a new generator at the begin of the stream of a purpose.

    `part` and `number` divide a purpose into streams of their own, such as one for each period.
    """
    return repeatable_random(seed, number, f"{purpose}/{part}")
