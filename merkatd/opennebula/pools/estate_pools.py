"""Parsers for the pools of datastores, networks, VM groups, users, groups, rules and clusters."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar

from twisted.logger import Logger

from merkatd.opennebula.pools.constraint_facts import (
    AccessRule,
    DatastoreFacts,
    GroupRule,
    NetworkFacts,
    Role,
    UserFacts,
)
from merkatd.opennebula.pools.host_pool import Values, words_of
from merkatd.opennebula.rpc.xml_elements import (
    BrokenError,
    Element,
    UnreadableError,
    children,
    first,
    ids,
    measured,
    object_id,
    optional_text,
    parsed,
    rows,
    separate,
    text,
    whole,
    whole_number,
)

_log = Logger()

Thing = TypeVar("Thing")

MOST_ROLES = 32
"""The most roles of a VM group, as in OpenNebula; the time to read them is quadratic."""
LONGEST_WORD = 1_024
"""The most characters of a network's attribute that requirements can name."""
MOST_WORDS = 8_192
"""The most characters of all these attributes of a network. Tenants own networks too (reservations)
and write texts of megabytes: one comparison with 1 MB took 0.5 s, and no other thread ran."""
_OF_A_WORD = 16
"""The characters for which each attribute counts in any case."""
_READY = 0
_ROOT = re.compile(r"<(\w+)_POOL>")
_NUMBER = re.compile(rb"<ID>(\d{1,18})</ID>")
_BITS: Mapping[str, int] = MappingProxyType(
    {
        f"{who}_{right}": 1 << place
        for place, (who, right) in enumerate(
            (who, right) for who in ("OTHER", "GROUP", "OWNER") for right in "AMU"
        )
    }
)
"""The value of each part of PERMISSIONS: 0o400 for the owner's use, 0o001 for others' admin."""


def read_datastores(pool: str) -> tuple[DatastoreFacts, ...]:
    """Return all readable datastores. Raise BrokenError."""
    return tuple(_each(pool, "DATASTORE_POOL", "DATASTORE", _datastore))


def read_networks(pool: str) -> tuple[NetworkFacts, ...]:
    """Return all readable networks. Raise BrokenError."""
    return tuple(_each(pool, "VNET_POOL", "VNET", _network))


def read_vm_groups(pool: str) -> tuple[GroupRule, ...]:
    """Return all readable VM groups. Raise BrokenError."""
    return tuple(_each(pool, "VM_GROUP_POOL", "VM_GROUP", _vm_group))


def read_users(pool: str) -> Mapping[int, UserFacts]:
    """Return all readable users by id. Raise BrokenError."""
    return {user.id: user for user in _each(pool, "USER_POOL", "USER", _user)}


def read_groups(pool: str) -> Mapping[int, str]:
    """Return the names of all readable groups of users by id. Raise BrokenError."""
    return dict(_each(pool, "GROUP_POOL", "GROUP", _named))


def read_rules(pool: str) -> tuple[AccessRule, ...]:
    """Return all readable access rules. Raise BrokenError."""
    return tuple(_each(pool, "ACL_POOL", "ACL", _rule))


AUTOMATION = "ONE_DRS.AUTOMATION"
"""A key among a cluster's facts. The dot keeps requirements from naming it."""


def read_clusters(pool: str) -> tuple[Mapping[int, str], Mapping[int, Values]]:
    """Return the clusters' names and their templates' facts, by id. Raise BrokenError."""
    clusters = list(_each(pool, "CLUSTER_POOL", "CLUSTER", _cluster))
    return {group: name for group, name, _ in clusters}, {
        group: values for group, _, values in clusters
    }


def _each(pool: str, name: str, tag: str, read: Callable[[Element], Thing]) -> Iterator[Thing]:
    """Return all readable objects of a pool; unreadable ones are left out and logged."""
    try:
        things = _read_each(rows(pool, name, tag), tag, read)
    except BrokenError:
        things = _read_each(_readable_elements(pool, name, tag), tag, read)
    return iter(things)


def _read_each(
    elements: Iterable[Element], tag: str, read: Callable[[Element], Thing]
) -> list[Thing]:
    things = []
    for element in elements:
        try:
            things.append(read(element))
        except UnreadableError as error:
            _left_out(tag, element.findtext("ID"), error)
    return things


def _readable_elements(pool: str, name: str, tag: str) -> Iterator[Element]:
    """Yield the readable elements of a pool; log others. Raise BrokenError if it is cut off."""
    for piece in separate(pool, name, tag):
        try:
            element = parsed(piece)
        except BrokenError as error:
            id_match = _NUMBER.search(piece)
            _left_out(tag, id_match[1].decode() if id_match else None, error)
        else:
            yield element


def _left_out(tag: str, number: str | None, why: Exception) -> None:
    _log.warn(
        "{tag} {number} can't be read and is left out: {why}", tag=tag, number=number, why=why
    )


def _datastore(element: Element) -> DatastoreFacts:
    parts = children(element)
    says = children(parts["TEMPLATE"]) if "TEMPLATE" in parts else {}
    free_mib, used_mib = (
        measured(optional_text(parts, "FREE_MB")),
        measured(optional_text(parts, "USED_MB")),
    )
    limit_mib = whole_number(optional_text(says, "LIMIT_MB"))
    if limit_mib is not None:
        free_mib = min(free_mib, max(limit_mib - used_mib, 0.0))
    return DatastoreFacts(
        id=object_id(parts),
        name=text(parts, "NAME"),
        kind=whole(parts, "TYPE"),
        clusters=frozenset(ids(parts.get("CLUSTERS", ()))),
        usable=(whole_number(optional_text(parts, "STATE")) or 0) == _READY,
        free_mib=free_mib,
        total_mib=measured(optional_text(parts, "TOTAL_MB")),
        shared=(optional_text(says, "SHARED") or "YES").upper() == "YES",
        owner=object_id(parts, "UID"),
        group=object_id(parts, "GID"),
        permissions=_permissions(parts),
        values=words_of(element, parts.get("TEMPLATE")),
    )


def _network(element: Element) -> NetworkFacts:
    parts = children(element)
    # With several AR_POOLs, one may be forged by an owner's text (Note [Texts that forge]).
    pools = list(element.iterchildren("AR_POOL"))
    ranges = pools[0].iterchildren("AR") if len(pools) == 1 else ()
    leases = sum(whole_number(first(leased, "SIZE")) or 0 for leased in ranges)
    return NetworkFacts(
        id=object_id(parts),
        name=text(parts, "NAME"),
        clusters=frozenset(ids(parts.get("CLUSTERS", ()))),
        free_leases=leases - (whole_number(optional_text(parts, "USED_LEASES")) or 0),
        owner=object_id(parts, "UID"),
        group=object_id(parts, "GID"),
        permissions=_permissions(parts),
        values=_bounded(words_of(element, parts.get("TEMPLATE"))),
    )


def _bounded(values: Values) -> Values:
    """Return the attributes without long ones, the first ones up to `MOST_WORDS` characters."""
    kept: dict[str, list[str]] = {}
    room = MOST_WORDS
    for name, texts in values.items():
        for text_ in texts:
            size = max(len(name) + len(text_), _OF_A_WORD)
            if len(text_) <= LONGEST_WORD and size <= room:
                room -= size
                kept.setdefault(name, []).append(text_)
    return dict(kept)


def _permissions(parts: Mapping[str, Element]) -> int:
    given = parts.get("PERMISSIONS", ())
    return sum(_BITS.get(str(right.tag), 0) for right in given if right.text == "1")


def _vm_group(element: Element) -> GroupRule:
    parts = children(element)
    rules, roles = parts.get("TEMPLATE"), parts.get("ROLES", ())
    if len(roles) > MOST_ROLES:
        raise UnreadableError(f"it must have at most {MOST_ROLES} roles (got {len(roles)})")
    return GroupRule(
        id=object_id(parts),
        name=text(parts, "NAME"),
        roles=tuple(_role(children(role)) for role in roles),
        affined=_sets(rules, "AFFINED"),
        anti_affined=_sets(rules, "ANTI_AFFINED"),
    )


def _role(parts: Mapping[str, Element]) -> Role:
    return Role(
        id=object_id(parts),
        name=text(parts, "NAME"),
        policy=optional_text(parts, "POLICY").strip().upper() or "NONE",
        host_affined=_hosts(optional_text(parts, "HOST_AFFINED")),
        host_anti_affined=_hosts(optional_text(parts, "HOST_ANTI_AFFINED")),
    )


def _hosts(listed: str) -> frozenset[int]:
    numbers = (whole_number(number.strip()) for number in listed.split(","))
    return frozenset(number for number in numbers if number is not None)


def _sets(rules: Element | None, tag: str) -> tuple[tuple[str, ...], ...]:
    """Return the names in each rule of a kind."""
    elements = () if rules is None else rules.iterchildren(tag)
    return tuple(
        tuple(filter(None, (name.strip() for name in (rule.text or "").split(","))))
        for rule in elements
    )


def _user(element: Element) -> UserFacts:
    parts = children(element)
    primary = object_id(parts, "GID")
    others = (group for group in ids(parts.get("GROUPS", ())) if group != primary)
    return UserFacts(object_id(parts), text(parts, "NAME"), (primary, *others))


def _named(element: Element) -> tuple[int, str]:
    parts = children(element)
    return object_id(parts), text(parts, "NAME")


def _cluster(element: Element) -> tuple[int, str, Values]:
    parts = children(element)
    words = words_of(parts.get("TEMPLATE"))
    automation = (element.findtext("TEMPLATE/ONE_DRS/AUTOMATION") or "").strip().lower()
    if automation:
        words = {**words, AUTOMATION: [automation]}
    return object_id(parts), text(parts, "NAME"), words


def _rule(element: Element) -> AccessRule:
    parts = children(element)
    user, resource, rights, zone = (
        _hexadecimal(parts, name) for name in ("USER", "RESOURCE", "RIGHTS", "ZONE")
    )
    return AccessRule(object_id(parts), user, resource, rights, zone)


def _hexadecimal(parts: Mapping[str, Element], name: str) -> int:
    digits = text(parts, name)
    try:
        return int(digits, 16)
    except ValueError:
        shown = repr(digits[:40])
        raise UnreadableError(f"{name} is {shown}, not a hexadecimal number") from None


def longest_of(pool: str) -> str:
    """Return a description of the longest object in a pool's text, with its length."""
    root = _ROOT.match(pool)
    tag = root[1] if root else "-"
    begins = [*re.finditer(rf"<{tag}><ID>(\d{{1,18}})</ID>", pool)]
    ends = [*(begin.start() for begin in begins[1:]), len(pool)]
    lengths = [end - begin.start() for begin, end in zip(begins, ends, strict=False)]
    if not lengths:
        return "no object with an id"
    number = begins[lengths.index(max(lengths))][1]
    return f"{tag} {number} with {max(lengths) / (1 << 20):.1f} MiB"
