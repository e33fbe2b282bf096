"""Baseline `easy`: first come, first served, with backfilling (EASY).

The first VM without room gets a reservation: on the host where the VMs that run leave enough room
first, by what their jobs still need. Later VMs start if they do not delay it: on other hosts, in
room that it leaves there, or if their jobs end before. A VM of no job may run for ever.
"""

from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.placement.baselines.job_ends import remaining_s
from merkatd.placement.baselines.size_fitting import NO_SIZE, SizeRoom, first_host


@dataclass(slots=True, eq=False)
class Reservation:
    """The host of the first VM that waits, and the time until it gets it."""

    host: int
    in_s: float
    spare: Floats
    """[resources]: what it leaves free then."""


def easy(room: SizeRoom) -> None:
    """Place VMs in order of arrival; after the first without room those that do not delay it."""
    left_s = remaining_s(room.problem.snapshot, room.problem.view.vms)
    reserved: Reservation | None = None
    for vm in room.queue.tolist():
        hosts = room.hosts_for(vm)
        if reserved is None:
            if len(hosts):
                room.start(vm, first_host(room, vm, hosts), "is the first host with room")
            else:
                room.wait(vm, NO_SIZE)
                reserved = _reservation(room, vm, left_s)
            continue
        if len(hosts := _not_delaying(room, vm, hosts, reserved, left_s)):
            host = first_host(room, vm, hosts)
            if host == reserved.host and left_s[vm] > reserved.in_s:
                reserved.spare -= room.sizes[vm]
            room.start(vm, host, "has room that no earlier VM needs meanwhile")
        else:
            room.wait(vm, "it would delay a VM that came before, or has no room")


def _not_delaying(
    room: SizeRoom, vm: int, hosts: Ints, reserved: Reservation, left_s: Floats
) -> Ints:
    """Return the hosts on which a VM does not delay the reservation."""
    if left_s[vm] <= reserved.in_s or bool((room.sizes[vm] <= reserved.spare).all()):
        return hosts
    others: Ints = hosts[hosts != reserved.host]
    return others


def _reservation(room: SizeRoom, vm: int, left_s: Floats) -> Reservation | None:
    """Return where the VM has room first; None if no end is known that makes enough of it."""
    best: Reservation | None = None
    for host in room.could_take(vm, room.capacity).tolist():
        there = room.board.on(host)
        free = room.room[host].copy()
        for other in there[np.argsort(left_s[there], kind="stable")].tolist():
            in_s = float(left_s[other])
            if in_s == np.inf or (best is not None and in_s >= best.in_s):
                break
            free += room.sizes[other]
            if (free >= room.sizes[vm]).all():
                best = Reservation(host, in_s, free - room.sizes[vm])
                break
    return best
