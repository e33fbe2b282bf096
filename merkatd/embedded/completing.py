"""What oned adds to the template of a new VM: ids, a topology's numbers, its own requirements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.template import Template, number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from merkatd.embedded.template import Attribute, Vector

VM_ATTRIBUTES = frozenset(
    {
        "BACKUP_CONFIG", "CONTEXT", "CPU", "CPU_COST", "CPU_MODEL", "DISK", "DISK_COST", "EMULATOR",
        "FEATURES", "GRAPHICS", "HYPERV_OPTIONS", "INPUT", "MEMORY", "MEMORY_COST", "MEMORY_MAX",
        "MEMORY_SLOTS", "MEMORY_RESIZE_MODE", "NIC", "NIC_ALIAS", "NIC_DEFAULT", "NUMA_NODE", "OS",
        "PCI", "RAW", "SCHED_ACTION", "SECURITY_GROUP_RULE", "SNAPSHOT", "SPICE_OPTIONS",
        "SUBMIT_ON_HOLD", "TEMPLATE_ID", "TOPOLOGY", "TPM", "VCPU", "VCPU_MAX", "VIDEO", "VMGROUP",
    }
)  # fmt: skip
"""What stays in a VM's own template; all else is its user template."""

NOT_KEPT = VM_ATTRIBUTES | {"NAME", "VMID"}
"""What is no part of the user template."""

_UNPINNED = frozenset({"", "NONE"})


def completed(template: Template, oid: int, uuid: str) -> Template:
    """The VM's own template, as oned keeps it."""
    own = template.only(VM_ATTRIBUTES)
    os = {**template.vector("OS"), "UUID": uuid}
    pin = "" if pinned(own) else "!"
    more: dict[str, str | Vector] = {
        "AUTOMATIC_REQUIREMENTS": f"!(PUBLIC_CLOUD = YES) & {pin}(PIN_POLICY = PINNED)",
        "CPU": f"{number(template.get('CPU'), float, 0):g}",
        "OS": tuple(sorted(os.items())),
        "VMID": str(oid),
    }
    if own.get("SUBMIT_ON_HOLD"):
        more["SUBMIT_ON_HOLD"] = own.get("SUBMIT_ON_HOLD").upper()
    return _numbered(own.plus({**more, **dict(_topology(own))}.items()))


def pinned(template: Template) -> bool:
    """Whether oned pins the VM to cores."""
    return template.vector("TOPOLOGY").get("PIN_POLICY", "").upper() not in _UNPINNED


def _topology(own: Template) -> Iterable[Attribute]:
    topology = own.vector("TOPOLOGY")
    if not topology:
        return
    vcpus = own.get("VCPU") or "1"
    policy = topology.get("PIN_POLICY", "NONE").upper()
    whole = {"SOCKETS": "1", "PIN_POLICY": policy, **topology}
    if policy in _UNPINNED:
        whole = {"CORES": vcpus, "THREADS": "1", **whole}
    yield "TOPOLOGY", tuple(sorted(whole.items()))
    if policy not in _UNPINNED:
        # A pinned VM has its processors whole.
        yield "CPU", vcpus
        yield "VCPU", vcpus
    if policy not in _UNPINNED or "NODE_AFFINITY" in topology:
        kib = int(number(own.get("MEMORY"), int, 0)) * 1024
        yield "NUMA_NODE", (("MEMORY", str(kib)), ("TOTAL_CPUS", vcpus))


_EXTRA: dict[str, Callable[[int], dict[str, str]]] = {
    "NIC": lambda place: {"NIC_ID": str(place), "NAME": f"NIC{place}"},
    "PCI": lambda place: {
        "PCI_ID": str(place),
        "VM_ADDRESS": f"01:{place + 1:02x}.0",
        "VM_BUS": "0x01",
        "VM_DOMAIN": "0x0000",
        "VM_FUNCTION": "0",
        "VM_SLOT": f"0x{place + 1:02x}",
    },
    "DISK": lambda place: {
        "DISK_ID": str(place),
        "DEV_PREFIX": "sd",
        "TARGET": f"sd{chr(ord('a') + place)}",
    },
}


def _numbered(own: Template) -> Template:
    """NICs, devices and disks get their ids in order."""
    seen = dict.fromkeys(_EXTRA, 0)
    found: list[Attribute] = []
    for name, value in own.attributes:
        if name in _EXTRA and not isinstance(value, str):
            found.append((name, _with(value, _EXTRA[name](seen[name]))))
            seen[name] += 1
        else:
            found.append((name, value))
    return Template(tuple(found))


def _with(vector: Vector, more: dict[str, str]) -> Vector:
    return tuple(sorted({**more, **dict(vector)}.items()))
