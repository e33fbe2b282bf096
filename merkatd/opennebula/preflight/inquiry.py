"""A few calls to a server, one after another."""

import http.client
import ssl
import xmlrpc.client
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lxml import etree

from merkatd.opennebula.preflight.advice import ON_RULES, ClusterFacts, ServerFacts, release
from merkatd.syntax.lenient_xml import element_of

Call = Callable[..., Any]
"""A method and its arguments, without the session: its value. Raises RefusedError, OSError."""


class CallRefusedError(Exception):
    """The server answered and would not, or can't be believed; the message says which."""


class _Patient(xmlrpc.client.Transport):
    """Waits for an answer only so long."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(use_builtin_types=True)
        self._limit_s = limit_s

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        connection = super().make_connection(host)
        connection.timeout = self._limit_s
        return connection


class _PatientTls(xmlrpc.client.SafeTransport):
    """The same where the server's certificate is verified first."""

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
    """Calls to a server; behind https it is believed as the daemon would believe it.

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
        raise CallRefusedError(f"{method}: this is no answer of OpenNebula: {str(reply)[:60]}")

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
        raise CallRefusedError(f"{authorities}: holds no certificate; PEM is right") from None
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
"""Kinds of objects and the rights on all of them, for a login that is no administrator's."""


def inquire(call: Call) -> ServerFacts:
    """Find out what `advice` is given about. Raises RefusedError, OSError."""
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
        raise CallRefusedError(f"an answer is no XML: {error.msg}") from None


def _ids(element: Any, path: str) -> frozenset[int]:
    return frozenset(int(one.text) for one in element.findall(path) if (one.text or "").isdecimal())


def _clusters(pool: Any, hosts: Any) -> tuple[ClusterFacts, ...]:
    where = [one.findtext("CLUSTER_ID") for one in hosts.findall("HOST")]
    return tuple(
        ClusterFacts(
            id=int(one.findtext("ID")),
            name=one.findtext("NAME", ""),
            hosts=where.count(one.findtext("ID")),
            automation=one.findtext("TEMPLATE/ONE_DRS/AUTOMATION", "").strip().lower(),
        )
        for one in pool.findall("CLUSTER")
    )


def _configured(call: Call) -> tuple[tuple[str, ...] | None, float | None]:
    """The scheduler drivers' arguments and how often clusters are optimised, if we may know."""
    try:
        config = _tree(call("one.system.config"))
    except CallRefusedError:
        return None, None
    interval = config.findtext("DRS_INTERVAL", "")
    return (
        tuple(one.findtext("ARGUMENTS", "") for one in config.findall("SCHED_MAD")),
        float(interval) if interval.lstrip("-").isdecimal() else None,
    )


def _embedded(call: Call) -> bool:
    """Whether the server answers what no OpenNebula does."""
    try:
        call("embedded.limits.table", [])
    except CallRefusedError:
        return False
    return True


def _raft_state(call: Call) -> int | None:
    """Whether the server leads its zone; None where the login may not know."""
    try:
        return int(_tree(call("one.zone.raftstatus")).findtext("STATE", "-1"))
    except CallRefusedError:
        return None


def _missing(call: Call, user: int, groups: frozenset[int]) -> tuple[str, ...]:
    """The rights that no rule gives this login on everything, as `oneacl` writes them.

    Whoever may not read the rules lacks that right, and nothing is known of the others.
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
    found = []
    for kinds, rights in NEEDED:
        lacking = [kind for kind in kinds if not all(_given(ours, kind, one) for one in rights)]
        if lacking:
            found.append(f"{'+'.join(lacking)}/* {'+'.join(rights)}")
    return tuple(found)


def _given(rules: list[tuple[int, int]], kind: str, right: str) -> bool:
    return any(
        resource & _KINDS[kind] and resource & _ALL and rights & _RIGHTS[right]
        for resource, rights in rules
    )


def processes_named(proc: Path, name: str) -> Iterator[int]:
    """The ids of processes of this name."""
    for entry in sorted(proc.glob("[0-9]*")):
        try:
            if (entry / "comm").read_text().strip() == name:
                yield int(entry.name)
        except OSError:
            continue  # it has ended, or is nobody's business
