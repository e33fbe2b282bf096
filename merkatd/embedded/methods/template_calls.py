"""The calls about VM templates, and their instantiation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.methods.call import MethodCall, check_name, method
from merkatd.embedded.methods.pool_calls import paged, visible_rows_of
from merkatd.embedded.methods.vm_create_calls import check_restricted, new_vm
from merkatd.embedded.methods.vm_edit_calls import merged
from merkatd.embedded.model.access import ObjectType, Right, Target, template_target
from merkatd.embedded.model.errors import ACTION, ALLOCATE, AUTHORIZATION, INTERNAL, OneRefusal
from merkatd.embedded.model.records import VmTemplate
from merkatd.embedded.model.restricted_attributes import of_change
from merkatd.embedded.model.template_text import Template
from merkatd.embedded.render.render_pools import vm_template_xml

if TYPE_CHECKING:
    from merkatd.embedded.model.records import Permissions


_ADMIN_BITS = (2, 5, 8)


@method("one.template.allocate", "s")
def allocate(call: MethodCall, text: str) -> int:
    """Create a VM template; its content is checked at its first instantiation."""
    world = call.cloud.world
    call.need(Right.CREATE, Target(ObjectType.TEMPLATE, -1, call.user.id, call.user.gid))
    template = call.parse(text)
    check_restricted(call, template, "VM Template")
    name = template.get("NAME")
    check_name(name)
    _check_free(call, name)
    user, oid = call.user, world.templates.next_id
    rest = template.without({"NAME"})
    world.templates.add(VmTemplate(oid, user.id, user.gid, name, rest, world.stamp()))
    world.changed("template", oid)
    return oid


@method("one.template.info", "i?bb")
def info(call: MethodCall, oid: int, *_unused: bool) -> str:
    """Return a VM template."""
    return vm_template_xml(call.cloud.world, require_template(call, oid, Right.USE))


@method("one.templatepool.info", "iii")
def pool(call: MethodCall, flag: int, start: int, end: int) -> str:
    """Return the VM templates that the caller may use."""
    world = call.cloud.world
    rows = paged(visible_rows_of(call, world.templates.descending(), flag), start, end)
    seen = (row for row in rows if call.may(Right.USE, template_target(row)))
    inner = "".join(vm_template_xml(world, row) for row in seen)
    return f"<VMTEMPLATE_POOL>{inner}</VMTEMPLATE_POOL>"


@method("one.template.update", "is?i")
def update(call: MethodCall, oid: int, text: str, kind: int = 0) -> int:
    """Replace a template's content, or add to it."""
    row = require_template(call, oid, Right.MANAGE)
    restricted = call.cloud.world.settings.vm_restricted
    row.template = merged(call, row.template, text, kind, restricted)
    call.cloud.world.changed("template", oid)
    return oid


@method("one.template.rename", "is")
def rename(call: MethodCall, oid: int, name: str) -> int:
    """Rename a template."""
    row = require_template(call, oid, Right.MANAGE)
    check_name(name, ACTION)
    if name != row.name:
        _check_free(call, name)
    row.name = name
    call.cloud.world.changed("template", oid)
    return oid


@method("one.template.chmod", "iiiiiiiiii?b")
def chmod(call: MethodCall, oid: int, *bits: int) -> int:
    """Change a template's permissions; -1 leaves a value unchanged."""
    row = require_template(call, oid, Right.MANAGE)
    if any(bit not in {-1, 0, 1} for bit in bits[:9]):
        raise OneRefusal(INTERNAL, "New permission values must be -1, 0 or 1")
    new = tuple(old if bit < 0 else bit for bit, old in zip(bits, row.permissions, strict=False))
    if any(new[place] != row.permissions[place] for place in _ADMIN_BITS):
        call.need(Right.ADMIN, template_target(row))
    row.permissions = _permissions(new)
    call.cloud.world.changed("template", oid)
    return oid


@method("one.template.delete", "i?b")
def delete(call: MethodCall, oid: int, _images: bool = False) -> int:
    """Remove a template; its VMs stay."""
    require_template(call, oid, Right.MANAGE)
    del call.cloud.world.templates.rows[oid]
    call.cloud.world.changed("template", oid)
    return oid


def require_template(call: MethodCall, oid: int, right: Right) -> VmTemplate:
    """Return a VM template to which the caller has a right."""
    row = call.find(call.cloud.world.templates, ObjectType.TEMPLATE, oid)
    call.need(right, template_target(row))
    return row


def _check_free(call: MethodCall, name: str) -> None:
    """Refuse the name of another template of the same user."""
    for row in call.cloud.world.templates:
        if (row.uid, row.name) == (call.user.id, name):
            raise OneRefusal(INTERNAL, f"NAME is already taken by TEMPLATE {row.id}.")


def _permissions(bits: tuple[int, ...]) -> Permissions:
    u1, m1, a1, u2, m2, a2, u3, m3, a3 = bits
    return u1, m1, a1, u2, m2, a2, u3, m3, a3


_WHERE = "Error allocating a new virtual machine template. "


@method("one.template.instantiate", "i?sbs")
def instantiate(
    call: MethodCall, oid: int, name: str = "", hold: bool = False, extra: str = ""
) -> int:
    """Create a VM from a template; `extra` overrides its attributes except the name."""
    row = require_template(call, oid, Right.USE)
    call.need(Right.CREATE, Target(ObjectType.VM, -1, call.user.id, call.user.gid))
    try:
        more = call.parse(extra)
        _check_restricted(call, more, row.template)
        template = row.template.plus(more.attributes)
        called = name or f"{row.name}-{call.cloud.world.vms.next_id}"
        new_template = template.plus([("NAME", called), ("TEMPLATE_ID", str(oid))])
        if hold:
            new_template = new_template.plus([("SUBMIT_ON_HOLD", "YES")])
        return new_vm(call, new_template, hold=hold)
    except OneRefusal as refusal:
        if refusal.code == AUTHORIZATION:
            raise
        raise OneRefusal(ALLOCATE, f"{_WHERE}{refusal.text}") from None


def _check_restricted(call: MethodCall, more: Template, base: Template) -> None:
    """Refuse a change of an attribute that only administrators may set."""
    restricted = call.cloud.world.settings.vm_restricted
    touched = None if call.admin else of_change(more, base, restricted, append=True)
    if touched is not None:
        text = f"User Template includes a restricted attribute {touched}"
        raise OneRefusal(AUTHORIZATION, f"User [{call.user.id}] : {text}.")
