"""Giving guests back what they had before Merkat: nothing of it stays on their host."""

from collections.abc import Callable, Sequence
from functools import partial

from merkatd.cluster import Limit
from merkatd.hypervisor.libvirt.driver import Driver
from merkatd.hypervisor.libvirt.guest import KIB_PER_MIB, Guest
from merkatd.hypervisor.libvirt.host import Host
from merkatd.hypervisor.libvirt.lines import Steps
from merkatd.hypervisor.libvirt.telling import why_not
from merkatd.hypervisor.libvirt.throttling import unthrottle
from merkatd.limits import UNSET
from merkatd.scheduler.base.ports import Released, Whole

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
    host: Host,
    driver: Driver,
    vms: Sequence[Whole],
    pinned_by_others: frozenset[int],
    goods: tuple[str, ...],
    found: dict[int, Released],
) -> Steps[None]:
    """Give each of these VMs its full size; `found` says what was done to whom.

    `goods` are those of network and disk that are traded: of others nothing was ever set.

    Raises AwayError.
    """
    host.connection()
    for vm in vms:
        guest = host.guests.get(vm.vm)
        if guest is None:
            continue
        parts: list[tuple[str, Callable[[], None]]] = [
            ("no quota and its own weight", partial(_free_cpu, host, driver, guest, vm.cpu_units)),
            ("all its memory", partial(_free_memory, host, driver, guest)),
        ]
        if (host.pins or guest.cores) and vm.vm not in pinned_by_others:
            parts.append(("no pins", partial(_free_cores, host, driver, guest)))
        if goods and driver.throttles:
            free = partial(unthrottle, host, driver, guest, goods)
            parts.append((f"no limits of its {' and '.join(goods)}", free))
        did, problems = [], []
        for what, give in parts:
            why = why_not(host, give)
            if why is None:
                did.append(what)
            else:
                problems.append(f"{what}: {why}")
        found[vm.vm] = Released(", ".join(did), "; ".join(problems))
        yield


def _free_cpu(host: Host, driver: Driver, guest: Guest, cpu_units: float) -> None:
    if guest.described is None:
        driver.describe(host, guest)
    guest.words = guest.asked = None
    own = driver.own_shares(host, guest, cpu_units)
    driver.set_words(host, guest, {**driver.wording(_NOTHING, guest), **own})


def _free_memory(host: Host, driver: Driver, guest: Guest) -> None:
    if guest.described is None or guest.described.balloon:
        driver.set_memory(host, guest, int(guest.sight.most_kib) // KIB_PER_MIB)
    guest.told_mib = UNSET
    driver.forget(host, guest)


def _free_cores(host: Host, driver: Driver, guest: Guest) -> None:
    guest.cores, guest.emulator = driver.cores(host, guest), None
    if guest.cores != ():
        driver.set_cores(host, guest, ())
    guest.cores = ()
