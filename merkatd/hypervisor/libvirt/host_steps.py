"""Steps on a host, and the removal of all limits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from merkatd.cluster import Balloon, Limit, OnHost, Pin, Throttle
from merkatd.hypervisor.libvirt.host import libvirt_module
from merkatd.hypervisor.libvirt.host.device_limits import throttle, unthrottle
from merkatd.hypervisor.libvirt.host.driver import GuestDriver, limits_to_set
from merkatd.hypervisor.libvirt.host.guest import KIB_PER_MIB, Cpu, Guest
from merkatd.hypervisor.libvirt.host.host_connection import HostConnection
from merkatd.hypervisor.libvirt.host.libvirt_module import (
    AbandonedError,
    HostAwayError,
    LibvirtRefusedError,
    error_line,
)
from merkatd.hypervisor.libvirt.host_queues import Steps
from merkatd.hypervisor.libvirt.host_reader import HostReading, Row, is_timeout, needs_free, row_of
from merkatd.limits import UNSET, MemorySettings
from merkatd.scheduler.base.ports import FullSize, ReleaseResult

HostStep = OnHost


@dataclass
class StepResults:
    """The outcomes of steps so far; another thread reads them while this one adds more."""

    done: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)


def apply_steps(
    host: HostConnection,
    driver: GuestDriver,
    steps: Sequence[HostStep],
    memory: MemorySettings,
    look: HostReading,
    results: StepResults,
) -> Steps[list[Row]]:
    """Apply the steps one after another; a refused step does not block the others.

    Return the rows of the guests afterwards.
    """
    for step in steps:
        guest = host.guests.get(step.vm)
        if guest is None:
            results.refused[step.id] = f"VM {step.vm} does not run on {host.place.name}"
            continue
        why = why_not(host, partial(_take, host, driver, guest, step, memory))
        if why is None:
            results.done.add(step.id)
        else:
            results.refused[step.id] = f"{host.place.name}: {why}"
        yield
    now_s = host.seconds()
    guests = [host.guests[vm] for vm in {step.vm for step in steps} & host.guests.keys()]
    return [row_of(host, driver, guest, now_s, look) for guest in guests if guest.words is not None]


def why_not(host: HostConnection, take: Callable[[], None]) -> str | None:
    """Run a change on a host; return the reason of its failure, None if it succeeded."""
    try:
        host.connection()
        take()
    except (HostAwayError, LibvirtRefusedError) as error:
        return error_line(error)
    except AbandonedError as error:
        return str(error)
    except libvirt_module.require_libvirt().libvirtError as error:
        return error_line(error)
    return None


def _take(
    host: HostConnection, driver: GuestDriver, guest: Guest, step: HostStep, memory: MemorySettings
) -> None:
    needs_free(host, guest)
    try:
        _do(host, driver, guest, step, memory)
    except libvirt_module.require_libvirt().libvirtError as error:
        guest.held_up = is_timeout(error)
        raise


def _do(
    host: HostConnection, driver: GuestDriver, guest: Guest, step: HostStep, memory: MemorySettings
) -> None:
    match step:
        case Limit():
            limit(host, driver, guest, step)
        case Pin():
            pin(host, driver, guest, step)
        case Balloon():
            _balloon(host, driver, guest, step, memory)
        case Throttle():
            throttle(host, driver, guest, step)


def limit(host: HostConnection, driver: GuestDriver, guest: Guest, step: Limit) -> None:
    """Set the CPU limits that differ, in one call; make no call if none differs."""
    if guest.described is None:
        driver.describe(host, guest)
    wanted = driver.wording(step, guest)
    different = limits_to_set(wanted, guest.words)
    # The limits in force are unknown until the call has succeeded.
    guest.words = guest.asked = None
    if different:
        driver.set_words(host, guest, different)
    guest.words = wanted
    guest.asked = Cpu(
        UNSET if step.vcpu_quota_us is None else step.vcpu_quota_us,
        UNSET if step.global_quota_us is None else step.global_quota_us,
        step.shares,
    )


def pin(host: HostConnection, driver: GuestDriver, guest: Guest, step: Pin) -> None:
    """Pin the virtual CPUs that differ, and the emulator threads if they do."""
    cores = step.cores if any(step.cores) else ()
    if guest.cores == cores and not guest.emulator_off(host.reserved):
        return
    try:
        driver.set_cores(host, guest, cores)
    except BaseException:
        guest.cores = guest.emulator = None
        raise
    guest.cores = cores


def _balloon(
    host: HostConnection, driver: GuestDriver, guest: Guest, step: Balloon, memory: MemorySettings
) -> None:
    """Set the balloon's size, unless the guest now uses the memory that it would lose.

    The decided size leaves the guest a margin. The guest may have used half of that margin
    since, or none of it if too little memory would end its processes. Memory that is not paid
    for is taken in any case.
    """
    memory_mib = step.memory_mib
    if guest.told_mib == memory_mib:
        return
    if memory_mib < guest.held_mib and not step.unpaid:
        used_mib = driver.used_kib(host, guest) / KIB_PER_MIB
        left_mib = max(memory.margin_mib, memory.margin_part * used_mib)
        left_mib *= 1.0 if driver.hard else 0.5
        if used_mib + left_mib > memory_mib:
            raise LibvirtRefusedError(
                f"VM {guest.vm} now uses {used_mib:.0f} MiB: {memory_mib} MiB would leave it less"
                f" than {left_mib:.0f} MiB free"
            )
    driver.set_memory(host, guest, memory_mib)
    guest.tell(memory_mib, host.seconds())


_NOTHING = Limit(
    period=0,
    vm=-1,
    reason="",
    vcpu_quota_us=None,
    global_quota_us=None,
    quota_period_us=100_000,
    shares=0,
)


def release_host(
    host: HostConnection,
    driver: GuestDriver,
    vms: Sequence[FullSize],
    pinned_by_others: frozenset[int],
    goods: tuple[str, ...],
    results: dict[int, ReleaseResult],
) -> Steps[None]:
    """Remove the limits of these VMs; `results` receives the outcome of each VM.

    `goods` are the traded goods among network and disk: only these ever had limits.

    Raise HostAwayError if the host can't be called.
    """
    host.connection()
    for vm in vms:
        guest = host.guests.get(vm.vm)
        if guest is None:
            continue
        parts: list[tuple[str, Callable[[], None]]] = [
            (
                "no CPU quota and OpenNebula's CPU weight",
                partial(_free_cpu, host, driver, guest, vm.cpu_units),
            ),
            ("full memory", partial(_free_memory, host, driver, guest)),
        ]
        if (host.pins or guest.cores) and vm.vm not in pinned_by_others:
            parts.append(("no pins", partial(_free_cores, host, driver, guest)))
        if goods and driver.throttles:
            free = partial(unthrottle, host, driver, guest, goods)
            parts.append((f"no {' and '.join(goods)} limits", free))
        did, problems = [], []
        for what, give in parts:
            why = why_not(host, give)
            if why is None:
                did.append(what)
            else:
                problems.append(f"{what}: {why}")
        results[vm.vm] = ReleaseResult(", ".join(did), "; ".join(problems))
        yield


def _free_cpu(host: HostConnection, driver: GuestDriver, guest: Guest, cpu_units: float) -> None:
    if guest.described is None:
        driver.describe(host, guest)
    guest.words = guest.asked = None
    own = driver.own_shares(host, guest, cpu_units)
    driver.set_words(host, guest, {**driver.wording(_NOTHING, guest), **own})


def _free_memory(host: HostConnection, driver: GuestDriver, guest: Guest) -> None:
    if guest.described is None or guest.described.balloon:
        driver.set_memory(host, guest, int(guest.sight.most_kib) // KIB_PER_MIB)
    guest.told_mib = UNSET
    driver.forget(host, guest)


def _free_cores(host: HostConnection, driver: GuestDriver, guest: Guest) -> None:
    guest.cores, guest.emulator = driver.cores(host, guest), None
    if guest.cores != ():
        driver.set_cores(host, guest, ())
    guest.cores = ()
