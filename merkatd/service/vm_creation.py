"""The creation of a VM with a bid, from a template, with the tenant's own login.

OpenNebula creates the VM and decides: on the right to do so, restricted attributes, and quotas.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from merkatd.base.quantities import quoted_value
from merkatd.fleets.vm_template_source import template_id_of
from merkatd.fleets.vm_template_text import LONGEST_TEXT, read, rendered
from merkatd.opennebula.rpc.errors import OneAuthenticationError, OneError, OneForbiddenError
from merkatd.opennebula.rpc.xml_elements import BrokenError, only_child
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.traits.template_values import MAX_AMOUNT
from merkatd.service.base.arguments import LONGEST_NAME, checked_amount
from merkatd.service.base.callers import Caller, CallerRights
from merkatd.service.base.errors import InvalidRequestError, NotPermittedError
from merkatd.service.market.quotes import require_sold
from merkatd.syntax import Attribute, ParseError, template_text


@dataclass(frozen=True, slots=True, kw_only=True)
class VmRequest:
    """A tenant's request for a VM; exactly one of the three templates must be given."""

    template: str | None = None
    template_id: int | None = None
    template_name: str | None = None
    name: str | None = None
    bid: Mapping[str, Any] = field(default_factory=dict)
    """The bids by resource, in credits a period; without one, the market's default applies."""


@dataclass(frozen=True, slots=True)
class RequestedVm:
    """A VM that OpenNebula has created; the next period places it."""

    id: int
    name: str


class VmCreationService:
    """Creates VMs of tenants."""

    def __init__(self, scheduler: Scheduler, rights: CallerRights) -> None:
        self._scheduler = scheduler
        self._rights = rights

    async def create(self, caller: Caller, request: VmRequest) -> RequestedVm:
        """Create a VM of the caller, and return it. Raise RequestError."""
        given = (request.template, request.template_id, request.template_name)
        if sum(value is not None for value in given) != 1:
            raise InvalidRequestError(
                "template, template_id, template_name: exactly one must be given"
            )
        own = _bid_attributes(self._bids(request))
        if request.name is not None:
            own.append(("NAME", _checked_name(request.name)))
        try:
            vm = await self._allocated(caller, request, own)
        except (OneAuthenticationError, OneForbiddenError) as error:
            raise NotPermittedError(str(error)) from None
        except (OneError, BrokenError, LookupError) as error:
            raise InvalidRequestError(f"template: {error}") from None
        self._scheduler.wake_for(caller.uid)
        return RequestedVm(vm, await self._name_of(caller, vm) or request.name or f"one-{vm}")

    async def _name_of(self, caller: Caller, vm: int) -> str | None:
        """Return the name that OpenNebula gave; None if it can't be read: the VM exists anyway."""
        try:
            shown = only_child(str(await self._rights.ask_of(caller)("one.vm.info", vm)), "VM")
        except (OneError, BrokenError, CloudUnreachableError):
            return None
        return shown.findtext("NAME")

    def _bids(self, request: VmRequest) -> dict[str, float]:
        require_sold(self._scheduler.world.goods.resources, {"": request.bid})
        checked = {good: checked_amount(good, bid, MAX_AMOUNT) for good, bid in request.bid.items()}
        return {good: bid for good, bid in checked.items() if bid is not None}

    async def _allocated(self, caller: Caller, request: VmRequest, own: list[Attribute]) -> int:
        """Return the id of the new VM, whose template has these attributes of ours."""
        ask = self._rights.ask_of(caller)
        if request.template is not None:
            text = _with(request.template, own)
            return await _created(ask, "one.vm.allocate", text, False)
        wanted = request.template_id
        if wanted is None:
            wanted = await template_id_of(request.template_name or "", ask)
        extra = template_text(attribute for attribute in own if attribute[0] != "NAME")
        name = request.name or ""
        return await _created(ask, "one.template.instantiate", wanted, name, False, extra)


async def _created(ask: Callable[..., Awaitable[Any]], method: str, *arguments: Any) -> int:
    """Return the id of the VM that a call creates. A call without an answer may have created it."""
    try:
        return int(await ask(method, *arguments))
    except CloudUnreachableError as error:
        raise CloudUnreachableError(
            f"{error}: the VM may exist, so look for it before you create it again"
        ) from None


def _with(text: str, own: list[Attribute]) -> str:
    """Return a template's text in which these attributes replace others of the same names."""
    if not 1 <= len(text) <= LONGEST_TEXT:
        raise InvalidRequestError(
            f"template: must be a text of 1 to {LONGEST_TEXT} characters (got {quoted_value(text)})"
        )
    try:
        return rendered(read(text).plus(own))
    except ParseError as error:
        raise InvalidRequestError(f"template: {error}") from None


def _bid_attributes(bids: Mapping[str, float]) -> list[Attribute]:
    return [(f"MERKAT_BID_{good.upper()}", f"{Decimal(repr(bid)):f}") for good, bid in bids.items()]


def _checked_name(name: str) -> str:
    if not 1 <= len(name) <= LONGEST_NAME or not name.isprintable() or '"' in name:
        raise InvalidRequestError(
            f"name: must be 1 to {LONGEST_NAME} characters on a line, without quotes"
            f" (got {quoted_value(name)})"
        )
    return name
