"""Remove the objects of tests from a cloud that outlives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.contract.endpoint import MONITORED, OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from tests.contract.endpoint import Endpoint

_DELETE_FROM_DATABASE = 5
_ENABLED = 0
_NOT_THERE = 1024
_REPLACE = 0
_BORN_WITH = frozenset({"oneadmin", "serveradmin"})
_POOLS = {
    "vmgroup": ("one.vmgrouppool.info", (-2, -1, -1)),
    "template": ("one.templatepool.info", (-2, -1, -1)),
    "vn": ("one.vnpool.info", (-2, -1, -1)),
    "image": ("one.imagepool.info", (-2, -1, -1)),
    "user": ("one.userpool.info", ()),
    "group": ("one.grouppool.info", ()),
    "cluster": ("one.clusterpool.info", ()),
    "datastore": ("one.datastorepool.info", ()),
}


def refuse_to_harm(endpoint: Endpoint) -> None:
    """Fail if the cloud has hosts or users that no test created: tests end all VMs."""
    for method in ("one.hostpool.info", "one.userpool.info"):
        names = {row.findtext("NAME") or "" for row in endpoint.pool(method).values()}
        others = {name for name in names - _BORN_WITH if not name.startswith(OURS)}
        assert not others, f"this cloud is in use: {method} shows {sorted(others)}"


def clean(endpoint: Endpoint, kept: Container[int] = ()) -> None:
    """End all VMs; remove hosts except for the kept ones, and all objects of tests."""
    for vm, row in endpoint.pool("one.vmpool.infoextended", -2, -1, -1, -1).items():
        if row.find("LOCK") is not None:
            endpoint.ok("one.vm.unlock", vm)
        endpoint.ok("one.vm.recover", vm, _DELETE_FROM_DATABASE)
    for rule in endpoint.rules:
        endpoint.ok("one.acl.delrule", rule)
    for host, row in endpoint.pool("one.hostpool.info").items():
        if host not in kept:
            endpoint.ok("one.host.delete", host)
        elif row.findtext("CLUSTER_ID") != "0":
            endpoint.ok("one.cluster.addhost", 0, host)
    _empty_clusters(endpoint)
    for kind, (method, arguments) in _POOLS.items():
        for oid, row in endpoint.pool(method, *arguments).items():
            if (row.findtext("NAME") or "").startswith(OURS):
                endpoint.until(_gone(endpoint, f"one.{kind}.delete", oid), f"{kind} {oid} gone")


def _gone(endpoint: Endpoint, method: str, oid: int) -> Callable[[], bool]:
    """Return a function that repeats the deletion until the object is gone."""

    def gone() -> bool:
        answer = endpoint.raw(method, oid)
        return answer[0] is True or answer[2] == _NOT_THERE

    return gone


def _empty_clusters(endpoint: Endpoint) -> None:
    for cluster, row in endpoint.pool("one.clusterpool.info").items():
        for store in row.iterfind("DATASTORES/ID") if cluster else ():
            endpoint.ok("one.cluster.deldatastore", cluster, int(store.text or ""))


def restore(endpoint: Endpoint, templates: dict[int, str]) -> bool:
    """Restore these hosts from their templates; return False if one is gone.

    A real server needs time until a new host is monitored.
    """
    present = endpoint.pool("one.hostpool.info")
    if not templates.keys() <= present.keys():
        return False
    for host, template in templates.items():
        # A host that is enabled again is monitored first, which takes seconds.
        if present[host].findtext("STATE") != MONITORED:
            endpoint.ok("one.host.status", host, _ENABLED)
        endpoint.ok("one.host.update", host, template, _REPLACE)
    endpoint.take_hosts(templates)
    return True
