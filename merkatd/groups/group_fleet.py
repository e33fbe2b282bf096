"""The VMs of a group to create and to end in a period."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from merkatd.cluster import Create, Step
from merkatd.database.fleets.fleet_store import Refusals
from merkatd.database.fleets.group_store import GroupRow
from merkatd.database.fleets.group_vm_store import GroupMember
from merkatd.fleets.fleet import MOST_REFUSALS, FleetView, creation_key
from merkatd.fleets.vm_template_text import has_name, with_attributes


@dataclass(frozen=True, slots=True)
class Losses:
    """The VMs of a group that are gone."""

    keys: tuple[str, ...]
    unasked: int
    """The number of VMs that ended or left unrequested: the group is reduced by that number."""
    why: str
    """The fate of the VMs that ended or left unrequested."""


def losses(members: Sequence[GroupMember], sight: FleetView, owner: int) -> Losses:
    """Return the members that are gone.

    VMs that do not exist yet are made anew for the present `owner` of the group.
    """
    former = [member for member in members if member.owner != owner and _is_unmade(member, sight)]
    gone = [
        member
        for member in members
        if sight.is_gone(member) or _why_never(member, sight) is not None
    ]
    unasked = [member for member in gone if not member.leaving and member not in former]
    gone += [member for member in former if member not in gone]
    said = [_why_lost(member, sight) for member in unasked]
    return Losses(tuple(member.key for member in gone), len(unasked), "; ".join(said[-3:]))


def _why_lost(member: GroupMember, sight: FleetView) -> str:
    if member.vm is None:
        return f"VM {member.number} could not be made: {_why_never(member, sight)}"
    if member.vm in sight.given_away:
        return f"VM {member.vm} was given to another user"
    return f"VM {member.vm} ended by itself or was ended outside the group"


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
    kept = [member for member in members if not member.leaving]
    wanted = 0 if group.ending else group.nvm
    leave = kept[wanted:]
    unmade = [member for member in kept[:wanted] if _is_unmade(member, sight)]
    further = max(min(wanted - len(kept), room - len(unmade)), 0)
    add = tuple(new(at) for at in range(1, further + 1))
    going = [*(member for member in members if member.leaving), *leave]
    reason = _why_ended(group)
    ends = (sight.end_step(member, reason) for member in going)
    steps: list[Step] = [step for step in ends if step is not None]
    to_make = [member for member in (*unmade, *add) if not sight.rests(member)]
    steps += [make(member) for member in to_make[: max(room, 0)]]
    return GroupFleetChange(add, tuple(member.key for member in leave), tuple(steps))


def _is_unmade(member: GroupMember, sight: FleetView) -> bool:
    return member.vm is None and member.key not in sight.creating


def _why_never(member: GroupMember, sight: FleetView) -> str | None:
    """Return why the VM's creation was given up, None if it was not."""
    if not _is_unmade(member, sight):
        return None
    refused = sight.refused.get(member.key, Refusals())
    return refused.why if refused.times >= MOST_REFUSALS else None


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
        key = creation_key(f"group {group.id}/{number}", entropy)
        return GroupMember(key=key, vm_group=group.id, owner=group.owner, number=number)

    return new


def group_create_step(group: GroupRow, member: GroupMember, period: int) -> Create:
    """Return the step that creates a member's VM, in its group's market."""
    said = {GROUP: str(group.id), "MERKAT_MARKET": group.market}
    if not has_name(group.template):
        said["NAME"] = f"{group.name}-{member.number}"
    return Create(
        period=period,
        key=member.key,
        template=with_attributes(group.template, said),
        owner=member.owner,
        reason=f"group {group.id} ({group.name}) is set to {group.nvm} VMs",
    )
