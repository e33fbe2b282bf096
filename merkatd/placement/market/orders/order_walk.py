"""The walk from the highest limit order to the lowest, as machine code.

# Note [Steps of the walk]

`OrderPlaces` gives orders their hosts by rules with many cases, but most orders are plain: the
requirement of each VM alone decides on its hosts, and none is held. For plain orders the machine
code here does what `OrderPlaces.take` does, without a call from Python for each order. It stops
where it needs more: `OrderPlaces.walk` does that part, and the walk goes on from there.

- `walk_calm` needs no boards. It ends at the first order that may lack room on its hosts.
- `walk_on` places the VMs of all further orders. `KEEP`, `START`, `ENTER` and `MOVE` are the
  parts of a look at one order. If a host has no free slot, the part continues after it got some.

Example: 300 orders run where they are, and 70 below lack room. `walk_calm` passes them all, and no
board is made. If the first order's VMs wait, `walk_on` passes it and all others.
"""

from typing import NamedTuple

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import NO_HOST
from merkatd.market.limit_orders import Walk
from merkatd.placement.base.compiled import compiled
from merkatd.placement.base.host_shelves import (
    ATTEMPTS,
    Shelves,
    keep_all,
    leave_all,
    sort_by_size,
    take_all,
)

DONE = 0
"""All orders have been looked at."""
BOARDS = 1
"""The order needs boards."""
EXISTS = 2
"""The order lacks room or hosts: are there any without the other orders?"""
WHOLE = 3
"""The order is not plain: `OrderPlaces` takes its places."""
START_LATER = 4
"""The waiting VMs have no hosts now: `OrderPlaces` looks for later ones."""
WIDEN_THEN = 5
WIDEN_NOW = 6
"""A host needs more slots, on the board of later or on the board of now."""

LOOK, KEEP, START, ENTER, MOVE = 0, 1, 2, 3, 4
"""The parts of a look at an order."""
AT, PART, NEXT, HOST, TRIED, LEFT = 0, 1, 2, 3, 4, 5
"""The entries of `state`: the place in the walk, the part, the next VM in it, the host without a
free slot, the failed attempts to place the order's VMs, and the number of VMs in `leaving`."""


class OrderWalk(NamedTuple):
    """The orders of a walk, and what it has found out so far."""

    ranked: Ints
    """[ranked orders]: the orders from the highest."""
    bundle: Floats
    room: Floats
    """[ranked orders, resources] each: what the order needs, and what bids leave at its height."""
    runs: Bools
    placeless: Bools
    exist: Bools
    """[ranked orders] each."""
    before: Floats
    """[ranked orders + 1, resources]: what the orders above use of each good."""
    lacking: Ints
    """[resources]: the place of the first order that lacks room; the number of orders if none."""
    calm: Bools
    surely: Bools
    plain: Bools
    movable: Bools
    postponed: Bools
    later: Bools
    seen: Bools
    takes_part: Bools
    """[orders] each, as in `OrderPlaces`; `movable`: whether all of its running VMs are."""
    by_part: Ints
    """[VMs in orders]: the running VMs of the first order, its waiting VMs, and so on."""
    hosts: Ints
    """[VMs in orders]: the host of each of these."""
    ends: Ints
    """[2 x orders + 1]: where these parts begin."""
    classes: Bools
    requirement: Ints
    """These two as in `HardConstraints`."""
    state: Ints
    leaving: Ints
    vms: Ints
    to: Ints
    """[VMs in orders] each: VMs that must move, and space for the VMs of one order."""


@compiled
def lacks_room(walk: OrderWalk, place: int) -> bool:
    """Return whether the market lacks room for the order at this place."""
    needs, lacks = False, False
    for good in range(walk.bundle.shape[1]):
        units = walk.bundle[place, good]
        needs = needs or units != 0.0
        lacks = lacks or walk.before[place, good] + units > walk.room[place, good]
    return needs and lacks


@compiled
def note_look(walk: OrderWalk, lacks: bool, has_places: bool, exists: bool) -> None:
    """Record the result of a look at an order, and go to the next one."""
    place = walk.state[AT]
    placed = has_places and not lacks
    walk.runs[place], walk.placeless[place], walk.exist[place] = placed, not has_places, exists
    for good in range(walk.bundle.shape[1]):
        used, units = walk.before[place, good], walk.bundle[place, good]
        walk.before[place + 1, good] = used + units if placed else used
        if lacks and has_places and used + units > walk.room[place, good]:
            walk.lacking[good] = min(walk.lacking[good], place)
    walk.state[AT], walk.state[PART], walk.state[NEXT] = place + 1, LOOK, 0


@compiled
def walk_calm(walk: OrderWalk) -> int:
    """Look at orders as long as they keep their hosts or lack room; return why the walk stops."""
    while walk.state[AT] < len(walk.ranked):
        place = walk.state[AT]
        order = walk.ranked[place]
        lacks = lacks_room(walk, place)
        if lacks and not walk.surely[order]:
            return EXISTS
        if not lacks and not walk.calm[order]:
            return BOARDS
        walk.seen[order] = True
        if not lacks:
            walk.takes_part[order] = True
        note_look(walk, lacks, True, True)
    return DONE


@compiled
def walk_on(walk: OrderWalk, then: Shelves, now: Shelves) -> int:
    """Look at orders and place their VMs on both boards; return why the walk stops."""
    while walk.state[AT] < len(walk.ranked):
        place = walk.state[AT]
        order = walk.ranked[place]
        if walk.state[PART] == LOOK:
            lacks = lacks_room(walk, place)
            if lacks and not walk.surely[order]:
                return EXISTS
            if lacks:
                walk.seen[order] = True
                note_look(walk, True, True, True)
                continue
            if not walk.plain[order]:
                return WHOLE
            walk.seen[order] = True
            walk.state[PART] = KEEP
        first, waits, end = walk.ends[2 * order], walk.ends[2 * order + 1], walk.ends[2 * order + 2]
        answer = take_places(walk, then, now, order, first, waits, end)
        if answer > DONE:
            return answer
        walk.takes_part[order] = answer == DONE
        if answer != DONE and not walk.surely[order]:
            return EXISTS
        note_look(walk, False, answer == DONE, True)
    return DONE


@compiled
def take_places(
    walk: OrderWalk, then: Shelves, now: Shelves, order: int, first: int, waits: int, end: int
) -> int:
    """Take hosts for a plain order; return DONE, -1 if there are none, or why the walk stops.

    Its VMs in `by_part` run from `first` to `waits`, and wait from there to `end`.
    """
    state, there, waiting = walk.state, walk.by_part[first:waits], walk.by_part[waits:end]
    if state[PART] == KEEP:
        at, full = keep_all(then, there, walk.hosts[first:waits], state[NEXT])
        if full != NO_HOST:
            state[NEXT], state[HOST] = at, full
            return WIDEN_THEN
        if at == len(there):
            if len(waiting) == 0:
                return DONE
            merge(walk.vms, there[:0], waiting)
            sort_by_size(walk.vms[: len(waiting)], now.size)
            state[PART], state[NEXT], state[TRIED] = START, 0, 0
        else:
            leave_all(then, there)
            if not walk.movable[order]:
                return -1
            merge(walk.vms, there, waiting)
            sort_by_size(walk.vms[: end - first], then.size)
            state[PART], state[NEXT], state[TRIED] = MOVE, 0, 0
    if state[PART] == MOVE:
        return move_whole(walk, then, order, first, waits, end)
    return start_beside(walk, then, now, order, waiting)


@compiled
def take_in_attempts(walk: OrderWalk, shelves: Shelves, vms: Ints) -> tuple[bool, int]:
    """Place these VMs as `GangBoard.take` does, from the attempt and the VM in `state` on.

    Return whether all are placed, and NO_HOST, or the host that has no free slot for the next VM.
    """
    state = walk.state
    while True:
        at, full = take_all(shelves, vms, state[NEXT], walk.classes, walk.requirement)
        if full != NO_HOST:
            state[NEXT] = at
            return False, full
        if at == len(vms):
            return True, NO_HOST
        leave_all(shelves, vms)
        state[TRIED] += 1
        if at == 0 or state[TRIED] >= ATTEMPTS:
            return False, NO_HOST
        if state[TRIED] == 1 and are_alike(walk.requirement, vms):
            return False, NO_HOST
        vm = vms[at]
        for behind in range(at, 0, -1):
            vms[behind] = vms[behind - 1]
        vms[0], state[NEXT] = vm, 0


@compiled
def are_alike(requirement: Ints, vms: Ints) -> bool:
    """Return whether all of these VMs have the same requirement."""
    differ = False
    for vm in vms:
        differ = differ or requirement[vm] != requirement[vms[0]]
    return not differ


@compiled
def merge(into: Ints, there: Ints, waiting: Ints) -> None:
    """Write the VMs of both lists, which ascend, in ascending order."""
    left, right = 0, 0
    for at in range(len(there) + len(waiting)):
        if right == len(waiting) or (left < len(there) and there[left] < waiting[right]):
            into[at] = there[left]
            left += 1
        else:
            into[at] = waiting[right]
            right += 1


@compiled
def start_beside(walk: OrderWalk, then: Shelves, now: Shelves, order: int, waiting: Ints) -> int:
    """Take hosts for waiting VMs where there is room now and later; return as `take_places`."""
    state, count = walk.state, len(waiting)
    if state[PART] == START:
        placed, full = take_in_attempts(walk, now, walk.vms[:count])
        if full != NO_HOST:
            state[HOST] = full
            return WIDEN_NOW
        if not placed:
            return START_LATER
        for each in range(count):
            walk.to[each] = now.place[waiting[each]]
        state[PART], state[NEXT] = ENTER, 0
    at, full = keep_all(then, waiting, walk.to[:count], state[NEXT])
    if full != NO_HOST:
        state[NEXT], state[HOST] = at, full
        return WIDEN_THEN
    if at < count:
        leave_all(then, waiting)
        leave_all(now, waiting)
        return START_LATER
    walk.later[order] = walk.postponed[order]
    return DONE


@compiled
def move_whole(walk: OrderWalk, then: Shelves, order: int, first: int, waits: int, end: int) -> int:
    """Take any hosts for all VMs of an order; return as `take_places` does."""
    state, vms = walk.state, walk.vms[: end - first]
    placed, full = take_in_attempts(walk, then, vms)
    if full != NO_HOST:
        state[HOST] = full
        return WIDEN_THEN
    if not placed:
        return -1
    for each in range(first, waits):
        if then.place[walk.by_part[each]] != walk.hosts[each]:
            walk.leaving[state[LEFT]] = walk.by_part[each]
            state[LEFT] += 1
    walk.later[order] = end > waits
    return DONE


def take_over(walk: OrderWalk, place: int, before: Walk | None) -> None:
    """Begin the walk at this place, with the results of another walk for all orders above."""
    if before is None:
        return
    for of, then in zip((walk.runs, walk.placeless, walk.exist), before[:3], strict=True):
        of[:place] = then[:place]
    walk.before[: place + 1] = before.before[: place + 1]
    walk.lacking[:] = np.where(before.lacking < place, before.lacking, len(walk.ranked))
    walk.state[AT] = place
