"""The guard for VM templates of owners whose VMs the daemon creates with its own account.

OpenNebula refuses that account nothing. So the guard rejects what OpenNebula would refuse the
owner: attributes that the site restricts, and references to objects that the owner may not use.
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
"""Attributes that OpenNebula restricts, or takes from the user that creates a VM."""
_BY_NAME: Final = re.compile(r"(?:IMAGE|NETWORK)(?:_UNAME|_UID)?")
_IDS: Final = {"IMAGE_ID": "one.image.info", "NETWORK_ID": "one.vn.info",
               "VMGROUP_ID": "one.vmgroup.info"}  # fmt: skip
_ID: Final = re.compile(r"[0-9]{1,9}")
_VARIABLE: Final = re.compile(
    r"\$\n*(?:(USER|NETWORK|IMAGE|FILE)\n*\[|(UID|UNAME|GID|GNAME)(?!\w))", re.IGNORECASE
)
_GUESTS_OWN: Final = "CONTEXT"


def why_refused(template: Template, restricted: Iterable[str] = ()) -> str | None:
    """Return why an owner may not create this VM, None if only references remain to be checked.

    `restricted` are the site's restricted attributes, such as `RAW` or `RAW/DATA`.
    """
    names = {name.upper() for name in restricted}
    for path, name, text in _values(template):
        if _TRUSTED.fullmatch(name) or path in names or path.partition("/")[0] in names:
            return f"{name} is for administrators to set"
        if path.startswith(f"{_GUESTS_OWN}/"):
            continue
        if _BY_NAME.fullmatch(name):
            return f"{name} is not accepted: use IMAGE_ID and NETWORK_ID"
        if name in _IDS and _ID.fullmatch(text) is None:
            return f"{name} must be a whole number without blanks or signs (got {text!r})"
    return None


def variable(template: Template) -> str | None:
    """Return a variable of the template that OpenNebula replaces with the creator's rights."""
    matches = (_VARIABLE.search(text) for _, _, text in _values(template))
    return next((match[0] for match in matches if match is not None), None)


def references(template: Template) -> set[tuple[str, int]]:
    """Return the objects that the template refers to: pairs of the reading call and the id."""
    return {
        (_IDS[name], int(text))
        for path, name, text in _values(template)
        if name in _IDS and not path.startswith(f"{_GUESTS_OWN}/") and _ID.fullmatch(text)
    }


def _values(template: Template) -> Iterator[tuple[str, str, str]]:
    """Yield path, name and text of each attribute; for a vector also of each of its parts."""
    for name, value in template.attributes:
        if isinstance(value, str):
            yield name, name, value
            continue
        yield name, name, ""
        for key, text in value:
            yield f"{name}/{key.upper()}", key.upper(), text
