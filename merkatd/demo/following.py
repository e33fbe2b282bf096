"""Which real guests have to start, move and end, so that they are where the cloud has its VMs.

The embedded cloud has no drivers: what it says about VMs happens nowhere. Where real hosts
stand beside it, their guests follow it, as a driver would make them. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from merkatd.embedded.model.vm_states import EXECUTING, FAILURES, Lcm, State
from merkatd.opennebula.pools.vm_pool import VmRow

_STARTING = frozenset(lcm for lcm in Lcm if lcm.name.startswith("BOOT")) - FAILURES
_ON_A_HOST = EXECUTING | _STARTING


@dataclass(frozen=True, slots=True)
class Start:
    """A guest begins on a host."""

    vm: int
    host: int
    vcpus: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Move:
    """A guest goes from one host to another."""

    vm: int
    source: int
    host: int


@dataclass(frozen=True, slots=True)
class End:
    """A guest is over."""

    vm: int
    host: int


Change = Start | Move | End


def changes(vms: Iterable[VmRow], there: Mapping[int, int]) -> tuple[Change, ...]:
    """What to do about guests that are `there`, host by VM; those that end come first."""
    wanted = {row.id: row for row in vms if _is_on_a_host(row)}
    ended = [End(vm, host) for vm, host in there.items() if vm not in wanted]
    moved = [
        Move(vm, host, wanted[vm].host)
        for vm, host in there.items()
        if vm in wanted and wanted[vm].host != host
    ]
    started = [
        Start(vm, row.host, row.vcpus, row.memory_mib)
        for vm, row in wanted.items()
        if vm not in there
    ]
    return (*ended, *moved, *started)


def _is_on_a_host(row: VmRow) -> bool:
    return row.state == State.ACTIVE and row.life in _ON_A_HOST and row.host >= 0
