"""The VMs of one group: which are to be made and which ended now, to be as many as asked for."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from merkatd.cluster import Create, Step, Terminate, VmState
from merkatd.database.fleets.fleet_store import Refusals
from merkatd.database.fleets.group_store import Group
from merkatd.database.fleets.group_vm_store import GroupVm

MOST_REFUSALS = 3
"""After so many refusals a VM is not asked for again."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What the period saw."""

    period: int
    states: Mapping[int, VmState]
    """By VM id; VMs with a step under way are BUSY."""
    ailing: AbstractSet[int]
    """VMs that are there, but can't be read."""
    creating: AbstractSet[str]
    """Keys of the VMs whose creation is under way."""
    refused: Mapping[str, Refusals]
    """By key: how often a creation was refused, and with what answer."""
    deaf: AbstractSet[int] = frozenset()
    """VMs whose guests go on, however often they are asked to end."""

    def is_gone(self, one: GroupVm) -> bool:
        """Whether it is over, or was given up before it was made."""
        if one.vm is None:
            return one.create_key not in self.creating and (
                one.leaving or self.why_never(one) is not None
            )
        return one.vm not in self.states and one.vm not in self.ailing

    def why_never(self, one: GroupVm) -> str | None:
        """Why OpenNebula will not make it; None where it may yet."""
        refused = self.refused.get(one.create_key, Refusals())
        return refused.why if one.vm is None and refused.times >= MOST_REFUSALS else None


@dataclass(frozen=True, slots=True)
class Losses:
    """VMs that are gone."""

    keys: tuple[str, ...]
    unasked: int
    """How many of them nobody asked to end: so many fewer the group has from now on."""
    why: str
    """What became of them, where it was not asked for."""


def losses(members: Sequence[GroupVm], sight: Sight) -> Losses:
    """Those that are gone."""
    gone = [one for one in members if sight.is_gone(one)]
    unasked = [one for one in gone if not one.leaving]
    said = [
        f"VM {one.number} could not be made: {sight.why_never(one)}"
        if one.vm is None
        else f"VM {one.vm} ended by itself, or by somebody's hand"
        for one in unasked
    ]
    return Losses(tuple(one.create_key for one in gone), len(unasked), "; ".join(said[-3:]))


@dataclass(frozen=True, slots=True)
class Orders:
    """What is to be done with a group's VMs."""

    add: tuple[GroupVm, ...]
    leave: tuple[str, ...]
    steps: tuple[Step, ...]


def orders(
    group: Group,
    members: Sequence[GroupVm],
    sight: Sight,
    *,
    new: Callable[[int], GroupVm],
    make: Callable[[GroupVm], Create],
    room: int,
) -> Orders:
    """Start or end exactly the difference, the newest first.

    `members` are those that are not gone; `new` gives the so-many-eth further VM, `make` the step
    that creates one, of which there are at most as many as there is `room`.
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
    return Orders(add, tuple(one.create_key for one in leave), tuple(steps))


def _end(vm: int, sight: Sight, reason: str) -> Step:
    return Terminate(period=sight.period, vm=vm, reason=reason, hard=vm in sight.deaf)


def _can_end(state: VmState | None) -> bool:
    # Also what is held, stopped, undeployed or failed: nothing else would ever end it.
    return state not in {None, VmState.BUSY}


def _why_ended(group: Group) -> str:
    if group.ending:
        return f"group {group.id} ({group.name}) was deleted"
    return f"group {group.id} ({group.name}) is to have {group.nvm} VMs"
