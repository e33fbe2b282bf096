"""What a VM's disks take from images: their words, and who uses which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.states import State
from merkatd.embedded.template import Template, number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from merkatd.embedded.template import Vector
    from merkatd.embedded.world import World

_OF_STORE = ("ALLOW_ORPHANS", "CLONE_TARGET", "LN_TARGET")
READY, USED, USED_PERSISTENT = 1, 2, 8


def named(disk: Mapping[str, str]) -> int | None:
    """The id of the image that a disk asks for by id; None for one that does not."""
    return int(number(disk["IMAGE_ID"], int, -1)) if "IMAGE_ID" in disk else None


def with_images(world: World, template: Template) -> Template:
    """The template of a VM with its disks as their images make them."""
    attributes = [
        (name, value if name != "DISK" or isinstance(value, str) else _disk(world, value))
        for name, value in template.attributes
    ]
    return Template(tuple(attributes)).plus(_automatic(world, template).items())


def _automatic(world: World, template: Template) -> dict[str, str]:
    """What oned requires of hosts, datastores and networks so that the images are at hand."""
    clusters: set[int] | None = None
    for disk in template.vectors("DISK"):
        oid = named(disk)
        image = world.images.get(oid) if oid is not None else None
        if image is not None:
            those = set(world.datastores.rows[image.datastore].clusters)
            clusters = those if clusters is None else clusters & those
    if clusters is None:
        return {}
    hosts = " | ".join(f"CLUSTER_ID = {one}" for one in sorted(clusters))
    others = " | ".join(f'"CLUSTERS/ID" @> {one}' for one in sorted(clusters))
    return {
        "AUTOMATIC_DS_REQUIREMENTS": f"({others})",
        "AUTOMATIC_NIC_REQUIREMENTS": f"({others})",
        "AUTOMATIC_REQUIREMENTS": f"({hosts}) & {template.get('AUTOMATIC_REQUIREMENTS')}",
    }


def users_of(world: World, image: int) -> list[int]:
    """The VMs with a disk of this image."""
    return [
        vm.id
        for vm in world.vms
        if vm.state is not State.DONE
        and any(disk.get("IMAGE_ID") == str(image) for disk in vm.template.vectors("DISK"))
    ]


def _disk(world: World, disk: Vector) -> Vector:
    image = world.images.get(oid) if (oid := named(dict(disk))) is not None else None
    if image is None:
        return disk
    store = world.datastores.rows[image.datastore]
    words = store.template
    known = {
        **{name: words.get(name) for name in _OF_STORE if words.get(name)},
        "CLONE": "NO" if image.persistent else "YES",
        "CLUSTER_ID": ",".join(map(str, store.clusters)),
        "DATASTORE": store.name,
        "DATASTORE_ID": str(store.id),
        "DEV_PREFIX": image.template.get("DEV_PREFIX") or "sd",
        "DISK_SNAPSHOT_TOTAL_SIZE": "0",
        "DISK_TYPE": words.get("DISK_TYPE") or "FILE",
        "DRIVER": image.format,
        "FORMAT": image.format,
        "IMAGE": image.name,
        "IMAGE_ID": str(image.id),
        "IMAGE_STATE": str(USED_PERSISTENT if image.persistent else USED),
        "ORIGINAL_SIZE": str(image.size_mib),
        "READONLY": "NO",
        "SAVE": "YES" if image.persistent else "NO",
        "SIZE": dict(disk).get("SIZE") or str(image.size_mib),
        "SOURCE": "dummy_path",
        "TM_MAD": words.get("TM_MAD"),
        "TYPE": "FILE",
    }
    if image.persistent:
        known["PERSISTENT"] = "YES"
    return tuple(sorted({**dict(disk), **known}.items()))
