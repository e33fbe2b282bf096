"""Hosts by their room: machine code that finds the fullest host with room for a VM.

# Note [Shelves]

The room of a host is the largest free part of a good. Hosts with nearly the same room, of the same
good, are on one *shelf*, in a doubly linked list. A search begins at the shelves of the VM's size,
since no fuller host has room for it, and ends at the first shelves with a host that fits. Shelves
on which no host has enough of a good are skipped, and so are whole *rows* of such shelves. So a
search looks at few hosts, and a VM that comes or leaves costs little too.

Example with ten shelves for a good: hosts A, B and C have room 0.12, 0.47 and 0.43, and a VM needs
0.4. The search begins at the fifth shelf (0.4 to 0.5). B and C are there and fit; C is fuller.

The free amounts are running differences, with rounding errors. Where they leave it open whether a
VM fits, the floors of all VMs on the host are summed as `where_floors_fit` does.
"""

from typing import NamedTuple

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import NO_HOST
from merkatd.placement.base.compiled import compiled

NEARLY = 1.0 - 1e-9
"""The part of a floor that must fit where a VM is already: sums of floors have rounding errors."""
ATTEMPTS = 8
"""The most attempts to place a gang, each with another VM first."""
SHELVES_PER_ROW = 16
"""The shelves that a search passes over at once."""
_ERROR = 1e-6
"""More than the rounding error of a free part."""


class Shelves(NamedTuple):
    """A placement, with its hosts by room. All arrays change with each move."""

    place: Ints
    rows: Ints
    start: Ints
    counts: Ints
    slots: Ints
    """These five are the arrays of the `Board`."""
    capacity: Floats
    floor: Floats
    typical: Floats
    """[resources]: the largest capacity of a host."""
    size: Floats
    """[vms]: the largest part of a typical host that a VM needs."""
    free: Floats
    """[hosts, resources]"""
    room: Floats
    """[hosts]: the largest free part of a typical host."""
    roomiest: Ints
    """[hosts]: the resource of which this part is free."""
    first: Ints
    """[shelves, resources]: the first host of a shelf, or NO_HOST."""
    most: Floats
    """[shelves, resources, resources]: no host of the shelf has more free."""
    most_in_row: Floats
    """[rows, resources, resources]: no host of the row has more free."""
    after: Ints
    before: Ints
    """[hosts] each: the hosts beside a host on its shelf, or NO_HOST."""
    fullest: Ints
    """[hosts]: the result of a search."""


@compiled
def fill_shelves(shelves: Shelves, last: Ints) -> None:
    """Subtract the floors of all VMs from the capacities in `free`, and put hosts on shelves.

    Those of the VMs `last` are subtracted after the others, in this order, as if they came then.
    """
    comes_last = np.zeros(len(shelves.place), dtype=np.bool_)
    for vm in last:
        comes_last[vm] = True
    for host in range(len(shelves.room)):
        begin = shelves.start[host]
        for at in range(begin, begin + shelves.counts[host]):
            if not comes_last[shelves.rows[at]]:
                subtract_floor(shelves, host, shelves.rows[at])
    for vm in last:
        subtract_floor(shelves, shelves.place[vm], vm)
    for host in range(len(shelves.room)):
        put_on_shelf(shelves, host)


@compiled
def subtract_floor(shelves: Shelves, host: int, vm: int) -> None:
    """Subtract the floor of a VM from what is free on a host that is on no shelf yet."""
    for resource in range(shelves.free.shape[1]):
        shelves.free[host, resource] -= shelves.floor[vm, resource]


@compiled
def shelf_of(shelves: Shelves, room: float) -> int:
    """Return the shelf for hosts with this room."""
    shelf = int(max(room, 0.0) * len(shelves.first))
    return min(shelf, len(shelves.first) - 1)


@compiled
def put_on_shelf(shelves: Shelves, host: int) -> None:
    """Put a host on the shelf of its room."""
    room, good = -np.inf, 0
    for resource in range(shelves.free.shape[1]):
        part = shelves.free[host, resource] / shelves.typical[resource]
        if part > room:
            room, good = part, resource
    shelves.room[host], shelves.roomiest[host] = room, good
    shelf = shelf_of(shelves, room)
    other = shelves.first[shelf, good]
    shelves.before[host] = NO_HOST
    shelves.after[host] = other
    if other != NO_HOST:
        shelves.before[other] = host
    shelves.first[shelf, good] = host
    note_free(shelves, shelf, good, host)
    row = shelf // SHELVES_PER_ROW
    for resource in range(shelves.free.shape[1]):
        most = max(shelves.most_in_row[row, good, resource], shelves.free[host, resource])
        shelves.most_in_row[row, good, resource] = most


@compiled
def note_free(shelves: Shelves, shelf: int, good: int, host: int) -> None:
    """Record what is free on a host of this shelf."""
    for resource in range(shelves.free.shape[1]):
        free = shelves.free[host, resource]
        shelves.most[shelf, good, resource] = max(shelves.most[shelf, good, resource], free)


@compiled
def take_from_shelf(shelves: Shelves, host: int) -> None:
    """Take a host from the shelf of its room."""
    before, after = shelves.before[host], shelves.after[host]
    if before == NO_HOST:
        shelves.first[shelf_of(shelves, shelves.room[host]), shelves.roomiest[host]] = after
    else:
        shelves.after[before] = after
    if after != NO_HOST:
        shelves.before[after] = before


@compiled
def change_room(shelves: Shelves, host: int, vm: int, sign: float) -> None:
    """Add the floor of a VM to the free amounts of a host, or subtract it."""
    take_from_shelf(shelves, host)
    for resource in range(shelves.free.shape[1]):
        shelves.free[host, resource] += sign * shelves.floor[vm, resource]
    put_on_shelf(shelves, host)


@compiled
def move_on_shelves(shelves: Shelves, vm: int, host: int) -> None:
    """Move a VM from any place to a host with a free slot, or off the board."""
    source = shelves.place[vm]
    if source != NO_HOST:
        change_room(shelves, source, vm, 1.0)
        begin, last = shelves.start[source], shelves.counts[source] - 1
        shift = False
        for at in range(begin, begin + last):
            shift = shift or shelves.rows[at] == vm
            if shift:
                shelves.rows[at] = shelves.rows[at + 1]
        shelves.counts[source] = last
    if host != NO_HOST:
        change_room(shelves, host, vm, -1.0)
        begin = shelves.start[host]
        at = begin + shelves.counts[host]
        while at > begin and shelves.rows[at - 1] > vm:
            shelves.rows[at] = shelves.rows[at - 1]
            at -= 1
        shelves.rows[at] = vm
        shelves.counts[host] += 1
    shelves.place[vm] = host


@compiled
def leave_all(shelves: Shelves, vms: Ints) -> None:
    """Take those of these VMs off the board that have a place."""
    for vm in vms:
        if shelves.place[vm] != NO_HOST:
            move_on_shelves(shelves, vm, NO_HOST)


@compiled
def fits_on_shelves(shelves: Shelves, vm: int, host: int) -> bool:
    """Return whether the host has capacity for the floors of its VMs and this one."""
    clear = True
    for resource in range(shelves.free.shape[1]):
        spare = shelves.free[host, resource] - shelves.floor[vm, resource]
        if spare < -_ERROR * shelves.typical[resource]:
            return False
        clear = clear and spare > _ERROR * shelves.typical[resource]
    if clear:
        return True
    begin, end = shelves.start[host], shelves.start[host] + shelves.counts[host]
    for resource in range(shelves.free.shape[1]):
        total, added = 0.0, False
        for at in range(begin, end):
            if not added and shelves.rows[at] > vm:
                total += shelves.floor[vm, resource]
                added = True
            total += shelves.floor[shelves.rows[at], resource]
        if not added:
            total += shelves.floor[vm, resource]
        if total > shelves.capacity[host, resource]:
            return False
    return True


@compiled
def may_fit(shelves: Shelves, vm: int, shelf: int, good: int) -> bool:
    """Return whether a shelf may have a host with room for the VM."""
    if shelves.first[shelf, good] == NO_HOST:
        return False
    for resource in range(shelves.free.shape[1]):
        needed = shelves.floor[vm, resource] - _ERROR * shelves.typical[resource]
        if shelves.most[shelf, good, resource] < needed:
            return False
    return True


@compiled
def may_fit_in_row(shelves: Shelves, vm: int, row: int) -> bool:
    """Return whether a row of shelves may have a host with room for the VM."""
    for good in range(shelves.first.shape[1]):
        may = True
        for resource in range(shelves.free.shape[1]):
            needed = shelves.floor[vm, resource] - _ERROR * shelves.typical[resource]
            may = may and shelves.most_in_row[row, good, resource] >= needed
        if may:
            return True
    return False


@compiled
def note_row(shelves: Shelves, row: int) -> None:
    """Record what is free on the hosts of a row, from what is recorded of its shelves."""
    shelves.most_in_row[row, :, :] = -np.inf
    begin = row * SHELVES_PER_ROW
    for shelf in range(begin, min(begin + SHELVES_PER_ROW, len(shelves.first))):
        for good in range(shelves.first.shape[1]):
            if shelves.first[shelf, good] == NO_HOST:
                continue
            for resource in range(shelves.free.shape[1]):
                most = max(
                    shelves.most_in_row[row, good, resource], shelves.most[shelf, good, resource]
                )
                shelves.most_in_row[row, good, resource] = most


@compiled
def find_fullest(shelves: Shelves, vm: int, allowed: Bools, but: int) -> int:
    """Write the allowed hosts with the least room that suffices, but one; return their number."""
    begin = shelf_of(shelves, shelves.size[vm] - _ERROR)
    for row in range(begin // SHELVES_PER_ROW, len(shelves.most_in_row)):
        if not may_fit_in_row(shelves, vm, row):
            continue
        start = row * SHELVES_PER_ROW
        for shelf in range(max(begin, start), min(start + SHELVES_PER_ROW, len(shelves.first))):
            count = find_on_shelf(shelves, vm, shelf, allowed, but)
            if count:
                return count
        note_row(shelves, row)
    return 0


@compiled
def find_on_shelf(shelves: Shelves, vm: int, shelf: int, allowed: Bools, but: int) -> int:
    """Write those of these hosts that are on a shelf; return their number."""
    count, least = 0, np.inf
    for good in range(shelves.first.shape[1]):
        if not may_fit(shelves, vm, shelf, good):
            continue
        for resource in range(shelves.free.shape[1]):
            shelves.most[shelf, good, resource] = -np.inf
        host = shelves.first[shelf, good]
        while host != NO_HOST:
            note_free(shelves, shelf, good, host)
            room = shelves.room[host]
            may = room <= least and allowed[host] and host != but
            if may and fits_on_shelves(shelves, vm, host):
                count = 0 if room < least else count
                least = room
                shelves.fullest[count] = host
                count += 1
            host = shelves.after[host]
    return count


@compiled
def sort_by_size(vms: Ints, size: Floats) -> None:
    """Sort VMs from the largest, equal ones in their order."""
    for end in range(1, len(vms)):
        vm, at = vms[end], end
        while at > 0 and size[vms[at - 1]] < size[vm]:
            vms[at] = vms[at - 1]
            at -= 1
        vms[at] = vm


@compiled
def take_all(
    shelves: Shelves, vms: Ints, begin: int, allowed: Bools, requirement: Ints
) -> tuple[int, int]:
    """Place these VMs, from the `begin`-th on, each on the fullest host; the first of equals.

    `allowed` is [classes, hosts], and the last class is for VMs without a requirement. Return the
    number of VMs that are placed, with NO_HOST if the next one fits nowhere, or with its host if
    this has no free slot.
    """
    for at in range(begin, len(vms)):
        vm = vms[at]
        count = find_fullest(shelves, vm, allowed[requirement[vm]], NO_HOST)
        if count == 0:
            return at, NO_HOST
        host = shelves.fullest[0]
        for other in range(1, count):
            host = min(host, shelves.fullest[other])
        if shelves.counts[host] == shelves.slots[host]:
            return at, host
        move_on_shelves(shelves, vm, host)
    return len(vms), NO_HOST


@compiled
def keep_all(shelves: Shelves, vms: Ints, hosts: Ints, begin: int) -> tuple[int, int]:
    """Place these VMs, from the `begin`-th on, on their hosts; return as `take_all` does."""
    for at in range(begin, len(vms)):
        vm, host = vms[at], hosts[at]
        for resource in range(shelves.free.shape[1]):
            if shelves.free[host, resource] < shelves.floor[vm, resource] * NEARLY:
                return at, NO_HOST
        if shelves.counts[host] == shelves.slots[host]:
            return at, host
        move_on_shelves(shelves, vm, host)
    return len(vms), NO_HOST
