"""Users' quotas on VMs: their number, CPU and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.model.access import is_admin
from merkatd.embedded.model.errors import AUTHORIZATION, OneRefusal
from merkatd.embedded.model.template_text import cdata, number
from merkatd.embedded.model.vm_states import OneVmState

if TYPE_CHECKING:
    from merkatd.embedded.model.records import User
    from merkatd.embedded.model.template_text import Template
    from merkatd.embedded.model.world import World


_GOODS = ("CPU", "MEMORY", "VMS")
"""The limits in the order of oned's checks."""
_AS_BY_DEFAULT = -1
"""The user has the default limit; -2 means unlimited."""


def check_quota(world: World, user: User, template: Template) -> None:
    """Refuse a VM that exceeds its owner's quota."""
    if not user.vm_quota or is_admin(user):
        return
    used, more = _used(world, user), _sizes(template)
    for name in _GOODS:
        limit = user.vm_quota.get(name, _AS_BY_DEFAULT)
        if limit >= 0 and used[name] + more[name] > limit:
            text = f"user [{user.id}] limit of {limit:g} reached for {name} quota in VM."
            raise OneRefusal(AUTHORIZATION, f"User [{user.id}] : {text}")


def vm_quota_xml(world: World, user: User) -> str:
    """Return the content of a user's VM_QUOTA; empty without a quota."""
    if not user.vm_quota:
        return ""
    used = _used(world, user)
    values = {"SYSTEM_DISK_SIZE": "-1", "SYSTEM_DISK_SIZE_USED": "0"}
    for name in _GOODS:
        values[name] = f"{user.vm_quota.get(name, _AS_BY_DEFAULT):g}"
        values[f"{name}_USED"] = f"{used[name]:g}"
    inner = "".join(f"<{name}>{cdata(values[name])}</{name}>" for name in sorted(values))
    return f"<VM>{inner}</VM>"


def _used(world: World, user: User) -> dict[str, float]:
    sizes = [
        _sizes(vm.template)
        for vm in world.vms
        if vm.uid == user.id and vm.state is not OneVmState.DONE
    ]
    return {name: sum(size[name] for size in sizes) for name in _GOODS}


def _sizes(template: Template) -> dict[str, float]:
    return {
        "CPU": number(template.get("CPU"), float, 0.0),
        "MEMORY": number(template.get("MEMORY"), float, 0.0),
        "VMS": 1.0,
    }
