"""Callers of services, and their rights: administrators, tenants and users of VMs.

OpenNebula is asked for the rights to a VM with the caller's own login, so a caller is an identity
and a session.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from merkatd.base.clock import Clock
from merkatd.base.deferreds import within
from merkatd.fleets.vm_template_text import Ask
from merkatd.opennebula.pools.unread_vms import recorded_owner
from merkatd.opennebula.rpc.client import ALL_USERS, ANY_STATE
from merkatd.opennebula.rpc.errors import (
    LongAnswerError,
    OneAuthenticationError,
    OneError,
    OneForbiddenError,
    OneMissingError,
)
from merkatd.opennebula.rpc.xml_elements import (
    BrokenError,
    Element,
    UnreadableError,
    children,
    only_child,
    whole,
)
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.service.base.errors import NotPermittedError, RequestError, UnknownObjectError
from merkatd.service.base.identity import ADMINISTRATOR, Identity, SignIns

USE = "USE"
MANAGE = "MANAGE"
_RECORD_S = 10.0
"""The longest wait for OpenNebula's own record of a VM."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The user and the login of a call."""

    identity: Identity
    session: str
    stated_author: str = ""
    """The author of orders, if it is not the user."""
    origin: str = ""
    """The interface and the address of the call, for records."""
    is_local: bool = False
    """Whether the call came through the control socket, so without a login."""

    @property
    def uid(self) -> int:
        """Return the user's id."""
        return self.identity.uid

    @property
    def is_admin(self) -> bool:
        """Return whether the user may do everything."""
        return self.identity.is_admin

    @property
    def author(self) -> str:
        """Return the author of the caller's orders, as records name it."""
        return self.stated_author or f"user {self.uid}"

    def signing(self, author: str) -> "Caller":
        """Return this caller with another author of its orders."""
        return replace(self, stated_author=author)

    def __repr__(self) -> str:
        return f"Caller({self.identity.name!r})"


LOCAL = Caller(
    Identity(ADMINISTRATOR, "an administrator", frozenset({ADMINISTRATOR}), ADMINISTRATOR),
    session="",
    stated_author="an administrator",
    origin="control socket",
    is_local=True,
)
"""The caller of the control socket, which may do everything: the socket's file mode protects it."""


class CallerRights:
    """The rights that OpenNebula decides on: it is asked with each caller's own login."""

    def __init__(self, sign_ins: SignIns, ask: Ask, clock: Clock) -> None:
        """`ask` calls OpenNebula with the daemon's login."""
        self._sign_ins = sign_ins
        self._ask = ask
        self._clock = clock

    def ask_of(self, caller: Caller) -> Ask:
        """Return a function that calls OpenNebula with the caller's login."""
        return self._ask if caller.is_local else partial(self._sign_ins.ask, caller.session)

    async def require_vm(self, caller: Caller, vm: int, owner: int, right: str) -> None:
        """Raise NotPermittedError or UnknownObjectError if the caller has not this right to the VM.

        Administrators have all rights. `owner` is the owner in the latest period, and may still see
        what that period shows. For all else the daemon asks OpenNebula to show the VM, with the
        user's login: a user that can't see the VM has no right to it, and the VM may have another
        owner by now. The present owner may manage the VM, and others as its permissions say.

        An owner chooses the length of a VM's texts. If they make the answer unreadable, the present
        owner has all rights and others have none.
        """
        identity = caller.identity
        if identity.is_admin or (identity.uid == owner and right == USE):
            return
        denied = NotPermittedError(
            f"User [{identity.uid}] : Not authorized to perform {right} VM [{vm}].", vm
        )
        try:
            shown = await self.ask_of(caller)("one.vm.info", vm)
            permitted = right == USE or _may_manage(
                identity, children(only_child(str(shown), "VM"))
            )
        except OneMissingError:
            raise no_vm(vm) from None
        except (OneAuthenticationError, OneForbiddenError):
            raise denied from None
        except (OneError, CloudUnreachableError, BrokenError, UnreadableError) as error:
            if await self._present_owner(vm, owner) == identity.uid:
                return
            if isinstance(error, OneError | CloudUnreachableError):
                raise _unchecked(error) from None
            raise denied from None
        if not permitted:
            raise denied

    async def _present_owner(self, vm: int, last: int) -> int:
        """Return the owner in OpenNebula's own record, which precedes all texts of owners.

        If OpenNebula does not answer, return the `last` known owner.
        """

        async def begin() -> str:
            try:
                return str(await self._ask("one.vmpool.info", ALL_USERS, vm, vm, ANY_STATE))
            except LongAnswerError as error:
                return error.head

        try:
            return recorded_owner(await within(_RECORD_S, self._clock, begin()), vm)
        except (OneError, CloudUnreachableError, TimeoutError):
            return last


def _unchecked(error: OneError | CloudUnreachableError) -> CloudUnreachableError:
    if isinstance(error, CloudUnreachableError):
        return error
    return CloudUnreachableError(f"OpenNebula can't check permissions now: {error.text}")


def _may_manage(identity: Identity, vm: Mapping[str, Element]) -> bool:
    if whole(vm, "UID") == identity.uid:
        return True
    if "PERMISSIONS" not in vm:
        return False
    bits = children(vm["PERMISSIONS"])
    by_group = whole(vm, "GID") in identity.groups and whole(bits, "GROUP_M")
    return bool(by_group or whole(bits, "OTHER_M"))


def permits_tenant(caller: Caller, tenant: int) -> bool:
    """Return whether the caller may see this tenant's account."""
    return caller.is_admin or caller.uid == tenant


def require_tenant(caller: Caller, tenant: int) -> None:
    """Raise NotPermittedError if the caller may not see this tenant's account."""
    if not permits_tenant(caller, tenant):
        raise NotPermittedError(
            f"User [{caller.uid}] : Not authorized to perform USE USER [{tenant}].", tenant
        )


def require_admin(caller: Caller, action: str) -> None:
    """Raise NotPermittedError if the caller is not an administrator."""
    if not caller.is_admin:
        raise NotPermittedError(f"User [{caller.uid}] : Not authorized to perform {action}.")


def no_vm(vm: int) -> RequestError:
    """Return the error for a VM that does not exist, or that no period has seen yet."""
    return UnknownObjectError(f"Error getting virtual machine [{vm}].", vm)
