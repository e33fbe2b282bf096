"""The libvirt domains of guests, and the changes that they need: start, move, end.

The embedded cloud has no drivers, so its VMs exist only in its state. A demo with real hosts makes
their guests follow that state, as a driver would. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from merkatd.demo.demo_options import GuestKind
from merkatd.embedded.model.vm_states import EXECUTING, FAILURES, Lcm, OneVmState
from merkatd.opennebula.pools.vm_pool import VmRow

SECTOR = 512
_DISK_SIZE = 1 << 20
_SIGNATURE = b"\x55\xaa"
_BOOT_CODE = bytes.fromhex(
    "fa31c08ed8"  # interrupts off; data segment 0
    "c7060080ebfe"  # at 0x8000: jump to itself
    "0f0116787c"  # the descriptor table at the end
    "0f20c00c010f22c0bb08008ee324fe0f22c0"  # through protected mode: fs reaches all memory
    "66bf0003e0fe"  # the interrupt command register of the local APIC
    "646766c787f0fdffffff010000"  # switch the APIC on
    "646766c70700450c00"  # to all other processors: reset,
    "66b900000001664975fc"  # wait,
    "646766c70708460c00"  # begin at 0x8000,
    "66b900001000664975fc"  # wait,
    "646766c70708460c00"  # and once more, as the manual has it
    "ebfe"  # jump to itself
    "6690"
    "0000000000000000ffff00000092cf00"  # the descriptors: nothing, and all from 0 to 4 GiB
    "0f00687c0000"  # their size and place
)
"""A guest without an operating system: each of its virtual CPUs runs an endless loop."""


NAMES = "one-"
"""The start of the names of OpenNebula's domains."""


def name_of(vm: int) -> str:
    """Return the name that OpenNebula gives to a VM's domain."""
    return f"{NAMES}{vm}"


def disk() -> bytes:
    """Return the image of the disk that virtual machines boot from."""
    return (_BOOT_CODE.ljust(SECTOR - len(_SIGNATURE), b"\0") + _SIGNATURE).ljust(_DISK_SIZE, b"\0")


def described(kind: GuestKind, vm: int, vcpus: int, memory_mib: int, disk_path: str) -> str:
    """Return the domain's XML; `disk_path` is a file with `disk()`, which containers don't use."""
    inner = _container(vcpus) if kind is GuestKind.LXC else _machine(disk_path)
    return (
        f"<domain type='{kind}'><name>{name_of(vm)}</name>"
        f"<memory unit='MiB'>{memory_mib}</memory><vcpu>{vcpus}</vcpu>"
        f"<cputune><shares>{vcpus * 1024}</shares></cputune>{inner}</domain>"
    )


def _container(vcpus: int) -> str:
    # Without a file system of its own a container sees the host's.
    loops = "while :; do :; done &amp; " * vcpus
    return (
        "<os><type>exe</type><init>/bin/sh</init><initarg>-c</initarg>"
        f"<initarg>{loops}wait</initarg></os>"
        "<devices><console type='pty'/></devices>"
    )


def _machine(disk_path: str) -> str:
    return (
        "<os><type arch='x86_64'>hvm</type></os><features><acpi/><apic/></features>"
        "<devices><disk type='file' device='disk'><driver name='qemu' type='raw'/>"
        f"<source file='{disk_path}'/><target dev='vda' bus='virtio'/><readonly/></disk>"
        "<memballoon model='none'/></devices>"
    )


_STARTING = frozenset(lcm for lcm in Lcm if lcm.name.startswith("BOOT")) - FAILURES
_ON_A_HOST = EXECUTING | _STARTING


@dataclass(frozen=True, slots=True)
class StartGuest:
    """The start of a guest on a host."""

    vm: int
    host: int
    vcpus: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class MoveGuest:
    """The migration of a guest to another host."""

    vm: int
    source: int
    host: int


@dataclass(frozen=True, slots=True)
class End:
    """The end of a guest."""

    vm: int
    host: int


Change = StartGuest | MoveGuest | End


def changes(vms: Iterable[VmRow], there: Mapping[int, int]) -> tuple[Change, ...]:
    """Return the changes that the guests `there` (host by VM) need, ends first, then moves."""
    wanted = {row.id: row for row in vms if _is_on_a_host(row)}
    ended = [End(vm, host) for vm, host in there.items() if vm not in wanted]
    moved = [
        MoveGuest(vm, host, wanted[vm].host)
        for vm, host in there.items()
        if vm in wanted and wanted[vm].host != host
    ]
    started = [
        StartGuest(vm, row.host, row.vcpus, row.memory_mib)
        for vm, row in wanted.items()
        if vm not in there
    ]
    return (*ended, *moved, *started)


def _is_on_a_host(row: VmRow) -> bool:
    return row.state == OneVmState.ACTIVE and row.life in _ON_A_HOST and row.host >= 0
