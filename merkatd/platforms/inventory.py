"""OpenNebula's own VM templates, read as whoever submits a platform may read them.

A platform's VMs are made by the daemon's account and given to their owner. What OpenNebula would
refuse the owner must therefore be refused before: attributes that only administrators may set,
and images and networks that the owner may not use.
"""

import re
from typing import Final, Protocol

from merkatd.opennebula.elements import BrokenError, Element, children, one, rows, whole
from merkatd.opennebula.errors import OneError
from merkatd.platforms.asking import Ask
from merkatd.platforms.attributes import attributes, escaped
from merkatd.platforms.template import Template, TemplateError
from merkatd.platforms.variables import with_own
from merkatd.scheduler.ports import UnreachableError

_ALL: Final = (-2, -1, -1)
_REFERS: Final = (
    (re.compile(r"\bIMAGE_ID[ \t]*=[ \t]*\"?(\d{1,9})", re.IGNORECASE), "one.image.info"),
    (re.compile(r"\bNETWORK_ID[ \t]*=[ \t]*\"?(\d{1,9})", re.IGNORECASE), "one.vn.info"),
)
_BY_NAME: Final = re.compile(
    r"\b(IMAGE|IMAGE_UNAME|IMAGE_UID|NETWORK|NETWORK_UNAME|NETWORK_UID)[ \t]*=", re.IGNORECASE
)
_RESTRICTED: Final = re.compile(
    r"\b(SOURCE|MAC|VLAN_ID|BRIDGE|BRIDGE_TYPE|PHYDEV|FILTER|FILES|FILES_DS|KERNEL_DS|INITRD_DS"
    r"|RAW|EMULATOR|TM_MAD|DATASTORE_ID|DATASTORE|CLUSTER_ID|SCHED_DS_\w+|PIN_POLICY|NUMA_NODE"
    r"|USER_PRIORITY|SCHED_RANK|PCI|USB|IMPORT_VM_ID|DEPLOY_ID|(?:CPU|MEMORY|DISK)_COST"
    r"|(?:TOTAL|READ|WRITE)_(?:BYTES|IOPS)_SEC\w*|SIZE_IOPS_SEC|(?:INBOUND|OUTBOUND)_\w+"
    r"|ORIGINAL_SIZE|OPENNEBULA_MANAGED|VCENTER_\w+)[ \t]*=",
    re.IGNORECASE,
)


async def vm_templates(template: Template, ask: Ask, *, admin: bool) -> dict[str, str]:
    """By cluster: the lines of its VM template. Raises TemplateError."""
    return {
        cluster.name: await vm_template(f"cluster {cluster.name}: ", cluster, ask, admin=admin)
        for cluster in template.clusters
    }


class Source(Protocol):
    """Where a VM template comes from: one of the three is there."""

    @property
    def template(self) -> str | None:
        """Its text, where it says that itself."""

    @property
    def template_id(self) -> int | None:
        """The id of one of OpenNebula's, where it names one."""

    @property
    def template_name(self) -> str | None:
        """Its name."""


async def vm_template(where: str, source: Source, ask: Ask, *, admin: bool) -> str:
    """The lines of a VM template, of which complaints say where. Raises TemplateError."""
    text = source.template
    if text is None:
        text = await _text_of(where, source, ask)
    text = await with_own(f"{where}VM template: ", text, ask)
    if not admin:
        await _check(where, text, ask)
    return text


async def _text_of(where: str, source: Source, ask: Ask) -> str:
    what = f"{where}VM template"
    try:
        wanted = source.template_id
        if wanted is None:
            wanted = await _id_of(source.template_name or "", ask)
        shown = one(str(await ask("one.template.info", wanted, False)), "VMTEMPLATE")
        return _as_text(children(shown)["TEMPLATE"])
    except (OneError, BrokenError, LookupError, UnreachableError) as error:
        raise TemplateError([f"{what}: {error}"]) from None


async def _id_of(name: str, ask: Ask) -> int:
    pool = str(await ask("one.templatepool.info", *_ALL))
    found = [_own_id(row) for row in rows(pool, "VMTEMPLATE_POOL", "VMTEMPLATE") if _is(row, name)]
    if len(found) != 1:
        raise LookupError(f"{len(found)} are called {name!r}: its id is right")
    return found[0]


def _is(row: Element, name: str) -> bool:
    return row.findtext("NAME") == name


def _own_id(row: Element) -> int:
    return whole(children(row), "ID")


async def _check(where: str, text: str, ask: Ask) -> None:
    """Whether its owner could have made such a VM. Raises TemplateError."""
    restricted = _RESTRICTED.search(text)
    if restricted is not None:
        raise TemplateError([f"{where}{restricted[1]} is for administrators to set"])
    by_name = _BY_NAME.search(_but_for_contexts(text))
    if by_name is not None:
        raise TemplateError(
            [f"{where}{by_name[1]}: images and networks by IMAGE_ID and NETWORK_ID"]
        )
    for pattern, method in _REFERS:
        for wanted in sorted(set(pattern.findall(text))):
            try:
                await ask(method, int(wanted), False)
            except (OneError, UnreachableError) as error:
                raise TemplateError([f"{where}{method} {wanted}: {error}"]) from None


def _but_for_contexts(text: str) -> str:
    """What a CONTEXT says is for the guest: there NETWORK="YES" names no network."""
    found = attributes(text)
    if found is None:
        return text
    return "\n".join(said for name, said in found if name != "CONTEXT")


def _as_text(template: Element) -> str:
    """The lines of a template that OpenNebula shows as XML."""
    return "\n".join(_line(one) for one in template)


def _line(one: Element) -> str:
    if len(one):
        inner = ", ".join(f'{part.tag}="{escaped(part.text)}"' for part in one)
        return f"{one.tag}=[ {inner} ]"
    return f'{one.tag}="{escaped(one.text)}"'
