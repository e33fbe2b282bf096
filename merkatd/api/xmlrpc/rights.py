"""Who may do what: one's own, and for others' VMs what OpenNebula says of them."""

from collections.abc import Mapping

from merkatd.api.xmlrpc.identity import Identity, Logins
from merkatd.api.xmlrpc.words import Code, Refusal
from merkatd.opennebula.rpc.errors import ForbiddenError, MissingError, OneError
from merkatd.opennebula.rpc.xml_elements import (
    BrokenError,
    Element,
    UnreadableError,
    children,
    one,
    whole,
)

USE = "USE"
MANAGE = "MANAGE"


async def need_vm(
    identity: Identity, logins: Logins, session: str, vm: int, owner: int, right: str
) -> None:
    """Raises Refusal where the user may not do this to the VM.

    Owners and administrators may do everything. Of others OpenNebula is asked, in their own
    name, to show them the VM: who may not even see it, has no right to it; who may change it
    is said by its permissions, by group and for all.
    """
    if identity.is_admin or identity.uid == owner:
        return
    denied = Refusal(
        Code.AUTHORIZATION,
        f"User [{identity.uid}] : Not authorized to perform {right} VM [{vm}].",
        vm,
    )
    try:
        shown = await logins.ask(session, "one.vm.info", vm)
        permitted = right == USE or _may_manage(identity, children(one(str(shown), "VM")))
    except ForbiddenError:
        raise denied from None
    except MissingError:
        raise no_vm(vm) from None
    except (OneError, BrokenError, UnreadableError):
        raise denied from None
    if not permitted:
        raise denied


def _may_manage(identity: Identity, vm: Mapping[str, Element]) -> bool:
    if "PERMISSIONS" not in vm:
        return False
    bits = children(vm["PERMISSIONS"])
    if whole(vm, "UID") == identity.uid:
        return bool(whole(bits, "OWNER_M"))
    by_group = whole(vm, "GID") in identity.groups and whole(bits, "GROUP_M")
    return bool(by_group or whole(bits, "OTHER_M"))


def need_tenant(identity: Identity, tenant: int) -> None:
    """Raises Refusal where the user may not see this tenant's money."""
    if not identity.is_admin and identity.uid != tenant:
        raise Refusal(
            Code.AUTHORIZATION,
            f"User [{identity.uid}] : Not authorized to perform USE USER [{tenant}].",
            tenant,
        )


def need_admin(identity: Identity, method: str) -> None:
    """Raises Refusal where the user is no administrator."""
    if not identity.is_admin:
        raise Refusal(
            Code.AUTHORIZATION, f"User [{identity.uid}] : Not authorized to perform {method}."
        )


def no_vm(vm: int) -> Refusal:
    """There is no such VM, as far as the last period saw."""
    return Refusal(Code.NO_EXISTS, f"Error getting virtual machine [{vm}].", vm)
