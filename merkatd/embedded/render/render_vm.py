"""The XML of VMs: the full form, the short form of `vmpool.info`, and samples."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from merkatd.embedded.model.template_text import cdata, template_xml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from merkatd.embedded.model.records import HistoryRecord, Permissions, Vm
    from merkatd.embedded.model.world import World

_PERMISSIONS = tuple(
    f"{who}_{right}" for who in ("OWNER", "GROUP", "OTHER") for right in ("U", "M", "A")
)
_SHORT_TEMPLATE = ("CPU", "MEMORY", "VCPU")
_SHORT_USER_TEMPLATE = frozenset(
    {
        "ERROR",
        "HYPERVISOR",
        "INFO",
        "LABELS",
        "LOGO",
        "SCHED_DS_RANK",
        "SCHED_DS_REQUIREMENTS",
        "SCHED_MESSAGE",
        "SCHED_RANK",
        "SCHED_REQUIREMENTS",
    }
)
_TIMES = ("PSTIME", "PETIME", "RSTIME", "RETIME", "ESTIME", "EETIME")


def permissions_xml(permissions: Permissions) -> str:
    """Return the PERMISSIONS element."""
    inner = "".join(
        f"<{name}>{value}</{name}>" for name, value in zip(_PERMISSIONS, permissions, strict=True)
    )
    return f"<PERMISSIONS>{inner}</PERMISSIONS>"


def owner_xml(world: World, oid: int, uid: int, gid: int, name: str) -> str:
    """Return the first elements of every owned object."""
    return (
        f"<ID>{oid}</ID><UID>{uid}</UID><GID>{gid}</GID>"
        f"<UNAME>{escape(world.user_name(uid))}</UNAME>"
        f"<GNAME>{escape(world.group_name(gid))}</GNAME><NAME>{escape(name)}</NAME>"
    )


def vm_xml(world: World, vm: Vm, history: Sequence[HistoryRecord], sample: str, polled: int) -> str:
    """Return a VM's full form with the given history records and monitoring sample."""
    return (
        f"<VM>{owner_xml(world, vm.id, vm.uid, vm.gid, vm.name)}"
        f"{permissions_xml(vm.permissions)}"
        f"<LAST_POLL>{polled}</LAST_POLL><STATE>{vm.state:d}</STATE>"
        f"<LCM_STATE>{vm.lcm:d}</LCM_STATE><PREV_STATE>{vm.prev_state:d}</PREV_STATE>"
        f"<PREV_LCM_STATE>{vm.prev_lcm:d}</PREV_LCM_STATE><RESCHED>{vm.resched}</RESCHED>"
        f"<STIME>{vm.stime}</STIME><ETIME>{vm.etime}</ETIME>"
        f"<DEPLOY_ID>{escape(vm.deploy_id)}</DEPLOY_ID>{_lock(vm)}"
        f"<MONITORING>{sample}</MONITORING><SCHED_ACTIONS></SCHED_ACTIONS>"
        f"{template_xml(vm.template, 'TEMPLATE')}{template_xml(vm.user_template, 'USER_TEMPLATE')}"
        f"{_records(vm, history)}"
        "<BACKUPS><BACKUP_CONFIG/><BACKUP_IDS></BACKUP_IDS></BACKUPS></VM>"
    )


def _lock(vm: Vm) -> str:
    lock = vm.lock
    if lock is None:
        return ""
    return (
        f"<LOCK><LOCKED>{lock.level}</LOCKED><OWNER>{lock.owner}</OWNER>"
        f"<TIME>{lock.stamp}</TIME><REQ_ID>{lock.request_id}</REQ_ID></LOCK>"
    )


def _records(vm: Vm, history: Sequence[HistoryRecord]) -> str:
    if not history:
        return "<HISTORY_RECORDS/>"
    return f"<HISTORY_RECORDS>{''.join(_record(vm, item) for item in history)}</HISTORY_RECORDS>"


def accounting_xml(world: World, vm: Vm, item: HistoryRecord) -> str:
    """Return a history record for `one.vmpool.accounting`, with the VM inside."""
    return _record(vm, item, vm_xml(world, vm, (), "", 0))


def _record(vm: Vm, item: HistoryRecord, inside: str = "") -> str:
    times = zip(
        _TIMES,
        (item.pstime, item.petime, item.rstime, item.retime, item.estime, item.eetime),
        strict=True,
    )
    stages = "".join(f"<{name}>{value}</{name}>" for name, value in times)
    return (
        f"<HISTORY><OID>{vm.id}</OID><SEQ>{item.seq}</SEQ>"
        f"<HOSTNAME>{escape(item.hostname)}</HOSTNAME><HID>{item.host}</HID>"
        f"<CID>{item.cluster}</CID><STIME>{item.stime}</STIME><ETIME>{item.etime}</ETIME>"
        "<VM_MAD><![CDATA[dummy]]></VM_MAD><TM_MAD><![CDATA[dummy]]></TM_MAD>"
        f"<DS_ID>{item.datastore}</DS_ID>{stages}<ACTION>{item.action:d}</ACTION>"
        f"<UID>{item.uid}</UID><GID>{item.gid}</GID>"
        f"<REQUEST_ID>{item.request_id}</REQUEST_ID>{inside}</HISTORY>"
    )


def vm_short_xml(world: World, vm: Vm) -> str:
    """Return a VM's form in `vmpool.info`: no custom attributes, no permissions, one record."""
    sizes = "".join(f"<{name}>{escape(vm.template.get(name))}</{name}>" for name in _SHORT_TEMPLATE)
    return (
        f"<VM>{owner_xml(world, vm.id, vm.uid, vm.gid, vm.name)}<LAST_POLL>0</LAST_POLL>"
        f"<STATE>{vm.state:d}</STATE><LCM_STATE>{vm.lcm:d}</LCM_STATE>"
        f"<RESCHED>{vm.resched}</RESCHED><STIME>{vm.stime}</STIME><ETIME>{vm.etime}</ETIME>"
        f"<DEPLOY_ID>{escape(vm.deploy_id)}</DEPLOY_ID>{_lock(vm)}<TEMPLATE>{sizes}</TEMPLATE>"
        f"<MONITORING/>{_short_user_template(vm)}{_short_record(vm)}</VM>"
    )


def _short_user_template(vm: Vm) -> str:
    if not vm.user_template.attributes:
        return "<USER_TEMPLATE/>"
    return template_xml(vm.user_template.only(_SHORT_USER_TEMPLATE), "USER_TEMPLATE")


def _short_record(vm: Vm) -> str:
    if not vm.history:
        return "<HISTORY_RECORDS/>"
    item = vm.history[-1]
    return (
        f"<HISTORY_RECORDS><HISTORY><OID>{vm.id}</OID><SEQ>{item.seq}</SEQ>"
        f"<HOSTNAME>{cdata(item.hostname)}</HOSTNAME><HID>{item.host}</HID>"
        f"<CID>{item.cluster}</CID><DS_ID>{item.datastore}</DS_ID>"
        "<VM_MAD><![CDATA[dummy]]></VM_MAD><TM_MAD><![CDATA[dummy]]></TM_MAD>"
        f"<ACTION>{cdata(str(int(item.action)))}</ACTION></HISTORY></HISTORY_RECORDS>"
    )


def sample_xml(values: Mapping[str, int | float]) -> str:
    """Return the content of a VM's MONITORING element."""
    return "".join(
        f"<{name}><![CDATA[{value:g}]]></{name}>"
        if isinstance(value, float)
        else f"<{name}><![CDATA[{value}]]></{name}>"
        for name, value in sorted(values.items())
    )
