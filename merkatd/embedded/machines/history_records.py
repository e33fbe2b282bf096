"""The history records of a VM's life, with oned's times.

RSTIME and RETIME bound the time in which a guest ran. A VM that is resumed, resized or restarted
on its host gets a new record, as in oned (`cp_history`, `close_cp_history`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.model.records import HistoryRecord
from merkatd.embedded.model.vm_states import FAILURES, Lcm, OneVmState, VmAction

if TYPE_CHECKING:
    from merkatd.embedded.machines.operations import OperationStep
    from merkatd.embedded.model.records import Vm

_CLOSED_BY_FAILURE = frozenset({Lcm.BOOT_STOPPED, Lcm.BOOT_UNDEPLOY})
_SAVES = frozenset({Lcm.SAVE_STOP, Lcm.SAVE_SUSPEND})
_AT_REST = frozenset({OneVmState.SUSPENDED, OneVmState.POWEROFF})


def copy_record(vm: Vm, stamp: int, like: HistoryRecord | None = None) -> HistoryRecord:
    """Append a record for the host of the last record (or of `like`) and return it."""
    last = vm.history[-1]
    like = like or last
    new = HistoryRecord(last.seq + 1, like.host, like.hostname, like.cluster, like.datastore, stamp)
    vm.history.append(new)
    return new


def begin_again(vm: Vm, stamp: int) -> None:
    """Start a new record: an off or suspended VM is resumed on its host."""
    vm.history[-1].etime = stamp
    new = copy_record(vm, stamp)
    new.rstime, new.action = stamp, VmAction.RESUME


def find_running(vm: Vm, stamp: int) -> None:
    """Start a new record: monitoring finds that a VM at rest runs."""
    vm.history[-1].etime = stamp
    copy_record(vm, stamp).rstime = stamp


def split(vm: Vm, stamp: int, action: VmAction) -> None:
    """Close the record and start a new one: an action changed a VM that stays on its host."""
    last = vm.history[-1]
    ran = last.retime == 0
    last.retime, last.etime = last.retime or stamp, stamp
    new = copy_record(vm, stamp)
    new.action, last.action = last.action, action
    new.rstime, new.retime = stamp, 0 if ran else stamp


def leave(vm: Vm, stamp: int) -> None:
    """Close the record before the last one: the VM has left its host."""
    vm.history[-2].etime = vm.history[-2].retime = stamp


def come_back(vm: Vm, stamp: int) -> None:
    """Start a new record on the old host: a migration failed and the VM stayed there."""
    vm.history[-1].etime = stamp
    leave(vm, stamp)
    copy_record(vm, stamp, vm.history[-2]).rstime = stamp


def end(vm: Vm, stamp: int) -> None:
    """Close the last records: the VM has left its hosts."""
    for record in vm.history[-2:]:
        if not record.etime:
            record.etime = stamp
            if record is vm.history[-1]:
                record.eetime = stamp
            if record.rstime and not record.retime:
                record.retime = stamp


def fail(vm: Vm, stamp: int) -> None:
    """Write the times of a failed step."""
    if vm.history and vm.lcm.name.startswith("BOOT"):
        vm.history[-1].retime = stamp
        if vm.lcm in _CLOSED_BY_FAILURE:
            vm.history[-1].etime = stamp


def enter(vm: Vm, step: OperationStep, stamp: int) -> None:
    """Write the times of a step that the VM enters."""
    if not vm.history:
        return
    last, name = vm.history[-1], step.lcm.name
    if step.lcm in FAILURES:
        return
    if name.startswith("PROLOG"):
        last.pstime = stamp
    elif name.startswith("BOOT"):
        if vm.lcm.name.startswith("PROLOG"):
            last.petime = last.rstime = stamp
    elif name.startswith("EPILOG"):
        last.estime = stamp
        last.retime = last.retime or stamp
    elif step.lcm is Lcm.RUNNING:
        _enter_running(vm, last, stamp)
    elif step.state in _AT_REST:
        last.retime = stamp
        if vm.lcm.name.startswith("PROLOG"):
            last.petime = stamp


def _enter_running(vm: Vm, last: HistoryRecord, stamp: int) -> None:
    if vm.lcm is Lcm.MIGRATE:
        last.rstime = last.rstime or stamp
    elif vm.lcm.name.startswith("BOOT"):
        _clear_action(last)
        last.etime = last.retime = 0
    elif vm.lcm in _SAVES:
        _clear_action(last)


def _clear_action(last: HistoryRecord) -> None:
    last.action, last.uid, last.gid, last.request_id = VmAction.NONE, -1, -1, -1
