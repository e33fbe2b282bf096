"""The calls about clusters, datastores and images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.methods.call import MethodCall, check_name, method
from merkatd.embedded.methods.host_calls import check_new_name
from merkatd.embedded.methods.pool_calls import paged, visible_rows_of
from merkatd.embedded.methods.vm_edit_calls import merged
from merkatd.embedded.model.access import (
    ObjectType,
    Right,
    Target,
    cluster_target,
    datastore_target,
    group_target,
    host_target,
    image_target,
    user_target,
)
from merkatd.embedded.model.errors import ACTION, ALLOCATE, INTERNAL, OneRefusal
from merkatd.embedded.model.records import Cluster, Datastore, Image
from merkatd.embedded.model.template_text import Template, number
from merkatd.embedded.model.vm_resources import users_of
from merkatd.embedded.render.render_pools import cluster_xml, datastore_xml, image_xml

if TYPE_CHECKING:
    from merkatd.embedded.model.world import World


_SYSTEM = 100
"""The first id of clusters that users create; lower ids are system clusters."""


@method("one.clusterpool.info")
def clusterpool_info(call: MethodCall) -> str:
    """Return all clusters that the caller may use."""
    rows = (
        cluster_xml(row)
        for row in call.cloud.world.clusters.descending()
        if call.may(Right.USE, cluster_target(row))
    )
    return f"<CLUSTER_POOL>{''.join(rows)}</CLUSTER_POOL>"


@method("one.cluster.info", "i?b")
def cluster_info(call: MethodCall, oid: int, decrypt: bool = False) -> str:  # noqa: ARG001
    """Return a cluster."""
    cluster = call.find(call.cloud.world.clusters, ObjectType.CLUSTER, oid)
    call.need(Right.USE, cluster_target(cluster))
    return cluster_xml(cluster)


@method("one.cluster.allocate", "s")
def cluster_allocate(call: MethodCall, name: str) -> int:
    """Create an empty cluster."""
    call.need(Right.CREATE, Target(ObjectType.CLUSTER))
    check_new_name(name, call.cloud.world.clusters.named(name), "CLUSTER")
    return new_cluster(call.cloud.world, name).id


def new_cluster(world: World, name: str) -> Cluster:
    """Add a cluster; the first has the id 0, the others start at 100, as in oned."""
    texts = {"RESERVED_CPU": "", "RESERVED_MEM": ""}
    oid = 0 if not len(world.clusters) else max(world.clusters.next_id, _SYSTEM)
    cluster = Cluster(oid, name, template=Template.of(texts.items()))
    world.clusters.add(cluster)
    world.changed("cluster", cluster.id)
    return cluster


@method("one.cluster.delete", "i")
def cluster_delete(call: MethodCall, oid: int) -> int:
    """Remove an empty cluster."""
    world = call.cloud.world
    cluster = call.find(world.clusters, ObjectType.CLUSTER, oid)
    call.need(Right.ADMIN, cluster_target(cluster))
    if oid < _SYSTEM:
        raise OneRefusal(
            ACTION, f"Cannot delete cluster. System Clusters (ID < {_SYSTEM}) cannot be deleted."
        )
    inside = {
        "hosts": cluster.hosts, "datastores": cluster.datastores, "vnets": cluster.networks
    }  # fmt: skip
    for what, ids in inside.items():
        if ids:
            raise OneRefusal(
                ACTION,
                f"Cannot delete cluster. Cluster {oid} is not empty,"
                f" it contains {len(ids)} {what}.",
            )
    del world.clusters.rows[oid]
    world.changed("cluster", oid)
    return oid


@method("one.cluster.update", "is?i")
def cluster_update(call: MethodCall, oid: int, text: str, kind: int = 0) -> int:
    """Replace a cluster's template, or add to it."""
    cluster = call.find(call.cloud.world.clusters, ObjectType.CLUSTER, oid)
    call.need(Right.MANAGE, cluster_target(cluster))
    cluster.template = merged(call, cluster.template, text, kind, frozenset())
    call.cloud.world.changed("cluster", oid)
    for host_id in cluster.hosts:
        call.cloud.world.hosts.rows[host_id].inherited = cluster.template
        call.cloud.world.changed("host", host_id)
    return oid


@method("one.cluster.addhost", "ii")
def cluster_addhost(call: MethodCall, oid: int, host_id: int) -> int:
    """Move a host into a cluster."""
    world = call.cloud.world
    cluster = call.find(world.clusters, ObjectType.CLUSTER, oid)
    host = call.host(host_id)
    call.need(Right.ADMIN, cluster_target(cluster))
    call.need(Right.ADMIN, host_target(host))
    old = world.clusters.get(host.cluster)
    if old is not None:
        old.hosts.remove(host_id)
        world.changed("cluster", old.id)
    cluster.hosts.append(host_id)
    host.cluster, host.inherited = oid, cluster.template
    world.changed("cluster", oid)
    world.changed("host", host_id)
    return oid


@method("one.cluster.adddatastore", "ii")
def cluster_adddatastore(call: MethodCall, oid: int, store_id: int) -> int:
    """Add a datastore to a cluster; it may be in several."""
    cluster, store = _both(call, oid, store_id)
    if oid not in store.clusters:
        share_datastore(call.cloud.world, cluster, store)
    return oid


@method("one.cluster.deldatastore", "ii")
def cluster_deldatastore(call: MethodCall, oid: int, store_id: int) -> int:
    """Remove a datastore from a cluster."""
    cluster, store = _both(call, oid, store_id)
    if oid in store.clusters:
        store.clusters.remove(oid)
        cluster.datastores.remove(store_id)
        call.cloud.world.changed("datastore", store_id)
        call.cloud.world.changed("cluster", oid)
    return oid


def share_datastore(world: World, cluster: Cluster, store: Datastore) -> None:
    """Add a datastore to a cluster without checks."""
    store.clusters.append(cluster.id)
    cluster.datastores.append(store.id)
    world.changed("datastore", store.id)
    world.changed("cluster", cluster.id)


def _both(call: MethodCall, oid: int, store_id: int) -> tuple[Cluster, Datastore]:
    world = call.cloud.world
    cluster = call.find(world.clusters, ObjectType.CLUSTER, oid)
    store = call.find(world.datastores, ObjectType.DATASTORE, store_id)
    call.need(Right.ADMIN, cluster_target(cluster))
    call.need(Right.ADMIN, datastore_target(store))
    return cluster, store


@method("one.datastorepool.info")
def datastorepool_info(call: MethodCall) -> str:
    """Return all datastores that the caller may use."""
    rows = (
        datastore_xml(call.cloud.world, row)
        for row in call.cloud.world.datastores.descending()
        if call.may(Right.USE, datastore_target(row))
    )
    return f"<DATASTORE_POOL>{''.join(rows)}</DATASTORE_POOL>"


@method("one.datastore.info", "i?b")
def datastore_info(call: MethodCall, oid: int, decrypt: bool = False) -> str:  # noqa: ARG001
    """Return a datastore."""
    store = call.find(call.cloud.world.datastores, ObjectType.DATASTORE, oid)
    call.need(Right.USE, datastore_target(store))
    return datastore_xml(call.cloud.world, store)


_IMAGES = 0
_TYPES = {"": 2, "OS": 0, "CDROM": 1, "DATABLOCK": 2}
_TRANSFER = {
    "ceph": ("SELF", "NONE"), "dev": ("NONE", "NONE"), "dummy": ("SYSTEM", "NONE"),
    "fs_lvm": ("SYSTEM", "SYSTEM"), "lvm": ("SELF", "NONE"), "qcow2": ("SYSTEM", "NONE"),
    "shared": ("SYSTEM", "NONE"), "ssh": ("SYSTEM", "SYSTEM"),
}  # fmt: skip
"""The targets of clones and of links by transfer driver."""
_DRIVER_WORDS = frozenset({"ALLOW_ORPHANS", "CLONE_TARGET", "LN_TARGET", "TYPE"})
_OWN_WORDS = frozenset({"FORMAT", "NAME", "PERSISTENT", "SIZE", "TYPE"})


@method("one.image.allocate", "si?b")
def allocate(call: MethodCall, text: str, store_id: int, _unchecked: bool = False) -> int:
    """Create an empty image; it is ready at once."""
    world = call.cloud.world
    template = call.parse(text)
    call.need(Right.CREATE, Target(ObjectType.IMAGE, -1, call.user.id, call.user.gid))
    store: Datastore = call.find(world.datastores, ObjectType.DATASTORE, store_id)
    call.need(Right.USE, datastore_target(store))
    if store.type != _IMAGES:
        raise _not_allocated("New images can only be allocated in a files or image datastore.")
    kind, size = template.get("TYPE").upper(), number(template.get("SIZE"), int, 0)
    if kind not in _TYPES:
        raise _not_allocated("Unknown type ")
    if size <= 0:
        text = "Cannot parse image SIZE: Wrong number or missing SIZE attribute."
        raise OneRefusal(INTERNAL, text)
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
def info(call: MethodCall, oid: int, *_unused: bool) -> str:
    """Return an image."""
    row = call.find(call.cloud.world.images, ObjectType.IMAGE, oid)
    call.need(Right.USE, image_target(row))
    return image_xml(call.cloud.world, row)


@method("one.imagepool.info", "iii")
def pool(call: MethodCall, flag: int, start: int, end: int) -> str:
    """Return the images that the caller may use."""
    world = call.cloud.world
    rows = paged(visible_rows_of(call, world.images.descending(), flag), start, end)
    seen = (row for row in rows if call.may(Right.USE, image_target(row)))
    return f"<IMAGE_POOL>{''.join(image_xml(world, row) for row in seen)}</IMAGE_POOL>"


@method("one.image.chown", "iii")
def image_chown(call: MethodCall, oid: int, uid: int, gid: int) -> int:
    """Change an image's owner, its group, or both; -1 leaves a value unchanged."""
    world = call.cloud.world
    image = call.find(world.images, ObjectType.IMAGE, oid)
    call.need(Right.MANAGE, image_target(image))
    if uid >= 0:
        call.need(Right.MANAGE, user_target(call.find(world.users, ObjectType.USER, uid)))
    if gid >= 0:
        call.need(Right.USE, group_target(call.find(world.groups, ObjectType.GROUP, gid)))
    image.uid = uid if uid >= 0 else image.uid
    image.gid = gid if gid >= 0 else image.gid
    world.changed("image", oid)
    return oid


@method("one.image.chmod", "iiiiiiiiii")
def image_chmod(call: MethodCall, oid: int, *bits: int) -> int:
    """Change an image's permissions; -1 leaves a value unchanged."""
    image = call.find(call.cloud.world.images, ObjectType.IMAGE, oid)
    call.need(Right.MANAGE, image_target(image))
    if any(bit not in {-1, 0, 1} for bit in bits):
        raise OneRefusal(INTERNAL, "New permission values must be -1, 0 or 1")
    u1, m1, a1, u2, m2, a2, u3, m3, a3 = (
        old if bit < 0 else bit for bit, old in zip(bits, image.permissions, strict=True)
    )
    image.permissions = (u1, m1, a1, u2, m2, a2, u3, m3, a3)
    call.cloud.world.changed("image", oid)
    return oid


@method("one.image.delete", "i?b")
def delete(call: MethodCall, oid: int, _force: bool = False) -> int:
    """Remove an unused image."""
    world = call.cloud.world
    row = call.find(world.images, ObjectType.IMAGE, oid)
    call.need(Right.MANAGE, image_target(row))
    if users := len(users_of(world, oid)):
        raise OneRefusal(ACTION, f"Cannot delete image. There are {users} VMs using it.")
    del world.images.rows[oid]
    world.changed("image", oid)
    return oid


@method("one.datastore.update", "isi")
def datastore_update(call: MethodCall, oid: int, text: str, kind: int) -> int:
    """Replace a datastore's template, or add to it."""
    store = call.find(call.cloud.world.datastores, ObjectType.DATASTORE, oid)
    call.need(Right.MANAGE, datastore_target(store))
    words = merged(call, store.template, text, kind, frozenset())
    driver = words.get("TM_MAD")
    if driver not in _TRANSFER:
        text = f'TM_MAD named "{driver}" is not defined in oned.conf'
        raise OneRefusal(INTERNAL, f"Cannot update template. {text}")
    kept = dict(store.template.only(_DRIVER_WORDS).attributes)
    if store.type == _IMAGES:
        clones, links = _TRANSFER[driver]
        kept |= {"CLONE_TARGET": clones, "LN_TARGET": links}
    store.template = words.plus(kept.items())
    call.cloud.world.changed("datastore", oid)
    return oid


def _not_allocated(why: str) -> OneRefusal:
    return OneRefusal(ALLOCATE, f"Error allocating a new image. {why}")
