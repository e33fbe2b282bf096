"""The method that creates VMs."""

from collections.abc import Mapping
from typing import Any

from merkatd.api.values.plain_values import members
from merkatd.api.xmlrpc.method_table import KINDS, MAX_NUMBER, Parameter, method, struct
from merkatd.base.quantities import quoted_value
from merkatd.service.base.callers import Caller
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.services import DaemonServices
from merkatd.service.vm_creation import VmRequest

_MEMBERS: Mapping[str, str] = {
    "template": "string",
    "template_id": "int",
    "template_name": "string",
    "name": "string",
    "bid": "struct",
}


@method(
    "merkat.vm.create",
    Parameter(
        "request",
        "struct",
        "`template`, the text of a VM template, or `template_id` or `template_name` of a template"
        " in OpenNebula; optionally `name`, and `bid`, a struct of bids by resource (`cpu`,"
        " `memory`; `network`, `disk` if they are sold), in credits a period. Without a bid, the"
        " template's bid applies, or the market's default.",
    ),
    returns=struct(
        "The VM, which OpenNebula creates with the caller's own rights and quotas.",
        {"id": "The VM's id.", "name": "The VM's name."},
    ),
    example='{"template": vm_template, "bid": {"cpu": 4.0}}',
    order=1.0,
)
async def vm_create(services: DaemonServices, caller: Caller, request: Mapping[str, Any]) -> Any:
    """Create a VM of the caller with a bid; the next period places it."""
    for name, value in request.items():
        kind = _MEMBERS.get(name)
        if kind is None:
            raise InvalidRequestError(
                f"request: unknown member {quoted_value(name)}; known: {', '.join(_MEMBERS)}"
            )
        large = type(value) is int and not 0 <= value < MAX_NUMBER
        if type(value) not in KINDS[kind] or large:
            raise InvalidRequestError(f"{name}: must be of type {kind} (got {quoted_value(value)})")
    return members(await services.creation.create(caller, VmRequest(**request)))
