"""A VM's use of images and networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.model.template_text import Template, number
from merkatd.embedded.model.vm_states import OneVmState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from merkatd.embedded.model.records import Network, Vm
    from merkatd.embedded.model.template_text import Vector
    from merkatd.embedded.model.world import World


_OF_STORE = ("ALLOW_ORPHANS", "CLONE_TARGET", "LN_TARGET")
READY, USED, USED_PERSISTENT = 1, 2, 8


def named(disk: Mapping[str, str]) -> int | None:
    """Return the image id in a disk's attributes; None without IMAGE_ID."""
    return int(number(disk["IMAGE_ID"], int, -1)) if "IMAGE_ID" in disk else None


def with_images(world: World, template: Template) -> Template:
    """Return a VM's template with its disks completed from their images."""
    attributes = [
        (name, value if name != "DISK" or isinstance(value, str) else _disk(world, value))
        for name, value in template.attributes
    ]
    return Template(tuple(attributes)).plus(_automatic(world, template).items())


def _automatic(world: World, template: Template) -> dict[str, str]:
    """Return oned's requirements: hosts, datastores and networks in the images' clusters."""
    clusters: set[int] | None = None
    for disk in template.vectors("DISK"):
        oid = named(disk)
        image = world.images.get(oid) if oid is not None else None
        if image is not None:
            those = set(world.datastores.rows[image.datastore].clusters)
            clusters = those if clusters is None else clusters & those
    if clusters is None:
        return {}
    hosts = " | ".join(f"CLUSTER_ID = {cluster}" for cluster in sorted(clusters))
    others = " | ".join(f'"CLUSTERS/ID" @> {cluster}' for cluster in sorted(clusters))
    return {
        "AUTOMATIC_DS_REQUIREMENTS": f"({others})",
        "AUTOMATIC_NIC_REQUIREMENTS": f"({others})",
        "AUTOMATIC_REQUIREMENTS": f"({hosts}) & {template.get('AUTOMATIC_REQUIREMENTS')}",
    }


def users_of(world: World, image: int) -> list[int]:
    """Return the ids of the VMs with a disk of this image."""
    return [
        vm.id
        for vm in world.vms
        if vm.state is not OneVmState.DONE
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


def sizes(template: Template) -> list[int]:
    """Return the sizes of a new network's address ranges."""
    return [
        int(number(dict(value).get("SIZE", ""), int, 0))
        for name, value in template.attributes
        if name == "AR" and not isinstance(value, str)
    ]


def ranges_xml(network: Network) -> str:
    """Return a network's address ranges as XML, with the used addresses of each."""
    used = len(network.leases)
    rows = []
    for place, size in enumerate(network.sizes):
        here = min(used, size)
        used -= here
        rows.append(
            f"<AR><AR_ID>{place}</AR_ID><SIZE>{size}</SIZE><TYPE>IP4</TYPE>"
            f"<USED_LEASES>{here}</USED_LEASES><LEASES></LEASES></AR>"
        )
    return f"<AR_POOL>{''.join(rows)}</AR_POOL>"


def give_back(world: World, vm: Vm) -> None:
    """Free the leases of a VM that is done."""
    for words in _nics(vm.template):
        network = world.networks.get(int(number(words.get("NETWORK_ID", ""), int, -1)))
        if network is not None and vm.id in network.leases:
            network.leases.remove(vm.id)
            world.changed("vnet", network.id)


def _nics(template: Template) -> Iterator[dict[str, str]]:
    for name, value in template.attributes:
        if name == "NIC" and not isinstance(value, str):
            yield dict(value)


def _place(attributes: list[tuple[str, str | Vector]], nic: int) -> int | None:
    """Return the position of the NIC with this id."""
    for at, (name, value) in enumerate(attributes):
        if name == "NIC" and not isinstance(value, str) and dict(value).get("NIC_ID") == str(nic):
            return at
    return None
