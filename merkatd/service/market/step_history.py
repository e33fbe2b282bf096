"""Steps of past periods: administrators see all, others those of their own VMs."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np
import sqlalchemy as sa

from merkatd.base.quantities import finite
from merkatd.cluster import Ints, Migrate, Snapshot
from merkatd.cluster.columns import NO_ROW, rows_of
from merkatd.database.base.schema import chunks
from merkatd.database.scheduler import journal
from merkatd.database.scheduler.journal import StepFilter
from merkatd.database.scheduler.step_store import PLACEMENT, StepState, StoredStep
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.callers import USE, Caller, CallerRights
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.read_runner import ReadRunner, run_at_once
from merkatd.service.base.visibility import own_vm_ids

MOST_STEPS = 100_000
DEFAULT_STEPS = 50
PLACING_KINDS = PLACEMENT
"""The kinds of steps that change where or whether a VM runs."""
_NO_OWNER = -1


@dataclass(frozen=True, slots=True)
class StepQuery:
    """Conditions on steps; None is no condition."""

    vm: int | None = None
    host: int | None = None
    kinds: AbstractSet[str] | None = None
    state: str | None = None
    first_period: int | None = None
    last_period: int | None = None
    since_s: float | None = None


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step, with the present names of its VM and hosts."""

    id: str
    period: int
    at_s: float
    sent_s: float | None
    ended_s: float | None
    kind: str
    vm: int | None
    """The id of its VM; None before the VM is created."""
    name: str | None
    source: str | None
    """The host that its VM leaves: its name, or its id if it is gone."""
    host: str | None
    """The host of the step: its name, or its id if it is gone."""
    state: str
    gain: float | None
    after: Sequence[str]
    """The steps that must end before it."""
    reason: str
    reply: str | None


class StepHistory:
    """The steps of past periods."""

    def __init__(self, scheduler: Scheduler, rights: CallerRights) -> None:
        self._scheduler = scheduler
        self._rights = rights

    async def steps(
        self,
        caller: Caller,
        snapshot: Snapshot | None,
        query: StepQuery,
        limit: int = DEFAULT_STEPS,
        run: ReadRunner = run_at_once,
    ) -> list[StepRow]:
        """Return the newest steps that the caller may see, newest first.

        `snapshot` has the present names, and the caller's VMs. Raise InvalidRequestError.
        """
        own: list[int] | None = None
        if not caller.is_admin:
            own = [] if snapshot is None else own_vm_ids(snapshot, caller.uid)
        return await self._read(snapshot, query, own, limit, run)

    async def steps_of_vm(
        self,
        caller: Caller,
        snapshot: Snapshot,
        vm: int,
        last_owner: int | None = None,
        limit: int = DEFAULT_STEPS,
        run: ReadRunner = run_at_once,
    ) -> list[StepRow]:
        """Return the newest steps of a VM up to the snapshot's period. Raise RequestError.

        `last_owner` is the owner of a VM that is gone, if it is known.
        """
        row = next(iter(np.flatnonzero(snapshot.vms.id == vm).tolist()), None)
        owner = last_owner if row is None else int(snapshot.vms.owner[row])
        await self._rights.require_vm(caller, vm, _NO_OWNER if owner is None else owner, USE)
        query = StepQuery(vm=vm, last_period=snapshot.period)
        return await self._read(snapshot, query, None, limit, run)

    async def _read(
        self,
        snapshot: Snapshot | None,
        query: StepQuery,
        own: list[int] | None,
        limit: int,
        run: ReadRunner,
    ) -> list[StepRow]:
        if not 1 <= limit <= MOST_STEPS:
            raise InvalidRequestError(f"limit: must be from 1 to {MOST_STEPS} (got {limit})")
        wanted = _filter_of(query)

        def read(connection: sa.Connection) -> list[StepRow]:
            return _rows(_newest_steps(connection, wanted, own, limit), snapshot)

        return await run(lambda: self._scheduler.world.database.read(read))


def _filter_of(query: StepQuery) -> StepFilter:
    return StepFilter(
        vm=query.vm,
        host=query.host,
        kinds=query.kinds,
        state=None if query.state is None else StepState(query.state),
        first_period=query.first_period,
        last_period=query.last_period,
        since_s=query.since_s,
    )


def _newest_steps(
    connection: sa.Connection, wanted: StepFilter, vms: list[int] | None, limit: int
) -> Sequence[StoredStep]:
    """Return the newest steps, of all VMs or of these."""
    if vms is None:
        return journal.recent(connection, wanted, limit)
    return sorted(_of_vms(connection, wanted, vms, limit), key=_age)[:limit]


def _of_vms(
    connection: sa.Connection, wanted: StepFilter, vms: list[int], limit: int
) -> Iterator[StoredStep]:
    for some in chunks(vms):
        yield from journal.recent(connection, replace(wanted, vms=frozenset(some)), limit)


def _age(stored: StoredStep) -> tuple[int, float]:
    return -stored.step.period, -stored.planned_s


def _rows(steps: Sequence[StoredStep], snapshot: Snapshot | None) -> list[StepRow]:
    """Return the steps with the present names of hosts and VMs."""
    vms, hosts = (
        {_vm(stored) for stored in steps},
        {host for stored in steps for host in _hosts(stored)},
    )
    vm_names = _names(snapshot.vms.id, snapshot.vms.name, vms) if snapshot else {}
    host_names = _names(snapshot.hosts.id, snapshot.hosts.name, hosts) if snapshot else {}
    return [_row(stored, vm_names, host_names) for stored in steps]


def _names(ids: Ints, names: Sequence[str], wanted: AbstractSet[int]) -> dict[int, str]:
    """Return the names of the wanted ids that are among `ids`."""
    some = np.fromiter(wanted, np.int64, len(wanted))
    rows = rows_of(ids, some)
    there = rows != NO_ROW
    return {
        number: names[row]
        for number, row in zip(some[there].tolist(), rows[there].tolist(), strict=True)
    }


def _vm(stored: StoredStep) -> int:
    """Return the id of the step's VM, negative before the VM is created."""
    return stored.created if stored.created is not None else stored.step.vm


def _hosts(stored: StoredStep) -> list[int]:
    """Return the ids of the step's hosts."""
    hosts = (getattr(stored.step, name, None) for name in ("host", "source"))
    return [host for host in hosts if host is not None]


def _row(stored: StoredStep, vms: Mapping[int, str], hosts: Mapping[int, str]) -> StepRow:
    step = stored.step
    host, source = getattr(step, "host", None), getattr(step, "source", None)
    vm = _vm(stored)
    return StepRow(
        id=stored.id,
        period=step.period,
        at_s=stored.planned_s,
        sent_s=stored.sent_s,
        ended_s=stored.ended_s,
        kind=step.kind,
        vm=vm if vm >= 0 else None,
        name=vms.get(vm),
        source=None if source is None else hosts.get(source, str(source)),
        host=None if host is None else hosts.get(host, str(host)),
        state=str(stored.state),
        gain=finite(step.gain) if isinstance(step, Migrate) else None,
        after=list(step.after),
        reason=step.reason,
        reply=stored.reply,
    )
