"""The call that makes a VM of a VM template."""

from __future__ import annotations

from merkatd.embedded.access import Kind, Right, Target
from merkatd.embedded.call import ALLOCATE, AUTHORIZATION, Call, Refusal, method
from merkatd.embedded.calls_template import found
from merkatd.embedded.calls_vm_allocate import new_vm
from merkatd.embedded.restricted import of_change
from merkatd.embedded.template import Template

_WHERE = "Error allocating a new virtual machine template. "


@method("one.template.instantiate", "i?sbs")
def instantiate(call: Call, oid: int, name: str = "", hold: bool = False, extra: str = "") -> int:
    """A new VM of a template and of what is said besides, which wins but for the name."""
    row = found(call, oid, Right.USE)
    call.need(Right.CREATE, Target(Kind.VM, -1, call.user.id, call.user.gid))
    try:
        more = call.parse(extra)
        _check_restricted(call, more, row.template)
        said = row.template.plus(more.attributes)
        called = name or f"{row.name}-{call.cloud.world.vms.next_id}"
        whole = said.plus([("NAME", called), ("TEMPLATE_ID", str(oid))])
        if hold:
            whole = whole.plus([("SUBMIT_ON_HOLD", "YES")])
        return new_vm(call, whole, hold=hold)
    except Refusal as refusal:
        if refusal.code == AUTHORIZATION:
            raise
        raise Refusal(ALLOCATE, f"{_WHERE}{refusal.text}") from None


def _check_restricted(call: Call, more: Template, base: Template) -> None:
    """Refuse what would change an attribute that only administrators may set."""
    restricted = call.cloud.world.settings.vm_restricted
    touched = None if call.admin else of_change(more, base, restricted, append=True)
    if touched is not None:
        text = f"User Template includes a restricted attribute {touched}"
        raise Refusal(AUTHORIZATION, f"User [{call.user.id}] : {text}.")
