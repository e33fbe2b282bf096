"""A guest as it is known: what it was told, what its host enforces, whether its balloon works."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from merkatd.hypervisor.libvirt.described import Described, Devices
from merkatd.limits import UNSET, Cores

KIB_PER_MIB = 1024
PREFIX = "one-"

Words = Mapping[str, int]
"""Limits under the names that a host has for them."""

_FOLLOWS_WITHIN_S = 30.0
_STATS_OLD_AFTER_S = 60.0
_NEAR_MIB = 16


class Cpu(NamedTuple):
    """A CPU limit in the words of a Limit step; UNSET where there is none."""

    vcpu_quota_us: int = UNSET
    global_quota_us: int = UNSET
    shares: int = UNSET


class Sight(NamedTuple):
    """A guest as its host showed it."""

    vm: int
    domain: Any
    cpu_s: float
    held_kib: float
    most_kib: float
    used_kib: float
    """NaN where nobody says."""
    told_at: int = 0
    """When the guest last told its use, on its own host's clock; 0: never."""
    free: bool = True
    """Whether all was told that is told only where nobody else is at work on the guest."""


def vm_of(name: str) -> int | None:
    """The VM that a domain is; None where it is none of OpenNebula's."""
    number = name.removeprefix(PREFIX)
    if number == name or not (number.isascii() and number.isdigit()):
        return None
    return int(number)


@dataclass
class Guest:
    """One run of one VM on one host: it starts anew with the domain's id."""

    vm: int
    domain: Any
    opening: int
    run: int
    """The domain's id: another one after every start."""
    sight: Sight
    described: Described | None = None
    words: Words | None = None
    """What the host enforces, None as long as nobody knows."""
    asked: Cpu | None = None
    """What was asked for when these words were set."""
    cores: Cores | None = None
    """Where it is pinned, None as long as nobody knows."""
    emulator: tuple[int, ...] | None = None
    """The cores of its other threads: empty means all cores, None means not yet known."""
    devices: Devices | None = None
    """Its interfaces and disks with their limits, None as long as nobody looked."""
    checked: int | None = None
    """The period in which its limits were last read back."""
    trouble: str = ""
    """Why it could not be looked at, the last time that it could not."""
    held_up: bool = False
    """Somebody's work on it let a call wait in vain, and was not over when last asked."""
    told_mib: int = UNSET
    _moved_s: float = -np.inf
    """When its balloon was last seen to move, or told something."""
    _followed: bool = False
    """It was seen to hold what it was told."""
    _stats_s: float = -np.inf
    _looks: int = 0

    @property
    def name(self) -> str:
        """As OpenNebula names its domains."""
        return f"{PREFIX}{self.vm}"

    @property
    def vcpus(self) -> int:
        """How many virtual CPUs it has."""
        return 1 if self.described is None else max(self.described.vcpus, 1)

    @property
    def held_mib(self) -> float:
        """What it holds."""
        return self.sight.held_kib / KIB_PER_MIB

    def see(self, sight: Sight, opening: int, now_s: float) -> None:
        """Take note of how it is now."""
        if sight.told_at != self.sight.told_at or self._looks == 0:
            self._stats_s = now_s
        self._looks += 1
        if abs(sight.held_kib - self.sight.held_kib) >= KIB_PER_MIB:
            self._moved_s = now_s
        self.sight, self.domain, self.opening = sight, sight.domain, opening

    def tell(self, memory_mib: int, now_s: float) -> None:
        """Take note of what its balloon was told."""
        self.told_mib, self._moved_s, self._followed = memory_mib, now_s, False

    def strayed(self) -> bool:
        """Whether it holds something else by now than what it was told and had come to hold.

        Somebody else told it, or it was rebooted: what it was told then counts no longer.
        """
        if self.told_mib == UNSET:
            return False
        near = abs(self.held_mib - self.told_mib) <= _NEAR_MIB
        if near or not self._followed:
            self._followed = self._followed or near
            return False
        self.told_mib, self._followed = UNSET, False
        return True

    def emulator_off(self, reserved: tuple[int, ...]) -> bool:
        """Whether it is pinned and its other threads are not on the cores reserved for them."""
        known = self.emulator is not None
        return known and any(self.cores or ()) and bool(reserved) and self.emulator != reserved

    def used_mib(self, now_s: float) -> float:
        """What it uses of what it holds; NaN where it does not tell, or no longer does."""
        if self.sight.told_at and now_s - self._stats_s > _STATS_OLD_AFTER_S:
            return np.nan
        return self.sight.used_kib / KIB_PER_MIB

    def follows(self, now_s: float) -> bool:
        """Whether what it holds goes where its balloon was told, or was told nothing yet."""
        if self.told_mib == UNSET or abs(self.held_mib - self.told_mib) <= _NEAR_MIB:
            return True
        return now_s - self._moved_s <= _FOLLOWS_WITHIN_S
