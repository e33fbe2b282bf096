"""The VMs of a group to create and to end in a period."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from uuid import UUID

from merkatd.cluster import Create, Step, Terminate, VmState
from merkatd.database.fleets.group_store import GroupRow
from merkatd.database.fleets.group_vm_store import GroupMember
from merkatd.fleets.fleet import FleetView
from merkatd.fleets.vm_template_text import has_name, with_attributes


@dataclass(frozen=True, slots=True)
class Losses:
    """The VMs of a group that are gone."""

    keys: tuple[str, ...]
    unasked: int
    """The number of VMs that ended unrequested: the group is reduced by that number."""
    why: str
    """The fate of the VMs that ended unrequested."""


def losses(members: Sequence[GroupMember], sight: FleetView) -> Losses:
    """Return the members that are gone."""
    gone = [one for one in members if sight.is_gone(one)]
    unasked = [one for one in gone if not one.leaving]
    said = [
        f"VM {one.number} could not be made: {sight.why_never(one)}"
        if one.vm is None
        else f"VM {one.vm} ended by itself or was ended outside the group"
        for one in unasked
    ]
    return Losses(tuple(one.create_key for one in gone), len(unasked), "; ".join(said[-3:]))


@dataclass(frozen=True, slots=True)
class GroupFleetChange:
    """The changes to a group's VMs in a period."""

    add: tuple[GroupMember, ...]
    """New members."""
    leave: tuple[str, ...]
    """Keys of the members that leave the group from now on."""
    steps: tuple[Step, ...]
    """Steps that create and end VMs."""


def group_change(
    group: GroupRow,
    members: Sequence[GroupMember],
    sight: FleetView,
    *,
    new: Callable[[int], GroupMember],
    make: Callable[[GroupMember], Create],
    room: int,
) -> GroupFleetChange:
    """Return the changes that bring a group to its number of VMs; the newest VMs end first.

    `members` are the VMs that are not gone. `new(k)` returns the k-th additional member, and
    `make(member)` the step that creates its VM. There are at most `room` such steps.
    """
    kept = [one for one in members if not one.leaving]
    wanted = 0 if group.ending else group.nvm
    leave = kept[wanted:]
    unmade = [
        one for one in kept[:wanted] if one.vm is None and one.create_key not in sight.creating
    ]
    further = max(min(wanted - len(kept), room - len(unmade)), 0)
    add = tuple(new(at) for at in range(1, further + 1))
    going = [*(one for one in members if one.leaving), *leave]
    steps: list[Step] = [
        _end(one.vm, sight, _why_ended(group))
        for one in going
        if one.vm is not None and _can_end(sight.states.get(one.vm))
    ]
    steps += [make(one) for one in (*unmade, *add)[: max(room, 0)]]
    return GroupFleetChange(add, tuple(one.create_key for one in leave), tuple(steps))


def _end(vm: int, sight: FleetView, reason: str) -> Step:
    return Terminate(period=sight.period, vm=vm, reason=reason, hard=vm in sight.deaf)


def _can_end(state: VmState | None) -> bool:
    # Includes VMs that are held, stopped, undeployed or failed: nothing else would ever end them.
    return state not in {None, VmState.BUSY}


def _why_ended(group: GroupRow) -> str:
    if group.ending:
        return f"group {group.id} ({group.name}) was deleted"
    return f"group {group.id} ({group.name}) is set to {group.nvm} VMs"


GROUP = "MERKAT_GROUP"


def group_member_factory(
    group: GroupRow, highest: int, entropy: bytes
) -> Callable[[int], GroupMember]:
    """Return a function that makes the k-th additional member of a group, k from 1 on.

    Keys can't be guessed without knowing `entropy`. `highest` is the highest number in use.
    """

    def new(at: int) -> GroupMember:
        number = highest + at
        said = f"group {group.id}/{number}".encode()
        key = UUID(bytes=blake2b(said, key=entropy, digest_size=16).digest(), version=4)
        return GroupMember(create_key=str(key), vm_group=group.id, owner=group.owner, number=number)

    return new


def group_create_step(group: GroupRow, one: GroupMember, period: int) -> Create:
    """Return the step that creates a member's VM, in its group's market."""
    said = {GROUP: str(group.id), "MERKAT_MARKET": group.market}
    if not has_name(group.template):
        said["NAME"] = f"{group.name}-{one.number}"
    return Create(
        period=period,
        key=one.create_key,
        template=with_attributes(group.template, said),
        owner=one.owner,
        reason=f"group {group.id} ({group.name}) is set to {group.nvm} VMs",
    )
