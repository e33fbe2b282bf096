"""Collection of the facts about a server, by a few calls in sequence."""

import http.client
import ssl
import xmlrpc.client
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lxml import etree

from merkatd.opennebula.preflight.advice import ON_RULES, ClusterFacts, ServerFacts, release
from merkatd.syntax.lenient_xml import element_of

Call = Callable[..., Any]
"""A function that calls a method with arguments, without the session, and returns its value.

It raises CallRefusedError or OSError.
"""


class CallRefusedError(Exception):
    """The server refused a call or gave an invalid answer; the message says which."""


class _Patient(xmlrpc.client.Transport):
    """A transport that waits `limit_s` for an answer."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(use_builtin_types=True)
        self._limit_s = limit_s

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        connection = super().make_connection(host)
        connection.timeout = self._limit_s
        return connection


class _PatientTls(xmlrpc.client.SafeTransport):
    """A transport over TLS that verifies the server's certificate and waits `limit_s`."""

    def __init__(self, limit_s: float, context: ssl.SSLContext) -> None:
        super().__init__(use_builtin_types=True, context=context)
        self._limit_s = limit_s

    def make_connection(self, host: Any) -> http.client.HTTPSConnection:
        connection = super().make_connection(host)
        connection.timeout = self._limit_s
        return connection


@contextmanager
def calling(
    endpoint: str, session: str, limit_s: float, authorities: Path | None = None
) -> Iterator[Call]:
    """Open a connection for calls to a server; with https, verify it as the daemon does.

    `authorities` is a file of certificates (PEM) that are trusted instead of the system's.
    """
    transport = _transport(endpoint, limit_s, authorities)
    server: Any = xmlrpc.client.ServerProxy(endpoint, transport=transport)

    def call(method: str, *arguments: Any) -> Any:
        try:
            reply = server.__getattr__(method)(session, *arguments)
        except (xmlrpc.client.Error, http.client.HTTPException) as error:
            raise CallRefusedError(f"{method}: {error}") from error
        match reply:
            case [True, value, *_]:
                return value
            case [False, text, *_]:
                raise CallRefusedError(str(text))
        raise CallRefusedError(f"{method}: not an answer of OpenNebula: {str(reply)[:60]}")

    try:
        yield call
    finally:
        server("close")()


def _transport(endpoint: str, limit_s: float, authorities: Path | None) -> _Patient | _PatientTls:
    if not endpoint.startswith("https:"):
        return _Patient(limit_s)
    try:
        context = ssl.create_default_context(cafile=authorities)
    except ssl.SSLError:
        raise CallRefusedError(
            f"{authorities}: contains no certificate; expected certificates in PEM format"
        ) from None
    except OSError as error:
        raise CallRefusedError(f"{authorities}: can't be read: {error.strerror}") from None
    return _PatientTls(limit_s, context)


_ADMINISTRATORS = 0
_WITH_DRIVERS = (7, 0)
_OLD_SCHEDULER = "mm_sched"
_ALL = 0x400000000
_USER, _GROUP = 0x100000000, 0x200000000
_ID = 0xFFFFFFFF
_RIGHTS = {"USE": 1, "MANAGE": 2, "ADMIN": 4}
_KINDS = {
    "VM": 0x1000000000,
    "HOST": 0x2000000000,
    "NET": 0x4000000000,
    "USER": 0x10000000000,
    "GROUP": 0x40000000000,
    "ACL": 0x80000000000,
    "ZONE": 0x800000000000,
    "DATASTORE": 0x100000000000,
    "CLUSTER": 0x200000000000,
    "VMGROUP": 0x20000000000000,
}
NEEDED = (
    (("VM",), ("USE", "MANAGE", "ADMIN")),
    (("HOST",), ("USE", "MANAGE")),
    (("CLUSTER", "DATASTORE", "NET", "VMGROUP", "USER", "GROUP"), ("USE",)),
    (("ACL",), ("MANAGE",)),
    (("ZONE",), ("ADMIN",)),
)
"""The necessary rights of a login that is no administrator's, on all objects of each kind."""


def inquire(call: Call) -> ServerFacts:
    """Collect the facts that `advice` needs. Raise CallRefusedError, OSError."""
    version = str(call("one.system.version"))
    me = _tree(call("one.user.info", -1))
    user, groups = int(me.findtext("ID", "-1")), _ids(me, "GROUPS/ID")
    clusters = _clusters(_tree(call("one.clusterpool.info")), _tree(call("one.hostpool.info")))
    drivers, interval_s = _configured(call) if release(version) >= _WITH_DRIVERS else ((), None)
    return ServerFacts(
        version=version,
        user=user,
        groups=groups,
        clusters=clusters,
        missing=() if user == 0 or _ADMINISTRATORS in groups else _missing(call, user, groups),
        drivers=drivers,
        drs_interval_s=interval_s,
        raft_state=_raft_state(call),
        embedded=_embedded(call),
        schedulers=tuple(processes_named(Path("/proc"), _OLD_SCHEDULER)),
    )


def _tree(text: Any) -> Any:
    try:
        parser = etree.XMLParser(resolve_entities=False)
        return element_of(str(text).encode(), parser, resolve_entities=False)
    except etree.XMLSyntaxError as error:
        raise CallRefusedError(f"an answer is not XML: {error.msg}") from None


def _ids(element: Any, path: str) -> frozenset[int]:
    return frozenset(
        int(part.text) for part in element.findall(path) if (part.text or "").isdecimal()
    )


def _clusters(pool: Any, hosts: Any) -> tuple[ClusterFacts, ...]:
    inside: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
    for host in hosts.findall("HOST"):
        inside[host.findtext("CLUSTER_ID", "")].append(_attributes(host))
    return tuple(
        ClusterFacts(
            id=int(cluster.findtext("ID")),
            name=cluster.findtext("NAME", ""),
            hosts=len(inside[cluster.findtext("ID")]),
            automation=cluster.findtext("TEMPLATE/ONE_DRS/AUTOMATION", "").strip().lower(),
            attributes=_attributes(cluster).union(*inside[cluster.findtext("ID")]),
        )
        for cluster in pool.findall("CLUSTER")
    )


def _attributes(element: Any) -> frozenset[str]:
    """Return the names of the attributes in a template, without empty ones."""
    return frozenset(
        part.tag for part in element.iterfind("TEMPLATE/*") if (part.text or "").strip()
    )


def _configured(call: Call) -> tuple[tuple[str, ...] | None, float | None]:
    """Return the scheduler drivers' arguments and the DRS interval, None if not readable."""
    try:
        config = _tree(call("one.system.config"))
    except CallRefusedError:
        return None, None
    interval = config.findtext("DRS_INTERVAL", "")
    return (
        tuple(driver.findtext("ARGUMENTS", "") for driver in config.findall("SCHED_MAD")),
        float(interval) if interval.lstrip("-").isdecimal() else None,
    )


def _embedded(call: Call) -> bool:
    """Return whether the server answers a call that only the embedded cloud has."""
    try:
        call("embedded.limits.table", [])
    except CallRefusedError:
        return False
    return True


def _raft_state(call: Call) -> int | None:
    """Return the server's Raft state, None if the login may not read it."""
    try:
        return int(_tree(call("one.zone.raftstatus")).findtext("STATE", "-1"))
    except CallRefusedError:
        return None


def _missing(call: Call, user: int, groups: frozenset[int]) -> tuple[str, ...]:
    """Return the rights that no rule gives this login on all objects, in the form of `oneacl`.

    If the login may not read the rules, return that right alone: the others are unknown.
    """
    try:
        known = _tree(call("one.acl.info")).findall("ACL")
    except CallRefusedError:
        return (ON_RULES,)
    rules = [
        tuple(int(rule.findtext(name, "0"), 16) for name in ("USER", "RESOURCE", "RIGHTS"))
        for rule in known
    ]
    who = {_USER | user, _ALL, *(_GROUP | group for group in groups)}
    ours = [(resource, rights) for about, resource, rights in rules if about in who]
    rights_lacking = []
    for kinds, rights in NEEDED:
        lacking = [kind for kind in kinds if not all(_given(ours, kind, right) for right in rights)]
        if lacking:
            rights_lacking.append(f"{'+'.join(lacking)}/* {'+'.join(rights)}")
    return tuple(rights_lacking)


def _given(rules: list[tuple[int, int]], kind: str, right: str) -> bool:
    return any(
        resource & _KINDS[kind] and resource & _ALL and rights & _RIGHTS[right]
        for resource, rights in rules
    )


def processes_named(proc: Path, name: str) -> Iterator[int]:
    """Yield the ids of processes with this name."""
    for entry in sorted(proc.glob("[0-9]*")):
        try:
            if (entry / "comm").read_text().strip() == name:
                yield int(entry.name)
        except OSError:
            continue  # the process has ended, or may not be read
