"""The network volume of migrations (Paper IV, Eq. 8 and 9).

A live migration copies the memory, and then again and again the pages that the guest has written
meanwhile: with the dirty rate R, the link L and n such rounds,

    DT = M + M (1 - (R / L)^(n+1)) / (1 - R / L)
    n = min(log_(R/L)(T L / M), log_(R/L)(X R / (M (L - R))))

rounded up. The rounds end when the rest takes less than T to send, or a round gains less than X.
This holds for 0 < R < L and n >= 0. Otherwise:

- R is 0 or unknown, or L is unknown: the memory is copied once.
- R >= L: the rounds never gain anything. Each copies the whole memory, up to `most_rounds`.
- n < 0: the memory is less than what ends the rounds, so n is 0.

A cold migration copies the memory once. Disks that no other host shares are copied as well.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from merkatd.cluster import Floats

MIB_S_PER_MBPS: Final = 1e6 / 8.0 / 2.0**20
"""MiB a second of a link of one Mbit/s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRounds:
    """When a live migration stops copying and switches over."""

    switch_over_s: float = 0.5
    """T: the greatest time for which the guest may stand still."""
    progress_mib: float = 1.0
    """X: the least progress of a round."""
    most_rounds: int = 30


PAPER_ROUNDS: Final = CopyRounds()


def live_volume(
    memory_mib: Floats,
    dirty_mib_s: Floats,
    link_mib_s: Floats,
    rounds: CopyRounds = PAPER_ROUNDS,
) -> Floats:
    """Return the MiB that each live migration sends, without disks."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = dirty_mib_s / link_mib_s
        repeats = (ratio > 0) & (ratio < 1)
        base = np.log(np.where(repeats, ratio, 0.5))
        rest = np.log(rounds.switch_over_s * link_mib_s / memory_mib) / base
        gain = rounds.progress_mib * dirty_mib_s / (memory_mib * (link_mib_s - dirty_mib_s))
        count = np.ceil(np.minimum(rest, np.log(gain) / base))
        count = np.clip(np.where(repeats, count, 0.0), 0.0, rounds.most_rounds)
        copied = 1.0 + (1.0 - ratio ** (count + 1.0)) / (1.0 - ratio)
    never = ratio >= 1
    factor = np.where(repeats, copied, np.where(never, 1.0 + rounds.most_rounds, 1.0))
    volume: Floats = memory_mib * factor
    return volume
