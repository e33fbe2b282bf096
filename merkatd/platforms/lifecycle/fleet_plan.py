"""The plan for one platform's VMs: creations, ends, suspensions and resumptions."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice

from merkatd.cluster import BIDDING, Create, Resume, Step, Stop, Suspend, VmState
from merkatd.database.fleets.fleet_store import PlatformMember, Refusals
from merkatd.fleets.fleet import MOST_REFUSALS, FleetView
from merkatd.platforms.rules.lifecycle_events import ENDS, UP_OR_COMING, FleetCounts, PlatformState

LONGEST_REST_S = 600.0
"""The longest wait between two attempts to create a VM."""


@dataclass(frozen=True, slots=True)
class PlatformFleetView(FleetView):
    """The period's view of a platform's VMs."""

    failed: Mapping[int, str] = field(default_factory=dict)
    """OpenNebula's state names of VMs that have failed or are on hold, by id."""
    stopped: AbstractSet[int] = frozenset()
    """Ids of VMs that are off and no longer have a host."""
    saved: AbstractSet[int] = frozenset()
    """Ids of VMs of limit orders that the scheduler has saved, or is saving."""

    def rest(self, refused: Refusals) -> int:
        """Return the number of intervals before the next attempt: 1, then 2, 4, ..."""
        longest = max(int(LONGEST_REST_S // self.interval_s), 1)
        return min(1 << min(refused.times - 1, 16), longest)


@dataclass(frozen=True, slots=True)
class FleetChange:
    """The changes of a platform's VMs: new members, keys of leaving members, and steps."""

    add: tuple[PlatformMember, ...] = ()
    leave: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()


def lost_members(members: Sequence[PlatformMember], sight: PlatformFleetView) -> tuple[str, ...]:
    """Return the keys of members that are gone, or were given up before their creation."""
    return tuple(member.key for member in members if sight.is_gone(member))


def counts(members: Sequence[PlatformMember], sight: PlatformFleetView) -> FleetCounts:
    """Count the members by state; lost members must be left out before."""
    kept = [member for member in members if not member.leaving]
    running = [member for member in kept if sight.state_of(member) is VmState.RUNNING]
    active = [member for member in members if _is_active(member, sight)]
    # A quota counts VMs until their end: refusals of other VMs don't count meanwhile.
    ends = {member.cluster for member in members if member.leaving and member.vm is not None}
    refused = [sight.refused_to(member) for member in kept if member.cluster not in ends]
    return FleetCounts(
        running=Counter(member.cluster for member in running),
        kept=Counter(member.cluster for member in kept),
        active=len(active),
        left=len(members),
        pending=sum(sight.state_of(member) is VmState.PENDING for member in active),
        trouble=next((refusals.why for refusals in refused if refusals.times >= MOST_REFUSALS), ""),
    )


def fleet_change(
    state: PlatformState,
    sizes: Mapping[str, int],
    members: Sequence[PlatformMember],
    sight: PlatformFleetView,
    *,
    new: Callable[[str, int], PlatformMember],
    make: Callable[[PlatformMember], Create],
    may_resume: bool,
    room: int,
    replaced: AbstractSet[str] = frozenset(),
    ordered: bool = False,
) -> FleetChange:
    """Return the changes that bring the VMs to the platform's state and sizes.

    `new` returns a further member of a cluster, `make` the step that creates its VM. At most
    `room` VMs are created. `replaced` are the keys of failed VMs that are replaced. `ordered` VMs
    run in a limit order: it starts them, also from their saved state. If their platform is
    suspended, pending ones stay, as they may have run before, and running ones leave their hosts.
    """
    kept = [member for member in members if not member.leaving and member.key not in replaced]
    add: list[PlatformMember] = []
    if state is PlatformState.STOPPING or state in ENDS:
        leaving = kept
    elif state in UP_OR_COMING:
        leaving = _too_many(kept, sizes)
        excess = {member.key for member in leaving}
        unmade = sum(_is_to_make(member, sight) for member in kept if member.key not in excess)
        add = _too_few(kept, sizes, new, room - unmade)
    else:
        leaving = [
            member
            for member in kept
            if member.vm is None or (not ordered and sight.state_of(member) is VmState.PENDING)
        ]
    going = (
        {member.key for member in leaving}
        | {member.key for member in members if member.leaving}
        | replaced
    )
    staying = [member for member in (*kept, *add) if member.key not in going]
    steps: list[Step | None] = [
        _end(member, sight, state) for member in members if member.key in going
    ]
    if state in UP_OR_COMING:
        to_make = (member for member in staying if _is_to_make(member, sight))
        steps += [make(member) for member in islice(to_make, max(room, 0))]
        kept_saved = sight.saved if ordered else frozenset()
        steps += [
            _resume(member, sight)
            for member in staying
            if may_resume and member.vm not in kept_saved
        ]
    else:
        steps += [_take_down(member, sight, ordered=ordered) for member in staying]
    return FleetChange(
        add=tuple(add),
        leave=tuple(member.key for member in leaving),
        steps=tuple(step for step in steps if step is not None),
    )


def ending(
    state: PlatformState, members: Sequence[PlatformMember], sight: PlatformFleetView
) -> FleetChange:
    """Return the changes that end all VMs of a platform."""
    return FleetChange(
        leave=tuple(member.key for member in members if not member.leaving),
        steps=tuple(step for member in members if (step := _end(member, sight, state)) is not None),
    )


def _too_many(kept: Sequence[PlatformMember], sizes: Mapping[str, int]) -> list[PlatformMember]:
    """Return the newest members of each cluster beyond its size."""
    surplus = []
    for cluster, number in Counter(member.cluster for member in kept).items():
        excess = number - sizes.get(cluster, 0)
        if excess > 0:
            surplus += [member for member in kept if member.cluster == cluster][-excess:]
    return surplus


def _too_few(
    kept: Sequence[PlatformMember],
    sizes: Mapping[str, int],
    new: Callable[[str, int], PlatformMember],
    most: int,
) -> list[PlatformMember]:
    """Return new members for clusters below their size, at most `most`."""
    have = Counter(member.cluster for member in kept)
    missing = (
        cluster for cluster, size in sizes.items() for _ in range(max(0, size - have[cluster]))
    )
    return [new(cluster, at) for at, cluster in enumerate(islice(missing, max(most, 0)), start=1)]


def _is_to_make(member: PlatformMember, sight: PlatformFleetView) -> bool:
    return member.vm is None and member.key not in sight.creating and not sight.rests(member)


def _resume(member: PlatformMember, sight: PlatformFleetView) -> Step | None:
    if member.vm is None:
        return None
    if sight.state_of(member) is not VmState.SUSPENDED and member.vm not in sight.stopped:
        return None
    return Resume(period=sight.period, vm=member.vm, reason="its platform goes on")


def _take_down(member: PlatformMember, sight: PlatformFleetView, *, ordered: bool) -> Step | None:
    if member.vm is None or sight.state_of(member) is not VmState.RUNNING:
        return None
    kind = Stop if ordered else Suspend
    return kind(period=sight.period, vm=member.vm, reason="its platform is suspended")


def _end(member: PlatformMember, sight: PlatformFleetView, state: PlatformState) -> Step | None:
    ends = state is PlatformState.STOPPING or state in ENDS
    reason = "its platform ends" if ends else "its platform no longer needs it"
    return sight.end_step(member, reason)


def _is_active(member: PlatformMember, sight: PlatformFleetView) -> bool:
    if member.vm is None:
        return member.key in sight.creating
    state = sight.state_of(member)
    return state is None or state in BIDDING
