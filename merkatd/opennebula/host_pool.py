"""Hosts and their samples from the texts of the pools."""

from collections.abc import Mapping
from typing import NamedTuple

from twisted.logger import Logger

from merkatd.opennebula.elements import Element, UnreadableError, children, ids, rows, text, whole

_log = Logger()

_KIB = 1024


class HostRow(NamedTuple):
    """What is used of a host."""

    id: int
    name: str
    cluster: int
    state: int
    cpu: float
    """In percent of a core, less what is reserved."""
    memory_mib: float
    vms: tuple[int, ...]
    """That oned charges it for."""


class Load(NamedTuple):
    """What a host was last seen to use."""

    cpu: float
    memory_mib: float


def read_hosts(pool: str) -> list[HostRow]:
    """The hosts of a pool's text; those that can't be read are left out, and logged.

    Raises BrokenError where the text breaks off.
    """
    found = []
    for element in rows(pool, "HOST_POOL", "HOST"):
        try:
            found.append(_row(element))
        except UnreadableError as error:
            host = element.findtext("ID")
            _log.warn("host {host} can't be read and is left out: {why}", host=host, why=error)
    return found


def _row(host: Element) -> HostRow:
    parts = children(host)
    share = children(parts["HOST_SHARE"]) if "HOST_SHARE" in parts else {}
    vms = parts.get("VMS", ())
    return HostRow(
        id=whole(parts, "ID"),
        name=text(parts, "NAME"),
        cluster=whole(parts, "CLUSTER_ID"),
        state=whole(parts, "STATE"),
        cpu=float(max(whole(share, "MAX_CPU"), 0)),
        memory_mib=max(whole(share, "MAX_MEM"), 0) / _KIB,
        vms=ids(vms),
    )


def read_samples(pool: str) -> Mapping[int, Load]:
    """By host id: what the last samples show; those that can't be read are left out."""
    found = {}
    for element in rows(pool, "MONITORING_DATA", "MONITORING"):
        try:
            parts = children(element)
            capacity = children(parts["CAPACITY"]) if "CAPACITY" in parts else {}
            found[whole(parts, "ID")] = Load(
                float(whole(capacity, "USED_CPU")), whole(capacity, "USED_MEMORY") / _KIB
            )
        except UnreadableError:
            continue
    return found
