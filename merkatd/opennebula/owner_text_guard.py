"""What a VM template may not say where the daemon's own account makes an owner's VM.

OpenNebula refuses that account nothing. What it would refuse the owner is therefore refused here:
attributes that the site restricts, and references that OpenNebula would check by the owner's
rights.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from merkatd.syntax import Template

_TRUSTED: Final = re.compile(
    r"SOURCE|MAC|VLAN_ID|BRIDGE|BRIDGE_TYPE|PHYDEV|FILTER|FILES|FILES_DS|KERNEL_DS|INITRD_DS"
    r"|RAW|EMULATOR|TM_MAD|DATASTORE_ID|DATASTORE|CLUSTER_ID|SCHED_DS_\w+|PIN_POLICY|NUMA_NODE"
    r"|USER_PRIORITY|SCHED_RANK|PCI|USB|IMPORT_VM_ID|DEPLOY_ID|(?:CPU|MEMORY|DISK)_COST"
    r"|(?:TOTAL|READ|WRITE)_(?:BYTES|IOPS)_SEC\w*|SIZE_IOPS_SEC|(?:INBOUND|OUTBOUND)_\w+"
    r"|ORIGINAL_SIZE|OPENNEBULA_MANAGED|VCENTER_\w+|SECURITY_GROUPS|VMGROUP_NAME",
    re.ASCII,
)
"""What OpenNebula restricts, or takes from the maker of a VM."""
_BY_NAME: Final = re.compile(r"(?:IMAGE|NETWORK)(?:_UNAME|_UID)?")
_IDS: Final = {"IMAGE_ID": "one.image.info", "NETWORK_ID": "one.vn.info",
               "VMGROUP_ID": "one.vmgroup.info"}  # fmt: skip
_ID: Final = re.compile(r"[0-9]{1,9}")
_VARIABLE: Final = re.compile(
    r"\$\n*(?:(USER|NETWORK|IMAGE|FILE)\n*\[|(UID|UNAME|GID|GNAME)(?!\w))", re.IGNORECASE
)
_GUESTS_OWN: Final = "CONTEXT"


def objection(template: Template, restricted: Iterable[str] = ()) -> str | None:
    """Return why an owner may not have such a VM, so far as the template alone says it.

    `restricted` are the site's, `RAW` or `RAW/DATA`. None: only the references are left to check.
    """
    names = {one.upper() for one in restricted}
    for path, name, text in _values(template):
        if _TRUSTED.fullmatch(name) or path in names or path.partition("/")[0] in names:
            return f"{name} is for administrators to set"
        if path.startswith(f"{_GUESTS_OWN}/"):
            continue
        if _BY_NAME.fullmatch(name):
            return f"{name}: images and networks by IMAGE_ID and NETWORK_ID"
        if name in _IDS and _ID.fullmatch(text) is None:
            return f"{name}: {text!r}: an id is a whole number without blanks or signs"
    return None


def variable(template: Template) -> str | None:
    """Return a variable in the template that OpenNebula replaces by the rights of the maker."""
    found = (_VARIABLE.search(text) for _, _, text in _values(template))
    return next((one[0] for one in found if one is not None), None)


def references(template: Template) -> set[tuple[str, int]]:
    """Return the objects that the template names, by the call that shows each."""
    return {
        (_IDS[name], int(text))
        for path, name, text in _values(template)
        if name in _IDS and not path.startswith(f"{_GUESTS_OWN}/") and _ID.fullmatch(text)
    }


def _values(template: Template) -> Iterator[tuple[str, str, str]]:
    """Each attribute: its path, its own name, its text. Vectors come with their parts."""
    for name, value in template.attributes:
        if isinstance(value, str):
            yield name, name, value
            continue
        yield name, name, ""
        for key, text in value:
            yield f"{name}/{key.upper()}", key.upper(), text
