"""Hosts and their samples from the texts of the pools; of a host that is as it was, what it was."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from types import MappingProxyType
from typing import NamedTuple

from lxml import etree
from twisted.logger import Logger

from merkatd.opennebula.elements import (
    BrokenError,
    Element,
    UnreadableError,
    children,
    ids,
    measured,
    object_id,
    parsed,
    pieces,
    rows,
    said,
    text,
    whole,
)
from merkatd.opennebula.host_facts import facts_of, joined, words_of
from merkatd.opennebula.wanted import Facts

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
    charged_cpu: float
    """What oned charges it for them,"""
    charged_mib: float
    facts: Facts


class Load(NamedTuple):
    """What a host was last seen to use."""

    cpu: float
    memory_mib: float
    words: Mapping[str, Sequence[str]] = MappingProxyType({})
    """All that the sample says."""


class HostPool:
    """Reads hosts again and again: most of them say what they said before."""

    def __init__(self) -> None:
        self._known: dict[bytes, HostRow] = {}

    def read(self, pool: str) -> list[HostRow]:
        """The hosts of a pool's text; those that can't be read are left out, and logged.

        Raises BrokenError where the text breaks off.
        """
        found = pieces(pool, "HOST_POOL", "HOST")
        if found is None:
            return self._rows(_streamed(pool))
        cut = list(found)
        try:
            return self._rows(cut)
        except BrokenError:
            try:
                return self._rows(_streamed(pool))
            except BrokenError:
                return self._rows(filter(_is_whole, cut))

    def _rows(self, texts: Iterable[bytes]) -> list[HostRow]:
        known: dict[bytes, HostRow] = {}
        found: dict[int, HostRow] = {}
        for piece in texts:
            key = blake2b(piece, digest_size=16).digest()
            row = self._known.get(key) or _row_of(piece)
            if row is not None:
                known[key] = found[row.id] = row
        self._known = known
        return list(found.values())


def read_hosts(pool: str) -> list[HostRow]:
    """The hosts of a pool's text, read for the first time."""
    return HostPool().read(pool)


def with_facts(
    hosts: Sequence[HostRow],
    load: Mapping[int, Load],
    clusters: Mapping[int, Mapping[str, Sequence[str]]],
) -> list[HostRow]:
    """The hosts with all that requirements can ask of them."""
    nothing: Mapping[str, Sequence[str]] = {}
    found = []
    for host in hosts:
        sample = load[host.id].words if host.id in load else nothing
        others = sample, clusters.get(host.cluster, nothing)
        facts = replace(host.facts, values=joined(host.facts.values, *others))
        found.append(host._replace(facts=facts))
    return found


def _streamed(pool: str) -> list[bytes]:
    """Each host's own text. Raises BrokenError."""
    elements = rows(pool, "HOST_POOL", "HOST")
    return [etree.tostring(one, encoding="utf-8", with_tail=False) for one in elements]


def _is_whole(piece: bytes) -> bool:
    try:
        parsed(piece)
    except BrokenError as error:
        _log.warn("a host is no XML and is left out: {why}", why=error)
        return False
    return True


def _row_of(piece: bytes) -> HostRow | None:
    """The host, None where it can't be read. Raises BrokenError where it is no XML."""
    element = parsed(piece)
    try:
        return _row(element, piece)
    except UnreadableError as error:
        host = element.findtext("ID")
        _log.warn("host {host} can't be read and is left out: {why}", host=host, why=error)
        return None


def _row(host: Element, piece: bytes) -> HostRow:
    parts = children(host)
    share = children(parts["HOST_SHARE"]) if "HOST_SHARE" in parts else {}
    number, cluster = object_id(parts), whole(parts, "CLUSTER_ID")
    vms = ids(parts.get("VMS", ()))
    return HostRow(
        id=number,
        name=text(parts, "NAME"),
        cluster=cluster,
        state=whole(parts, "STATE"),
        cpu=float(max(whole(share, "MAX_CPU"), 0)),
        memory_mib=max(whole(share, "MAX_MEM"), 0) / _KIB,
        vms=vms,
        charged_cpu=measured(said(share, "CPU_USAGE")),
        charged_mib=measured(said(share, "MEM_USAGE")) / _KIB,
        facts=facts_of(number, cluster, frozenset(vms), host, piece),
    )


def read_samples(pool: str) -> Mapping[int, Load]:
    """By host id: what the last samples show; those that can't be read are left out."""
    found = {}
    for element in rows(pool, "MONITORING_DATA", "MONITORING"):
        try:
            parts = children(element)
            capacity = children(parts["CAPACITY"]) if "CAPACITY" in parts else {}
            found[object_id(parts)] = Load(
                float(whole(capacity, "USED_CPU")),
                whole(capacity, "USED_MEMORY") / _KIB,
                words_of(parts.get("CAPACITY"), parts.get("SYSTEM")),
            )
        except UnreadableError:
            continue
    return found
