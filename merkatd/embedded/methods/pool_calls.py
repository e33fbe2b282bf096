"""The calls that list VMs and hosts that the caller may use, in pages, and their samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from merkatd.embedded.methods.call import MethodCall, method
from merkatd.embedded.model.access import ALL, ObjectType, Right, host_target, is_admin, vm_target
from merkatd.embedded.model.errors import RPC_API, OneRefusal
from merkatd.embedded.model.records import Host, Vm
from merkatd.embedded.model.vm_states import OneVmState
from merkatd.embedded.render.render_cache import PoolReply, RenderedForm
from merkatd.embedded.render.render_pools import host_sample_xml
from merkatd.embedded.render.render_vm import accounting_xml, sample_xml

if TYPE_CHECKING:
    from collections.abc import Sequence

    from merkatd.embedded.machines.usage_samples import HostSample, VmSample
    from merkatd.embedded.model.records import Image, Network, VmGroup, VmTemplate

T = TypeVar("T", "Vm", "VmGroup", "VmTemplate", "Network", "Image")
S = TypeVar("S", "VmSample", "HostSample")

MINE_AND_GROUPS, MINE, EVERYTHING, MY_GROUPS = -1, -3, -2, -4
ANY = -2


def sees_all(call: MethodCall, kind: ObjectType) -> bool:
    """Return whether the caller may use every object of a kind: no single check is needed then."""
    if is_admin(call.user):
        return True
    return any(
        rule.resource & kind and rule.resource & ALL and rule.rights & Right.USE
        for rule in call.cloud.world.rules
        if rule.user & ALL
        or rule.user == 0x100000000 | call.user.id
        or any(rule.user == 0x200000000 | gid for gid in call.user.groups)
    )


def visible_rows_of(call: MethodCall, rows: list[T], flag: int) -> list[T]:
    """Return the rows that a filter flag selects."""
    if flag < MY_GROUPS:
        raise OneRefusal(RPC_API, "Incorrect filter_flag")
    if flag >= 0:
        return [row for row in rows if row.uid == flag]
    if flag == MINE:
        return [row for row in rows if row.uid == call.user.id]
    if flag == MY_GROUPS:
        return [row for row in rows if row.gid in call.user.groups]
    if flag == MINE_AND_GROUPS:
        return [row for row in rows if row.uid == call.user.id or row.gid in call.user.groups]
    return rows


def paged(rows: list[T], start: int, end: int) -> Sequence[T]:
    """Return the rows of a page (`start >= 0`, `end < -1`: -end rows) or of a range of ids."""
    if end < -1:
        first = max(start, 0)
        return rows[first : first - end]
    if start < 0:
        return rows
    return [row for row in rows if row.id >= start and (end == -1 or row.id <= end)]


def _vms(call: MethodCall, flag: int, state: int) -> list[Vm]:
    rows = visible_rows_of(call, call.cloud.world.vms.descending(), flag)
    if not sees_all(call, ObjectType.VM):
        rows = [vm for vm in rows if call.may(Right.USE, vm_target(vm))]
    if state == -1:
        return [vm for vm in rows if vm.state is not OneVmState.DONE]
    return rows if state < 0 else [vm for vm in rows if vm.state == state]


@method("one.vmpool.info", "iiii?s")
def vmpool_info(
    call: MethodCall, flag: int, start: int, end: int, state: int, _query: str = ""
) -> PoolReply:
    """Return VMs in their short form."""
    return _vm_pool(call, _vms(call, flag, state), start, end, RenderedForm.VM_SHORT)


@method("one.vmpool.infoextended", "iiii?s")
def vmpool_extended(
    call: MethodCall, flag: int, start: int, end: int, state: int, _query: str = ""
) -> PoolReply:
    """Return VMs with all attributes and their last history record."""
    return _vm_pool(call, _vms(call, flag, state), start, end, RenderedForm.VM)


@method("one.vmpool.infoset", "sb")
def vmpool_infoset(call: MethodCall, ids: str, extended: bool) -> PoolReply:
    """Return the VMs with these ids, separated by commas, including VMs that are done."""
    wanted = {int(word) for word in ids.split(",") if word.strip().isdecimal()}
    rows = [vm for vm in _vms(call, EVERYTHING, ANY) if vm.id in wanted]
    return call.cloud.cache.pool(
        "VM_POOL", rows, RenderedForm.VM if extended else RenderedForm.VM_SHORT
    )


def _vm_pool(
    call: MethodCall, rows: list[Vm], start: int, end: int, form: RenderedForm
) -> PoolReply:
    return call.cloud.cache.pool("VM_POOL", paged(rows, start, end), form)


@method("one.vmpool.monitoring", "i?i")
def vmpool_monitoring(call: MethodCall, flag: int, seconds: int = -1) -> PoolReply:
    """Return samples of VMs: the last (0), those of the last `seconds`, or all (-1)."""

    def text(row: Vm | Host) -> str:
        samples = call.cloud.monitoring.vm_samples(row) if isinstance(row, Vm) else ()
        return "".join(
            f"<MONITORING>{sample_xml(sample.values(row.id))}</MONITORING>"
            for sample in _chosen(call, samples, seconds)
        )

    return PoolReply("MONITORING_DATA", _vms(call, flag, -1), text)


@method("one.vmpool.accounting", "iii")
def vmpool_accounting(call: MethodCall, flag: int, start_s: int, end_s: int) -> str:
    """Return history records of all VMs, done or not, in a time range; -1 means no bound."""
    if flag < MY_GROUPS:
        raise OneRefusal(RPC_API, "Incorrect filter_flag")
    vms = sorted(_vms(call, flag, ANY), key=lambda vm: vm.id)
    records = [
        accounting_xml(call.cloud.world, vm, record)
        for vm in vms
        for record in vm.history
        if (start_s == -1 or record.etime > start_s or not record.etime)
        and (end_s == -1 or record.stime < end_s)
    ]
    return f"<HISTORY_RECORDS>{''.join(records)}</HISTORY_RECORDS>"


@method("one.hostpool.info")
def hostpool_info(call: MethodCall) -> PoolReply:
    """Return hosts, without their live load."""
    return call.cloud.cache.pool("HOST_POOL", _hosts(call), RenderedForm.HOST)


@method("one.hostpool.monitoring", "?i")
def hostpool_monitoring(call: MethodCall, seconds: int = -1) -> PoolReply:
    """Return samples of hosts: the last (0), those of the last `seconds`, or all (-1)."""

    def text(row: Vm | Host) -> str:
        host = call.host(row.id)
        samples = call.cloud.monitoring.host_samples(host)
        return "".join(host_sample_xml(host, sample) for sample in _chosen(call, samples, seconds))

    return PoolReply("MONITORING_DATA", _hosts(call), text)


def _hosts(call: MethodCall) -> list[Host]:
    rows = call.cloud.world.hosts.descending()
    if sees_all(call, ObjectType.HOST):
        return rows
    return [host for host in rows if call.may(Right.USE, host_target(host))]


def _chosen(call: MethodCall, samples: Sequence[S], seconds: int) -> Sequence[S]:
    if seconds < 0:
        return samples
    if seconds == 0:
        return samples[-1:]
    since = call.cloud.world.now() - seconds
    return [sample for sample in samples if sample.stamp >= since]
