"""What a host makes of its guests' limits: which it accepts, and what each guest gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.guest import PERIOD_US, Guest, Limits
from merkatd.embedded.sharing import Claim, divide, divide_pinned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from merkatd.embedded.records import Host


MOST_SHARES = 262_144
"""The most that the kernel takes."""


class LimitsError(ValueError):
    """Limits that the host can't set: the VM doesn't run, or a value is out of range."""


def rates(host: Host, guests: Sequence[Guest]) -> list[float]:
    """Cores that each guest on a host really gets."""
    claims = [_claim(guest) for guest in guests]
    cores = host.total_cpu / 100
    if any(pin for guest in guests for pin in guest.limits.pins):
        return divide_pinned(claims, round(cores))
    return divide([claim.weight for claim in claims], [claim.cap for claim in claims], cores)


def _claim(guest: Guest) -> Claim:
    limits, vcpu_cap = guest.limits, 0.0 if guest.finished else guest.behaviour.demand
    if limits.vcpu_quota > 0:
        vcpu_cap = min(vcpu_cap, limits.vcpu_quota / PERIOD_US)
    cap = guest.vcpus * vcpu_cap
    if limits.global_quota > 0:
        cap = min(cap, limits.global_quota / PERIOD_US)
    missing = guest.vcpus - len(limits.pins)
    pins = tuple(map(frozenset, limits.pins)) + (frozenset[int](),) * missing
    return Claim(float(limits.cpu_shares), cap, vcpu_cap, pins)


def check(guest: Guest, limits: Limits, host: Host) -> None:
    """Raise an error that names the first limit that the host would refuse."""
    cores = host.total_cpu // 100
    faults = [
        (
            not 2 <= limits.cpu_shares <= MOST_SHARES,
            f"cpu_shares {limits.cpu_shares}: 2 to {MOST_SHARES}",
        ),
        (_bad_quota(limits.vcpu_quota), f"vcpu_quota {limits.vcpu_quota}: -1, or 1000 and more"),
        (
            _bad_quota(limits.global_quota),
            f"global_quota {limits.global_quota}: -1, or 1000 and more",
        ),
        (
            not 0 < limits.memory_mib <= guest.size_mib,
            f"memory_mib {limits.memory_mib}: 1 to {guest.size_mib}, the domain's size",
        ),
        (
            len(limits.pins) > guest.vcpus,
            f"{len(limits.pins)} pins: at most {guest.vcpus}, one for each virtual processor",
        ),
        (
            any(not 0 <= core < cores for pin in limits.pins for core in pin),
            f"pins to cores that host {host.name} hasn't: it has 0 to {cores - 1}",
        ),
        (_bad_rate(limits.network_kb_s), f"network_kb_s {limits.network_kb_s}: -1, or 1 and more"),
        (_bad_rate(limits.disk_kib_s), f"disk_kib_s {limits.disk_kib_s}: -1, or 1 and more"),
    ]
    for wrong, what in faults:
        if wrong:
            raise LimitsError(f"VM {guest.vm}: {what}")


def _bad_quota(quota: int) -> bool:
    return quota != -1 and quota < 1000


def _bad_rate(rate: int) -> bool:
    return rate != -1 and rate < 1
