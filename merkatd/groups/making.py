"""The VMs that a group has made: their keys and their templates."""

from collections.abc import Callable
from hashlib import blake2b
from uuid import UUID

from merkatd.cluster import Create
from merkatd.database.fleets.group_store import Group
from merkatd.database.fleets.group_vm_store import GroupVm
from merkatd.platforms.vm_text import named, with_attributes

GROUP = "MERKAT_GROUP"


def numbered(group: Group, highest: int, entropy: bytes) -> Callable[[int], GroupVm]:
    """Gives further VMs of a group: the so-many-eth of now.

    Nobody can guess a key who does not know the entropy.
    """

    def new(at: int) -> GroupVm:
        number = highest + at
        said = f"group {group.id}/{number}".encode()
        key = UUID(bytes=blake2b(said, key=entropy, digest_size=16).digest(), version=4)
        return GroupVm(create_key=str(key), vm_group=group.id, owner=group.owner, number=number)

    return new


def created(group: Group, one: GroupVm, period: int) -> Create:
    """The step that makes a VM, in its group's market."""
    said = {GROUP: str(group.id), "MERKAT_MARKET": group.market}
    if not named(group.template):
        said["NAME"] = f"{group.name}-{one.number}"
    return Create(
        period=period,
        key=one.create_key,
        template=with_attributes(group.template, said),
        owner=one.owner,
        reason=f"group {group.id} ({group.name}) is to have {group.nvm} VMs",
    )
