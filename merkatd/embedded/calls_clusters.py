"""The calls about clusters and datastores, and what is in which cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.access import Kind, Right, Target
from merkatd.embedded.call import (
    ACTION,
    Call,
    Refusal,
    cluster_target,
    datastore_target,
    host_target,
    method,
)
from merkatd.embedded.calls_hosts import check_new_name
from merkatd.embedded.calls_vm_edit import merged
from merkatd.embedded.records import Cluster
from merkatd.embedded.render_rest import cluster_xml, datastore_xml
from merkatd.embedded.template import Template

if TYPE_CHECKING:
    from merkatd.embedded.records import Datastore
    from merkatd.embedded.world import World

_SYSTEM = 100
"""Ids below this one belong to clusters that every cloud has."""


@method("one.clusterpool.info")
def clusterpool_info(call: Call) -> str:
    """All clusters that the caller may use."""
    rows = (
        cluster_xml(row)
        for row in call.cloud.world.clusters.descending()
        if call.may(Right.USE, cluster_target(row))
    )
    return f"<CLUSTER_POOL>{''.join(rows)}</CLUSTER_POOL>"


@method("one.cluster.info", "i?b")
def cluster_info(call: Call, oid: int, decrypt: bool = False) -> str:  # noqa: ARG001
    """One cluster."""
    cluster = call.find(call.cloud.world.clusters, Kind.CLUSTER, oid)
    call.need(Right.USE, cluster_target(cluster))
    return cluster_xml(cluster)


@method("one.cluster.allocate", "s")
def cluster_allocate(call: Call, name: str) -> int:
    """A new cluster, with nothing in it."""
    call.need(Right.CREATE, Target(Kind.CLUSTER))
    check_new_name(name, call.cloud.world.clusters.named(name), "CLUSTER")
    return new_cluster(call.cloud.world, name).id


def new_cluster(world: World, name: str) -> Cluster:
    """Add a cluster; the first has the id 0, others ids from 100 on, as oned's."""
    texts = {"RESERVED_CPU": "", "RESERVED_MEM": ""}
    oid = 0 if not len(world.clusters) else max(world.clusters.next_id, _SYSTEM)
    cluster = Cluster(oid, name, template=Template.of(texts.items()))
    world.clusters.add(cluster)
    world.changed("cluster", cluster.id)
    return cluster


@method("one.cluster.delete", "i")
def cluster_delete(call: Call, oid: int) -> int:
    """Remove a cluster that has nothing in it."""
    world = call.cloud.world
    cluster = call.find(world.clusters, Kind.CLUSTER, oid)
    call.need(Right.ADMIN, cluster_target(cluster))
    if oid < _SYSTEM:
        raise Refusal(
            ACTION, f"Cannot delete cluster. System Clusters (ID < {_SYSTEM}) cannot be deleted."
        )
    inside = {
        "hosts": cluster.hosts, "datastores": cluster.datastores, "vnets": cluster.networks
    }  # fmt: skip
    for what, ids in inside.items():
        if ids:
            raise Refusal(
                ACTION,
                f"Cannot delete cluster. Cluster {oid} is not empty,"
                f" it contains {len(ids)} {what}.",
            )
    del world.clusters.rows[oid]
    world.changed("cluster", oid)
    return oid


@method("one.cluster.update", "is?i")
def cluster_update(call: Call, oid: int, text: str, kind: int = 0) -> int:
    """Replace a cluster's template, or add to it."""
    cluster = call.find(call.cloud.world.clusters, Kind.CLUSTER, oid)
    call.need(Right.MANAGE, cluster_target(cluster))
    cluster.template = merged(call, cluster.template, text, kind, frozenset())
    call.cloud.world.changed("cluster", oid)
    for host_id in cluster.hosts:
        call.cloud.world.hosts.rows[host_id].inherited = cluster.template
        call.cloud.world.changed("host", host_id)
    return oid


@method("one.cluster.addhost", "ii")
def cluster_addhost(call: Call, oid: int, host_id: int) -> int:
    """Move a host into a cluster."""
    world = call.cloud.world
    cluster = call.find(world.clusters, Kind.CLUSTER, oid)
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
def cluster_adddatastore(call: Call, oid: int, store_id: int) -> int:
    """Put a datastore into a cluster; it may be in several."""
    cluster, store = _both(call, oid, store_id)
    if oid not in store.clusters:
        share_datastore(call.cloud.world, cluster, store)
    return oid


@method("one.cluster.deldatastore", "ii")
def cluster_deldatastore(call: Call, oid: int, store_id: int) -> int:
    """Take a datastore out of a cluster."""
    cluster, store = _both(call, oid, store_id)
    if oid in store.clusters:
        store.clusters.remove(oid)
        cluster.datastores.remove(store_id)
        call.cloud.world.changed("datastore", store_id)
        call.cloud.world.changed("cluster", oid)
    return oid


def share_datastore(world: World, cluster: Cluster, store: Datastore) -> None:
    """The cluster has the datastore from now on."""
    store.clusters.append(cluster.id)
    cluster.datastores.append(store.id)
    world.changed("datastore", store.id)
    world.changed("cluster", cluster.id)


def _both(call: Call, oid: int, store_id: int) -> tuple[Cluster, Datastore]:
    world = call.cloud.world
    cluster = call.find(world.clusters, Kind.CLUSTER, oid)
    store = call.find(world.datastores, Kind.DATASTORE, store_id)
    call.need(Right.ADMIN, cluster_target(cluster))
    call.need(Right.ADMIN, datastore_target(store))
    return cluster, store


@method("one.datastorepool.info")
def datastorepool_info(call: Call) -> str:
    """All datastores that the caller may use."""
    rows = (
        datastore_xml(call.cloud.world, row)
        for row in call.cloud.world.datastores.descending()
        if call.may(Right.USE, datastore_target(row))
    )
    return f"<DATASTORE_POOL>{''.join(rows)}</DATASTORE_POOL>"


@method("one.datastore.info", "i?b")
def datastore_info(call: Call, oid: int, decrypt: bool = False) -> str:  # noqa: ARG001
    """One datastore."""
    store = call.find(call.cloud.world.datastores, Kind.DATASTORE, oid)
    call.need(Right.USE, datastore_target(store))
    return datastore_xml(call.cloud.world, store)
