"""The call that makes a VM of a VM template."""

from __future__ import annotations

from merkatd.embedded.access import Kind, Right, Target
from merkatd.embedded.call import ALLOCATE, AUTHORIZATION, Call, Refusal, method
from merkatd.embedded.calls_template import found
from merkatd.embedded.calls_vm_allocate import check_restricted, new_vm

_WHERE = "Error allocating a new virtual machine template. "


@method("one.template.instantiate", "i?sbs")
def instantiate(call: Call, oid: int, name: str = "", hold: bool = False, extra: str = "") -> int:
    """A new VM of a template and of what is said besides, which wins but for the name."""
    row = found(call, oid, Right.USE)
    call.need(Right.CREATE, Target(Kind.VM, -1, call.user.id, call.user.gid))
    try:
        more = call.parse(extra)
        check_restricted(call, more, "User Template")
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
