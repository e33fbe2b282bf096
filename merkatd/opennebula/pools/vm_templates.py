"""Placement requirements from a VM's templates; equal requirements are stored once."""

from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from merkatd.base.bounded_cache import BoundedCache
from merkatd.opennebula.pools.constraint_facts import (
    NO_NODE,
    DiskLocation,
    NicWant,
    NumaWant,
    PciWant,
    RoleMember,
    VmRequirements,
)
from merkatd.opennebula.pools.one_states import PENDING, STOPPED, UNDEPLOYED, state_meaning
from merkatd.opennebula.requirements import OF_USERS
from merkatd.opennebula.rpc.xml_elements import (
    Element,
    UnreadableError,
    first,
    optional_text,
    whole_number,
)

_DISTINCT = 1 << 14
"""The number of different disk locations in the cache."""
_MOST_KEPT_BYTES = 1 << 26
"""The bytes of different requirements in the cache."""
_OF_A_TUPLE = 60
"""The bytes of a tuple of two texts."""
_DISK = (
    "SIZE",
    "DISK_SNAPSHOT_TOTAL_SIZE",
    "TYPE",
    "DATASTORE_ID",
    "CLONE",
    "CLONE_TARGET",
    "LN_TARGET",
)
_PCI = ("VENDOR", "DEVICE", "CLASS", "SHORT_ADDRESS", "PROFILE")
_NIC = ("NIC_ID", "SCHED_REQUIREMENTS", "SCHED_RANK")
_NUMA_NODE = ("TOTAL_CPUS", "MEMORY")
_TOPOLOGY = ("PIN_POLICY", "THREADS", "HUGEPAGE_SIZE", "NODE_AFFINITY")
_VOLATILE = frozenset({"SWAP", "FS"})
_KEPT_BY = frozenset({5, 6, 9})
"""Undeploy, undeploy-hard and stop: the actions after which a pending VM already has disks."""
_KIB = 1024
_MOST_OF_A_KIND = 512
"""The most disks, NICs, PCI devices and scheduled actions of a VM: no running VM has more."""

_Words = tuple[tuple[str, str], ...]


class LastRecord(NamedTuple):
    """The last history record of a VM."""

    host: int
    datastore: int
    action: int


class _Says(NamedTuple):
    """The unparsed texts of a VM's requirements."""

    automatic: str
    requirements: str
    automatic_ds: str
    requirements_ds: str
    automatic_nic: str
    rank: str
    rank_ds: str
    disks: tuple[_Words, ...]
    nics: tuple[_Words, ...]
    pcis: tuple[_Words, ...]
    topology: _Words
    nodes: tuple[_Words, ...]


def wants_of(
    template: Element, parts: Mapping[str, Element], user: Mapping[str, Element]
) -> VmRequirements:
    """Return a VM's requirements; equal ones are the same object. Raise UnreadableError."""
    nics = () if "NIC" not in parts else _automatic(template)
    pcis = () if "PCI" not in parts else _all(template, "PCI", _PCI)
    topology = () if "TOPOLOGY" not in parts else _words(parts["TOPOLOGY"], _TOPOLOGY)
    return _wants(
        _Says(
            optional_text(parts, "AUTOMATIC_REQUIREMENTS"),
            _cut(optional_text(user, "SCHED_REQUIREMENTS")),
            optional_text(parts, "AUTOMATIC_DS_REQUIREMENTS"),
            _cut(optional_text(user, "SCHED_DS_REQUIREMENTS")),
            optional_text(parts, "AUTOMATIC_NIC_REQUIREMENTS") if nics else "",
            _cut(optional_text(user, "SCHED_RANK" if "SCHED_RANK" in user else "RANK")),
            _cut(optional_text(user, "SCHED_DS_RANK")),
            _all(template, "DISK", _DISK),
            nics,
            pcis,
            topology,
            () if not topology else _all(template, "NUMA_NODE", _NUMA_NODE),
        )
    )


def member_of(parts: Mapping[str, Element]) -> RoleMember | None:
    """Return the VM's role in a VM group, None without one. Raise UnreadableError."""
    if "VMGROUP" not in parts:
        return None
    words = dict(_words(parts["VMGROUP"], ("VMGROUP_ID", "ROLE")))
    return RoleMember(_number(words, "VMGROUP_ID", "VMGROUP"), words.get("ROLE", ""))


def stay_of(state: int, life: int, record: LastRecord | None) -> DiskLocation | None:
    """Return the location of a VM's disks, None if it has none.

    A pending VM that was recreated has a record, but no disks.
    """
    if record is None or record.datastore < 0:
        return None
    if state_meaning(state, life).charged:
        return _stay(record.datastore, running=True)
    waits = (state, life) == PENDING and record.action in _KEPT_BY
    if waits or state in {STOPPED, UNDEPLOYED}:
        return _stay(record.datastore, running=False)
    return None


def actions_of(template: Element, parts: Mapping[str, Element]) -> tuple[Mapping[str, str], ...]:
    """Return the scheduled actions of a template, each as its parts by name."""
    if "SCHED_ACTION" not in parts:
        return ()
    actions = islice(template.iterchildren("SCHED_ACTION"), _MOST_OF_A_KIND)
    return tuple({str(word.tag): word.text or "" for word in action} for action in actions)


def _cut(text: str) -> str:
    """Return a user's text; of a too long one, only enough to show that it is too long."""
    return text[: OF_USERS.characters + 1]


def _words(element: Element, names: tuple[str, ...]) -> _Words:
    return tuple([(word.tag, word.text or "") for word in element.iterchildren(*names)])


def _all(template: Element, tag: str, names: tuple[str, ...]) -> tuple[_Words, ...]:
    elements = islice(template.iterchildren(tag), _MOST_OF_A_KIND)
    return tuple([_words(element, names) for element in elements])


def _automatic(template: Element) -> tuple[_Words, ...]:
    """Return the NICs whose network the scheduler must choose.

    A NIC with a network id has a lease already, which oned keeps until the VM ends.
    """
    return tuple(
        [
            _words(nic, _NIC)
            for nic in islice(template.iterchildren("NIC"), _MOST_OF_A_KIND)
            if (first(nic, "NETWORK_MODE") or "").upper() == "AUTO" and not first(nic, "NETWORK_ID")
        ]
    )


@lru_cache(maxsize=_DISTINCT)
def _stay(datastore: int, *, running: bool) -> DiskLocation:
    return DiskLocation(datastore, running)


def _made(says: _Says) -> VmRequirements:
    system_mib, image_mib, disk_mib = _space(says.disks)
    return VmRequirements(
        automatic=says.automatic,
        requirements=says.requirements,
        automatic_ds=says.automatic_ds,
        requirements_ds=says.requirements_ds,
        rank=says.rank,
        rank_ds=says.rank_ds,
        pcis=tuple(_pci(dict(words)) for words in says.pcis),
        nics=tuple(_nic(dict(words), says.automatic_nic) for words in says.nics),
        numa=_numa(dict(says.topology), says.nodes),
        system_mib=system_mib,
        image_mib=image_mib,
        disk_mib=disk_mib,
    )


def _bytes(says: _Says) -> int:
    """Estimate the bytes of a VM's texts and of the requirements made from them."""
    total = 0
    for part in says:
        total += sum(map(_taken, part)) if isinstance(part, tuple) else len(part)
    return 4 * total


def _taken(part: tuple[str, str] | _Words) -> int:
    return _OF_A_TUPLE + sum(
        len(value) if isinstance(value, str) else _OF_A_TUPLE + len(value[1]) for value in part
    )


_wants = BoundedCache(_made, lambda says, _wants: _bytes(says), _MOST_KEPT_BYTES)


def _space(disks: tuple[_Words, ...]) -> tuple[int, tuple[tuple[int, int], ...], int]:
    """Return the space of disks in a system datastore, in image datastores by id, and of all."""
    system_mib = disk_mib = 0
    images: dict[int, int] = {}
    for disk in map(dict, disks):
        size_mib = whole_number(disk.get("SIZE"))
        if size_mib is None:
            continue
        size_mib += whole_number(disk.get("DISK_SNAPSHOT_TOTAL_SIZE")) or 0
        disk_mib += size_mib
        if disk.get("TYPE", "").upper() in _VOLATILE:
            system_mib += size_mib
            continue
        datastore, clone = whole_number(disk.get("DATASTORE_ID")), disk.get("CLONE")
        if datastore is None or clone is None:
            continue
        target = disk.get("CLONE_TARGET" if clone.upper() == "YES" else "LN_TARGET", "").upper()
        if target == "SYSTEM":
            system_mib += size_mib
        elif target == "SELF":
            images[datastore] = images.get(datastore, 0) + size_mib
    return system_mib, tuple(sorted(images.items())), disk_mib


def _pci(words: Mapping[str, str]) -> PciWant:
    return PciWant(
        vendor=words.get("VENDOR", ""),
        device=words.get("DEVICE", ""),
        kind=words.get("CLASS", ""),
        address=words.get("SHORT_ADDRESS", ""),
        profile=words.get("PROFILE", ""),
    )


def _nic(words: Mapping[str, str], automatic: str) -> NicWant:
    """Return a NIC's request; oned's requirements apply only if the owner has some too."""
    asked = _cut(words.get("SCHED_REQUIREMENTS", ""))
    rank = _cut(words.get("SCHED_RANK", ""))
    return NicWant(_number(words, "NIC_ID", "NIC"), asked, rank, automatic if asked else "")


def _numa(topology: Mapping[str, str], nodes: tuple[_Words, ...]) -> NumaWant | None:
    policy = topology.get("PIN_POLICY", "").strip().upper() or "NONE"
    if policy == "NONE" and not nodes:
        return None
    return NumaWant(
        policy=policy,
        nodes=tuple(_node(dict(words)) for words in nodes),
        threads=whole_number(topology.get("THREADS")) or 0,
        hugepage_mib=whole_number(topology.get("HUGEPAGE_SIZE")) or 0,
        node_affinity=_affinity(topology),
    )


def _affinity(topology: Mapping[str, str]) -> int:
    node = whole_number(topology.get("NODE_AFFINITY"))
    return NO_NODE if node is None else node


def _node(words: Mapping[str, str]) -> tuple[int, int]:
    return (
        _number(words, "TOTAL_CPUS", "NUMA_NODE"),
        _number(words, "MEMORY", "NUMA_NODE") // _KIB,
    )


def _number(words: Mapping[str, str], name: str, where: str) -> int:
    number = whole_number(words.get(name))
    if number is None:
        shown = words.get(name, "")[:40]
        raise UnreadableError(f"{name} of {where} is {shown!r}, not a whole number")
    return number
