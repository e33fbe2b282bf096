"""Memory shares to balloon targets: never below the floor, nor below use and a margin.

All amounts are whole MiB. What a VM *holds* is the larger of what it was seen to hold and
what its balloon was told: a guest may take what it was told at any time without asking.
What crosses from one VM to another on the same host is settled in `room.py`.
"""

from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.limits.settings import MemorySettings


@dataclass(frozen=True, slots=True, eq=False)
class Guests:
    """[vms]: the memory of each VM, in MiB."""

    size: Floats
    """Its cap: more than this it can't hold."""
    floor: Floats
    share: Floats
    used: Floats
    """NaN where the guest does not tell."""
    held: Floats
    """NaN where nobody has seen it."""
    told: Ints
    """What its balloon was told; below 0 where it was told nothing."""
    keeps: Floats | None = None
    """The most of its use that it keeps; NaN where it keeps all. None: every VM keeps all."""
    whole: Floats | None = None
    """What it has when it boots, if that is not its size: a cap limits only what it keeps."""

    @property
    def boots_with(self) -> Floats:
        """[vms]: the memory of the guest itself, whatever cap its owner chose."""
        return self.size if self.whole is None else self.whole


def holdings(guests: Guests) -> Ints:
    """What each VM holds, or may take at any time: all of its memory where nothing is known."""
    known = np.fmax(guests.held, np.where(guests.told >= 0, guests.told, np.nan))
    return np.ceil(np.where(np.isnan(known), guests.boots_with, known)).astype(np.int64)


def least(guests: Guests, settings: MemorySettings) -> Ints:
    """What must not be taken: the floor, and of what it holds the measured use and its margin.

    A guest that does not tell its use keeps all it holds, unless the settings say otherwise.
    Using more lets nobody hold more: above the floor, only a share does. A guest that does not pay
    for its use, where others pay, keeps what the decision leaves to it.
    """
    margin = np.maximum(settings.margin_mib, settings.margin_part * guests.used)
    unmeasured = 0.0 if settings.shrink_unmeasured else np.inf
    in_use = np.where(np.isnan(guests.used), unmeasured, guests.used + margin)
    if guests.keeps is not None:
        in_use = np.fmin(in_use, guests.keeps)
    need = np.maximum(guests.floor, np.minimum(in_use, holdings(guests)))
    return _whole(np.minimum(np.ceil(need), np.floor(guests.size)))


def targets(guests: Guests, least_mib: Ints, host: Ints, room_mib: Ints) -> Ints:
    """Where each balloon should end: the share, or the least where that is more.

    `host` is a row of `room_mib`, which is what a host has for these VMs together. Where they
    are due more than that, because some need more than their share, all that is above the
    least is scaled down alike. Where even the least does not fit, it is the target all the same.
    """
    due = np.minimum(np.floor(guests.share), np.floor(guests.size))
    above = np.maximum(_whole(due) - least_mib, 0)
    hosts = len(room_mib)
    spare = np.maximum(room_mib - np.bincount(host, least_mib, hosts), 0.0)
    wanted = np.bincount(host, above, hosts)
    scale = np.divide(spare, wanted, out=np.ones(hosts), where=wanted > spare)
    return least_mib + _whole(np.floor(above * scale[host]))


def steps(guests: Guests, target: Ints, least_mib: Ints, settings: MemorySettings) -> Ints:
    """What each balloon would be told in this period, if the host can give what that takes.

    Bounded by the settings, but a VM below its least is lifted to it at once, and a VM that does
    not pay for what it holds gives it back at once: what it keeps for now is in its least already.
    Unchanged where the target is near enough; a floor is kept to the MiB.
    """
    holds = holdings(guests)
    gap = target - holds
    most = np.minimum(settings.most_step_mib, settings.most_step_part * guests.boots_with)
    most = np.maximum(_whole(np.floor(most)), 1)
    up = np.maximum(most, least_mib - holds)
    bounded = True if guests.keeps is None else np.isnan(guests.keeps)
    moved = holds + np.clip(gap, -np.where(bounded, most, holds), up)
    falling = gap < 0
    behind = falling & (guests.told >= 0) & (guests.told < moved)
    moved = np.where(behind, np.maximum(guests.told, target), moved)
    worth = np.abs(gap) >= settings.least_step_mib
    worth |= holds < np.minimum(guests.floor, np.floor(guests.size))
    return np.where(worth, moved, holds)


def _whole(amount: Floats) -> Ints:
    return amount.astype(np.int64)
