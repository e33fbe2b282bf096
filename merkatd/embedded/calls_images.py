"""The calls about images and the datastores that hold them."""

from __future__ import annotations

from merkatd.embedded.access import Kind, Right, Target
from merkatd.embedded.call import (
    ACTION,
    ALLOCATE,
    INTERNAL,
    Call,
    Refusal,
    check_name,
    datastore_target,
    group_target,
    image_target,
    method,
    user_target,
)
from merkatd.embedded.calls_pools import owned, paged
from merkatd.embedded.calls_vm_edit import merged
from merkatd.embedded.images import users_of
from merkatd.embedded.records import Datastore, Image
from merkatd.embedded.render_rest import image_xml
from merkatd.embedded.template import number

_IMAGES = 0
_TYPES = {"": 2, "OS": 0, "CDROM": 1, "DATABLOCK": 2}
_TRANSFER = {
    "ceph": ("SELF", "NONE"), "dev": ("NONE", "NONE"), "dummy": ("SYSTEM", "NONE"),
    "fs_lvm": ("SYSTEM", "SYSTEM"), "lvm": ("SELF", "NONE"), "qcow2": ("SYSTEM", "NONE"),
    "shared": ("SYSTEM", "NONE"), "ssh": ("SYSTEM", "SYSTEM"),
}  # fmt: skip
"""By transfer driver: where it clones images to, and where it links them."""
_DRIVER_WORDS = frozenset({"ALLOW_ORPHANS", "CLONE_TARGET", "LN_TARGET", "TYPE"})
_OWN_WORDS = frozenset({"FORMAT", "NAME", "PERSISTENT", "SIZE", "TYPE"})


@method("one.image.allocate", "si?b")
def allocate(call: Call, text: str, store_id: int, _unchecked: bool = False) -> int:
    """A new empty image; it is ready at once."""
    world = call.cloud.world
    template = call.parse(text)
    call.need(Right.CREATE, Target(Kind.IMAGE, -1, call.user.id, call.user.gid))
    store: Datastore = call.find(world.datastores, Kind.DATASTORE, store_id)
    call.need(Right.USE, datastore_target(store))
    if store.type != _IMAGES:
        raise _not_allocated("New images can only be allocated in a files or image datastore.")
    kind, size = template.get("TYPE").upper(), number(template.get("SIZE"), int, 0)
    if kind not in _TYPES:
        raise _not_allocated("Unknown type ")
    if size <= 0:
        text = "Cannot parse image SIZE: Wrong number or missing SIZE attribute."
        raise Refusal(INTERNAL, text)
    name, oid = template.get("NAME"), world.images.next_id
    check_name(name)
    for row in world.images:
        if (row.uid, row.name) == (call.user.id, name):
            raise _not_allocated(f"NAME is already taken by IMAGE {row.id}.")
    world.images.add(
        Image(
            id=oid,
            uid=call.user.id,
            gid=call.user.gid,
            name=name,
            type=_TYPES[kind],
            datastore=store_id,
            size_mib=int(size),
            format=template.get("FORMAT") or "raw",
            persistent=template.get("PERSISTENT").upper() == "YES",
            template=template.without(_OWN_WORDS),
            regtime=world.stamp(),
        )
    )
    world.changed("image", oid)
    return oid


@method("one.image.info", "i?b")
def info(call: Call, oid: int, *_unused: bool) -> str:
    """One image."""
    row = call.find(call.cloud.world.images, Kind.IMAGE, oid)
    call.need(Right.USE, image_target(row))
    return image_xml(call.cloud.world, row)


@method("one.imagepool.info", "iii")
def pool(call: Call, flag: int, start: int, end: int) -> str:
    """Images."""
    world = call.cloud.world
    rows = paged(owned(call, world.images.descending(), flag), start, end)
    seen = (row for row in rows if call.may(Right.USE, image_target(row)))
    return f"<IMAGE_POOL>{''.join(image_xml(world, row) for row in seen)}</IMAGE_POOL>"


@method("one.image.chown", "iii")
def image_chown(call: Call, oid: int, uid: int, gid: int) -> int:
    """Give an image to another user, another group, or both; -1 leaves one as it is."""
    world = call.cloud.world
    image = call.find(world.images, Kind.IMAGE, oid)
    call.need(Right.MANAGE, image_target(image))
    if uid >= 0:
        call.need(Right.MANAGE, user_target(call.find(world.users, Kind.USER, uid)))
    if gid >= 0:
        call.need(Right.USE, group_target(call.find(world.groups, Kind.GROUP, gid)))
    image.uid = uid if uid >= 0 else image.uid
    image.gid = gid if gid >= 0 else image.gid
    world.changed("image", oid)
    return oid


@method("one.image.chmod", "iiiiiiiiii")
def image_chmod(call: Call, oid: int, *bits: int) -> int:
    """Change the rights of an image; -1 leaves a right unchanged."""
    image = call.find(call.cloud.world.images, Kind.IMAGE, oid)
    call.need(Right.MANAGE, image_target(image))
    if any(bit not in {-1, 0, 1} for bit in bits):
        raise Refusal(INTERNAL, "New permission values must be -1, 0 or 1")
    u1, m1, a1, u2, m2, a2, u3, m3, a3 = (
        old if bit < 0 else bit for bit, old in zip(bits, image.permissions, strict=True)
    )
    image.permissions = (u1, m1, a1, u2, m2, a2, u3, m3, a3)
    call.cloud.world.changed("image", oid)
    return oid


@method("one.image.delete", "i?b")
def delete(call: Call, oid: int, _force: bool = False) -> int:
    """Remove an image that no VM uses."""
    world = call.cloud.world
    row = call.find(world.images, Kind.IMAGE, oid)
    call.need(Right.MANAGE, image_target(row))
    if users := len(users_of(world, oid)):
        raise Refusal(ACTION, f"Cannot delete image. There are {users} VMs using it.")
    del world.images.rows[oid]
    world.changed("image", oid)
    return oid


@method("one.datastore.update", "isi")
def datastore_update(call: Call, oid: int, text: str, kind: int) -> int:
    """Replace what a datastore's template says, or add to it."""
    store = call.find(call.cloud.world.datastores, Kind.DATASTORE, oid)
    call.need(Right.MANAGE, datastore_target(store))
    words = merged(call, store.template, text, kind, frozenset())
    driver = words.get("TM_MAD")
    if driver not in _TRANSFER:
        text = f'TM_MAD named "{driver}" is not defined in oned.conf'
        raise Refusal(INTERNAL, f"Cannot update template. {text}")
    kept = dict(store.template.only(_DRIVER_WORDS).attributes)
    if store.type == _IMAGES:
        clones, links = _TRANSFER[driver]
        kept |= {"CLONE_TARGET": clones, "LN_TARGET": links}
    store.template = words.plus(kept.items())
    call.cloud.world.changed("datastore", oid)
    return oid


def _not_allocated(why: str) -> Refusal:
    return Refusal(ALLOCATE, f"Error allocating a new image. {why}")
