"""The calls about hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.methods.call import MethodCall, check_name, method
from merkatd.embedded.methods.vm_edit_calls import merged
from merkatd.embedded.model.access import ObjectType, Right, Target, host_target
from merkatd.embedded.model.errors import ACTION, INTERNAL, OneRefusal
from merkatd.embedded.model.records import Host
from merkatd.embedded.model.template_text import Template
from merkatd.embedded.model.vm_states import OneHostState
from merkatd.embedded.render.render_pools import host_sample_xml, host_xml

if TYPE_CHECKING:
    from merkatd.embedded.model.records import Cluster
    from merkatd.embedded.model.settings import HostSize
    from merkatd.embedded.model.world import World


@method("one.host.info", "i?b")
def host_info(call: MethodCall, host_id: int, decrypt: bool = False) -> str:  # noqa: ARG001
    """Return a host with its last sample."""
    host = call.host(host_id)
    call.need(Right.USE, host_target(host))
    samples = call.cloud.monitoring.host_samples(host)
    sample = host_sample_xml(host, samples[-1]) if samples else ""
    return host_xml(call.cloud.world, host, sample)


@method("one.host.monitoring", "i")
def host_monitoring(call: MethodCall, host_id: int) -> str:
    """Return the stored samples of a host."""
    host = call.host(host_id)
    call.need(Right.USE, host_target(host))
    rows = (host_sample_xml(host, item) for item in call.cloud.monitoring.host_samples(host))
    return f"<MONITORING_DATA>{''.join(rows)}</MONITORING_DATA>"


@method("one.host.update", "is?i")
def host_update(call: MethodCall, host_id: int, text: str, kind: int = 0) -> int:
    """Replace a host's template, or add to it."""
    host = call.host(host_id)
    call.need(Right.ADMIN, host_target(host))
    host.template = merged(call, host.template, text, kind, frozenset())
    call.cloud.world.changed("host", host_id)
    return host_id


@method("one.host.allocate", "sssi")
def host_allocate(call: MethodCall, name: str, im_mad: str, vm_mad: str, cluster_id: int) -> int:
    """Create a host of the cloud's default size."""
    world = call.cloud.world
    call.need(Right.CREATE, Target(ObjectType.HOST))
    cluster = call.find(world.clusters, ObjectType.CLUSTER, max(cluster_id, 0))
    if not im_mad or not vm_mad:
        which = "IM_MAD_NAME" if not im_mad else "VMM_MAD_NAME"
        raise OneRefusal(INTERNAL, f"{which} cannot be empty.")
    check_new_name(name, world.hosts.named(name), "HOST")
    size = call.cloud.host_size
    host = new_host(world, name, cluster, size.cpu, size.memory_mib)
    host.im_mad, host.vm_mad = im_mad, vm_mad
    return host.id


def new_host(world: World, name: str, cluster: Cluster, cpu: int, memory_mib: int) -> Host:
    """Add a host to a cluster; `cpu` is in hundredths of a core."""
    oid = world.hosts.next_id
    texts = {
        "ARCH": "x86_64",
        "CPUSPEED": "3200",
        "HOSTNAME": name,
        "HYPERVISOR": "dummy",
        "IM_MAD": "dummy",
        "MODELNAME": "Embedded",
        "RESERVED_CPU": "",
        "RESERVED_MEM": "",
        "VM_MAD": "dummy",
    }
    host = Host(oid, name, cluster.id, cpu, memory_mib * 1024, Template.of(texts.items()))
    host.inherited = cluster.template
    world.hosts.add(host)
    cluster.hosts.append(oid)
    world.changed("host", oid)
    world.changed("cluster", cluster.id)
    return host


_HOSTS_IN_RACK = 4
_ONE_FEED_IN = 3


def description(host: Host, cluster: Cluster, size: HostSize) -> list[tuple[str, str]]:
    """Return attributes that describe the place and the power of a host.

    Each host has a switch and a redundant one. Every third host has no second feed of power. Each
    rack has four hosts.
    """
    first, second = (1, 2) if host.id % 2 == 0 else (2, 1)
    has_one = host.id % _ONE_FEED_IN == _ONE_FEED_IN - 1
    feeds = f"feed{first}" if has_one else f"feed{first}, feed{second}"
    return [
        ("MERKAT_NETWORK_DOMAIN", f"switch{first}, switch{second}"),
        ("MERKAT_POWER_DOMAIN", feeds),
        ("MERKAT_TOPOLOGY", f"dc1/{cluster.name}/rack{host.id // _HOSTS_IN_RACK + 1}"),
        ("MERKAT_LINK", f"{size.link_mbit_s:.15g}"),
        ("MERKAT_IDLE_WATTS", f"{size.idle_watts:.15g}"),
        ("MERKAT_FULL_WATTS", f"{size.full_watts:.15g}"),
    ]


def check_new_name(name: str, taken: Host | Cluster | None, kind: str) -> None:
    """Raise OneRefusal if a name is invalid or taken."""
    check_name(name)
    if taken is not None:
        raise OneRefusal(INTERNAL, f"NAME is already taken by {kind} {taken.id}.")


@method("one.host.delete", "i")
def host_delete(call: MethodCall, host_id: int) -> int:
    """Remove a host without VMs."""
    world = call.cloud.world
    host = call.host(host_id)
    call.need(Right.ADMIN, host_target(host))
    if host.vms:
        raise OneRefusal(ACTION, "Cannot delete host. Can not remove a host with running VMs")
    del world.hosts.rows[host_id]
    cluster = world.clusters.get(host.cluster)
    if cluster is not None:
        cluster.hosts.remove(host_id)
        world.changed("cluster", cluster.id)
    world.changed("host", host_id)
    return host_id


_STATUS = (OneHostState.MONITORED, OneHostState.DISABLED, OneHostState.OFFLINE)


@method("one.host.status", "ii")
def host_status(call: MethodCall, host_id: int, status: int) -> int:
    """Enable a host (0), disable it (1), or take it offline (2)."""
    host = call.host(host_id)
    call.need(Right.ADMIN, host_target(host))
    if not 0 <= status < len(_STATUS):
        raise OneRefusal(INTERNAL, "Wrong status code")
    call.cloud.failures.set_status(host, _STATUS[status])
    return host_id
