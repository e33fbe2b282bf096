"""The VMs' shares, the limits that their hosts enforce, and their actual use."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from twisted.internet.defer import TimeoutError as WaitedEnoughError

from merkatd.base.quantities import finite, quoted_value
from merkatd.cluster import Floats, Snapshot, VmState
from merkatd.cluster.columns import NO_MARKET, is_one_of
from merkatd.database.scheduler.order_store import Order
from merkatd.limits import PER_UNIT, EnforcedLimits
from merkatd.limits.cpu_limits import Quotas
from merkatd.limits.enforced_limits import CPU, MEMORY
from merkatd.scheduler.base.ports import CloudUnreachableError, FullSize, GuestUse, ReleaseResult
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.observation.snapshot_builder import in_force_of
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.callers import Caller, require_admin
from merkatd.service.base.errors import InvalidRequestError, TryAgainError
from merkatd.service.base.period_view import PeriodView, QuotedView, as_id

Result = TypeVar("Result")

_LEAST_ELAPSED_S = 1.0
"""The shortest time for a meaningful average of CPU use."""
_PATIENCE_S = 20.0
"""The longest wait of a release for the running period."""
_UNITS_PER_CORE = 100


@dataclass(frozen=True, slots=True)
class FurtherLimit:
    """The share and the limit of network or disk."""

    share: float | None
    """None for a VM of no market."""
    limit: float | None
    """The enforced limit; None if there is none."""


@dataclass(frozen=True, slots=True)
class LimitRow:
    """The shares of a running VM, the limits that its host enforces, and its use at this moment."""

    id: int
    name: str
    host: str | None
    cpu: float | None
    set_cpu: float | None
    used_cpu: float | None
    weight: int | None
    memory: float | None
    set_memory: int | None
    held_memory: float | None
    used_memory: float | None
    further: Mapping[str, FurtherLimit]
    """Network and disk, if they are sold."""
    pins: str | None
    note: str | None


@dataclass(frozen=True, slots=True)
class ReleasedVm:
    """A VM whose full size was restored, or could not be."""

    id: int
    did: str | None
    problem: str | None


class LimitService:
    """The limits of running VMs. Only administrators may see and release them."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def limits(
        self, caller: Caller, view: QuotedView, of: str | None = None
    ) -> list[LimitRow]:
        """Return the limits of running VMs: all, or those of `of`, a VM or a host by id or name.

        The hosts report the enforced limits and the use at this moment; the shares are the
        period's. Raise RequestError.
        """
        require_admin(caller, "ADMIN VM")
        world, now, seen = self._scheduler.world, view.now, view.latest.seen
        rows = _rows(now.snapshot, of)
        runs = is_one_of(seen.observation.vm_state, (VmState.RUNNING, VmState.BUSY))
        there = runs & (seen.observation.vm_host >= 0)
        vms = seen.observation.vm_id[there].tolist()
        hosts = seen.observation.vm_host[there].tolist()
        try:
            there_now = dict(zip(vms, hosts, strict=True))
            use = await world.hypervisors.read(there_now, to_show=True)
        except CloudUnreachableError as error:
            raise InvalidRequestError(f"the hosts can't be reached: {error}") from error
        elapsed_s = world.now() - seen.observation.at_s
        wanted = [row for row in rows if there[row]]
        return await world.executor.run(
            lambda: _limit_rows(world, now, seen, use, elapsed_s, wanted)
        )

    async def pause_for_release(self, caller: Caller) -> list[int]:
        """Pause the daemon; return the ids of all running VMs. Raise RequestError."""
        require_admin(caller, "ADMIN VM")
        await self._require_active()
        await self._scheduler.order(Order.PAUSE, caller.author, by=caller.origin)
        return await _between_periods(self._scheduler, _everything)

    async def release(self, caller: Caller, vms: Sequence[int]) -> list[ReleasedVm]:
        """Restore the full size of VMs, while the daemon is paused. Raise RequestError."""
        require_admin(caller, "ADMIN VM")
        await self._require_active()
        if not self._scheduler.paused:
            raise InvalidRequestError(
                "the daemon is not paused: its next period would set the limits again"
            )

        async def some(context: PeriodContext) -> list[ReleasedVm]:
            limited = [vm for vm in await _whole(context) if vm.vm in set(vms)]
            did = await context.hypervisors.release(limited)
            gone = ReleaseResult("", "it does not run on the host that OpenNebula names")
            return [_released(vm, did.get(vm.vm, gone)) for vm in limited]

        return await _between_periods(self._scheduler, some)

    async def _require_active(self) -> None:
        """Raise InvalidRequestError if another daemon is active, or the cloud does not answer."""
        try:
            why_not = await self._scheduler.stands_by()
        except CloudUnreachableError as error:
            raise InvalidRequestError(f"the cloud can't be reached: {error}") from error
        if why_not is not None:
            raise InvalidRequestError(f"another daemon is active: {why_not}")


def _rows(snapshot: Snapshot, of: str | None) -> Sequence[int]:
    """Return the rows of the VMs; a number means a VM's id if there is one, or else a host's.

    A name means a host if there is one, or else VMs: tenants choose the names of VMs, and must not
    hide a host.
    """
    if of is None:
        return range(len(snapshot.vms))
    number = as_id(of)
    rows = [row for row, vm in enumerate(snapshot.vms.id.tolist()) if vm == number]
    if rows:
        return rows
    ids = snapshot.hosts.id.tolist()
    hosts = [
        row for row, name in enumerate(snapshot.hosts.name) if name == of or ids[row] == number
    ]
    if hosts:
        there: list[int] = np.flatnonzero(is_one_of(snapshot.vms.host, hosts)).tolist()
        return there
    named = [row for row, name in enumerate(snapshot.vms.name) if name == of]
    if not named:
        raise InvalidRequestError(f"no VM and no host has the id or name {quoted_value(of)}")
    return named


def _limit_rows(
    context: PeriodContext,
    view: PeriodView,
    observed: Observed,
    use: GuestUse,
    elapsed_s: float,
    rows: Sequence[int],
) -> list[LimitRow]:
    snapshot, in_force = view.snapshot, in_force_of(observed.observation, use)
    quotas = Quotas(in_force.vcpu_quota_us, in_force.global_quota_us)
    units = quotas.units(snapshot.vms.vcpus, context.limits.cpu.quota_period_us)
    share = {
        name: view.decision.allocations[:, column] for column, name in enumerate(snapshot.resources)
    }
    used = _used_units(observed.use, use, elapsed_s)
    held = dict(zip(use.vm_id.tolist(), use.held_mib.tolist(), strict=True))
    shown_rows = []
    for row in rows:
        vm = int(snapshot.vms.id[row])
        sells = snapshot.vms.market[row] != NO_MARKET
        set_mib = int(in_force.memory_mib[row])
        shown_rows.append(
            LimitRow(
                id=vm,
                name=snapshot.vms.name[row],
                host=view.host_name(row),
                cpu=float(share[CPU][row]) if sells else None,
                set_cpu=finite(units[row]),
                used_cpu=used.get(vm),
                weight=_known(int(in_force.shares[row])),
                memory=float(share[MEMORY][row]) if sells else None,
                set_memory=_known(set_mib),
                held_memory=finite(held.get(vm, np.nan)),
                used_memory=finite(float(in_force.used_mib[row])),
                further=_further(in_force, share, row, sells),
                pins=_pins(in_force.pinned(vm)),
                note=_note(observed, use, row, held, bool(in_force.balloon[row])),
            )
        )
    return shown_rows


def _further(
    in_force: EnforcedLimits, share: Mapping[str, Floats], row: int, sells: bool
) -> Mapping[str, FurtherLimit]:
    """Return the shares and limits of network and disk, if they are sold."""
    limits: dict[str, FurtherLimit] = {}
    for name, unit in PER_UNIT.items():
        if name in share:
            limit = int(in_force.throttled(name)[row])
            limits[name] = FurtherLimit(
                share=float(share[name][row]) if sells else None,
                limit=None if limit < 0 else limit / unit,
            )
    return limits


def _used_units(before: GuestUse, now: GuestUse, elapsed_s: float) -> Mapping[int, float]:
    """Return the CPU use since the period's observation, by VM id, in percent of a core.

    A guest that has restarted since then is left out.
    """
    if elapsed_s < _LEAST_ELAPSED_S:
        return {}
    then = dict(zip(before.vm_id.tolist(), before.cpu_s.tolist(), strict=True))
    return {
        vm: (cpu_s - then[vm]) / elapsed_s * _UNITS_PER_CORE
        for vm, cpu_s in zip(now.vm_id.tolist(), now.cpu_s.tolist(), strict=True)
        if cpu_s >= then.get(vm, np.inf)
    }


def _known(value: int) -> int | None:
    return None if value < 0 else value


def _pins(cores: Sequence[Sequence[int]]) -> str | None:
    return " ".join(",".join(map(str, numbers)) or "any" for numbers in cores) or None


def _note(
    observed: Observed, use: GuestUse, row: int, held: Mapping[int, float], balloon: bool
) -> str | None:
    observation = observed.observation
    vm, host = int(observation.vm_id[row]), int(observation.vm_host[row])
    if host in use.away:
        return f"its host is away: {use.away[host]}"
    if vm not in held:
        return "its host does not know it"
    if vm in observation.pin_policy:
        return "pinned by OpenNebula: its cores are not changed"
    return None if balloon else "no working balloon: its memory is not changed"


async def _between_periods(
    scheduler: Scheduler, work: Callable[[PeriodContext], Awaitable[Result]]
) -> Result:
    try:
        return await scheduler.between_periods(lambda: work(scheduler.world), _PATIENCE_S)
    except WaitedEnoughError:
        raise TryAgainError(
            "the running period has not ended yet; no other period starts: try again in a moment"
        ) from None
    except CloudUnreachableError as error:
        raise InvalidRequestError(f"the cloud can't be reached: {error}") from error


async def _everything(context: PeriodContext) -> list[int]:
    return [vm.vm for vm in await _whole(context)]


async def _whole(context: PeriodContext) -> list[FullSize]:
    """Return every running VM with the size that OpenNebula gave it."""
    seen = await context.cloud.observe()
    context.hypervisors.meet(seen)
    runs = is_one_of(seen.vm_state, (VmState.RUNNING, VmState.BUSY)) & (seen.vm_host >= 0)
    return [
        FullSize(
            vm=int(seen.vm_id[row]),
            host=int(seen.vm_host[row]),
            cpu_units=float(seen.vm_reserved[row, 0]),
            memory_mib=int(seen.vm_reserved[row, 1]),
            vcpus=int(seen.vm_vcpus[row]),
        )
        for row in np.flatnonzero(runs).tolist()
    ]


def _released(vm: FullSize, did: ReleaseResult) -> ReleasedVm:
    return ReleasedVm(vm.vm, did.did or None, did.problem or None)
