"""The state of a fleet's VMs: which are running, being created, refused or gone."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeVar
from uuid import UUID

import numpy as np
import sqlalchemy as sa

from merkatd.cluster import Create, Step, Terminate, VmState
from merkatd.database.fleets import fleet_store
from merkatd.database.fleets.fleet_store import Refusals
from merkatd.database.fleets.member_table import FleetMember
from merkatd.database.scheduler import journal
from merkatd.scheduler.observation.observed import Observed

Member = TypeVar("Member", bound=FleetMember)
MOST_REFUSALS = 3
"""The number of refusals after which the creation of a VM is given up."""
_NEARLY = 0.1
"""A tolerance in intervals: real intervals differ."""


_NONE = Refusals()


@dataclass(frozen=True, slots=True)
class FleetView:
    """The VMs of all fleets in a period."""

    period: int
    at_s: float
    """The time of the observation."""
    interval_s: float
    states: Mapping[int, VmState]
    """States by VM id; VMs with a step in progress are BUSY."""
    ailing: AbstractSet[int] = frozenset()
    """VMs that exist but can't be read."""
    creating: AbstractSet[str] = frozenset()
    """Keys of the VMs that are being created."""
    refused: Mapping[str, Refusals] = field(default_factory=dict)
    """The refusals of VMs that are not created yet, by key."""
    deaf: AbstractSet[int] = frozenset()
    """VMs whose guests don't shut down, however often they are asked to."""
    given_away: AbstractSet[int] = frozenset()
    """VMs that an administrator gave to another user. They leave their fleet: its owner must not
    end them, nor bid for them, because another user pays."""

    def state_of(self, member: FleetMember) -> VmState | None:
        """Return the state of a member's VM, None if there is none."""
        return None if member.vm is None else self.states.get(member.vm)

    def is_gone(self, member: FleetMember) -> bool:
        """Return whether the VM has ended or left, or was to end before it was created."""
        if member.vm is None:
            return member.leaving and member.key not in self.creating
        if member.vm in self.given_away:
            return True
        return member.vm not in self.states and member.vm not in self.ailing

    def refused_to(self, member: FleetMember) -> Refusals:
        """Return the refusals to create a VM; none if it exists or its creation is in progress."""
        waits = member.vm is None and member.key not in self.creating
        return self.refused.get(member.key, _NONE) if waits else _NONE

    def rest(self, refused: Refusals) -> int:  # noqa: ARG002 - others wait longer each time
        """Return the number of intervals between a refused creation and the next attempt."""
        return 1

    def retry_s(self, member: FleetMember) -> float | None:
        """Return the time of the next attempt to create a VM; None if none was refused."""
        refused = self.refused_to(member)
        if not refused.times:
            return None
        return refused.at_s + (self.rest(refused) - _NEARLY) * self.interval_s

    def rests(self, member: FleetMember) -> bool:
        """Return whether the next attempt to create a VM must wait.

        A refusal in the future, from a wrong clock, delays no attempt.
        """
        retry_s = self.retry_s(member)
        refused_s = self.refused_to(member).at_s
        return retry_s is not None and refused_s <= self.at_s < retry_s

    def end_step(self, member: FleetMember, reason: str) -> Step | None:
        """Return the step that ends a member's VM, None while that is impossible.

        VMs that are held, stopped, undeployed or failed end too: nothing else would end them.
        """
        if member.vm is None or self.state_of(member) in {None, VmState.BUSY}:
            return None
        return Terminate(
            period=self.period, vm=member.vm, reason=reason, hard=member.vm in self.deaf
        )


def read_fleet_view(
    connection: sa.Connection,
    observed: Observed,
    members: Sequence[Member],
    owner_of: Callable[[Member], int],
    interval_s: float,
) -> FleetView:
    """Return the view of these members, which are not gone.

    `owner_of` returns the user for whom the daemon created a member's VM.
    """
    observation, snapshot = observed.observation, observed.snapshot
    # If OpenNebula deploys VMs, the snapshot hides VMs that are not yet due: the observation shows
    # their states.
    busy = snapshot.vms.state == int(VmState.BUSY)
    state = np.where(busy, int(VmState.BUSY), observation.vm_state)
    states = zip(observation.vm_id.tolist(), state.tolist(), strict=True)
    creating = {
        stored.step.key
        for stored in journal.outstanding(connection)
        if isinstance(stored.step, Create)
    }
    leaving = [member.vm for member in members if member.leaving and member.vm is not None]
    owners = dict(zip(observation.vm_id.tolist(), observation.vm_owner.tolist(), strict=True))
    return FleetView(
        period=observed.period,
        at_s=observation.at_s,
        interval_s=interval_s,
        states={vm: VmState(state) for vm, state in states},
        ailing=observation.ailing.keys(),
        creating=creating,
        refused=fleet_store.refusals(
            connection, [member.key for member in members if member.vm is None]
        ),
        deaf=journal.unresponsive_vms(connection, leaving),
        given_away=frozenset(
            member.vm
            for member in members
            if member.vm is not None and owners.get(member.vm, owner_of(member)) != owner_of(member)
        ),
    )


def creation_key(token: str, entropy: bytes) -> str:
    """Return a member's key; it can't be guessed without knowing the entropy."""
    return str(UUID(bytes=blake2b(token.encode(), key=entropy, digest_size=16).digest(), version=4))
