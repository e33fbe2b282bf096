"""The guest watch: limits, within seconds, for guests that start between two periods.

A guest starts without limits, and the next period may be most of a minute away. After a period has
acted, the daemon asks the hosts of managed VMs every few seconds for their running domains, with
one cheap call per host. A domain with a new id is a guest that has started. Only then the daemon
reads the host, records the guest's limits in the journal and sets them, once for each start. A
guest that has migrated gets its new host's limits once its former host has it no longer. If the
daemon dies meanwhile, the next period sees the guest and decides again.

# Note [Guests that are gone]

Limits are hard and last until the next period. After a guest ends or is powered off, its share of
the host is idle until then. Its owner pays for its running time, at least for ten seconds
(`least_charge_s`). Example: a VM that is off for all but five seconds of each period could keep
three quarters of a host from its neighbours for a sixth of the price. So once a guest is gone whose
share other VMs lack, the next period begins, but not before those ten seconds.

In a cloud with thousands of hosts some guest is always gone. So the early start also waits for ten
times the duration of the last period's computation. In the largest clouds there is no early start.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import sqlalchemy as sa
from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.logger import Logger

from merkatd.base.clock import Clock
from merkatd.cluster import Balloon, Floats, Ints, Limit, OnHost, Throttle
from merkatd.database.scheduler import journal
from merkatd.database.scheduler.lease_store import LeaseLostError
from merkatd.scheduler.base.ports import CloudUnreachableError, GuestRecord
from merkatd.scheduler.charging.used_cpu import NewlyLimited
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.execution.starting_guests import StartingGuests
from merkatd.scheduler.observation.observed import Observed

MOST_HOSTS = 100
"""The most hosts in one look, unless the part below is more."""
LOOKS_FOR_ALL = 4
"""The number of looks in which every host is asked."""

REST = 10.0
"""The least wait for an early period, as a multiple of the last period's duration."""

_log = Logger()


class _Domain(NamedTuple):
    """The domain of a VM on a host, when it was seen last."""

    host: int
    record: GuestRecord | None
    """The VM's last record at the observation; None for a domain that was found later."""
    run: int

    def may_be_of(self, record: GuestRecord) -> bool:
        """Return whether the VM's last record may be that of this domain."""
        return self.record == record or (self.record is None and record.ran_until_s == 0)


class GuestWatch:
    """Watches for VMs that start, until the next period begins."""

    def __init__(
        self,
        turn: DeferredLock,
        clock: Clock,
        may: Callable[[], bool],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`turn` excludes a look during a period; `may` returns whether limits may be set.

        `wake` begins the next period early.
        """
        self._turn, self._clock, self._may, self._wake = turn, clock, may, wake
        self._present: set[int] = set()
        """VMs whose guests were seen since the period."""
        self._period_s = self._soonest_s = clock.seconds()
        """The start of the period, and the earliest time of an early next one."""
        self._world: PeriodContext | None = None
        self._expected = StartingGuests()
        self._hosts: list[int] = []
        self._where: Mapping[int, int] = {}
        self._runs: dict[int, int] = {}
        self._last: dict[int, _Domain] = {}
        """The domains that were seen last, by id of the VMs that run."""
        self._replaced: dict[int, int] = {}
        self._found_s: dict[int, float] = {}
        """By VM id: how often its domain was replaced, and when the present one was found."""
        self._turns: dict[int, int] = {}
        self._leaving: dict[int, int] = {}
        """By id of VMs that have not left the host that they migrate from: that host."""
        self.limited: dict[int, list[float]] = {}
        """By VM id: the CPU counters of each new guest when it got its limits, in core-seconds."""
        self.looked: set[int] = set()
        """Hosts that answered each look since the period. No guest ran there unseen for longer than
        the time between two looks."""
        self._asked_s: dict[int, float] = {}
        self._gap_s: dict[int, float] = {}
        """By host: the time of the last look, and the longest time between two looks."""
        self._ends_s = 0.0
        self._call: Any = None

    def find_new_guests(self, observed: Observed) -> NewlyLimited:
        """Return the new guests for the charge: those that got limits, and those seen just now."""
        now_s = self._clock.seconds()
        self._note_asked(self._asked_s)
        self._note_observed(observed, now_s)
        ages = {vm: now_s - found_s for vm, found_s in self._found_s.items()}
        asked = frozenset(self.looked), dict(self._gap_s)
        return NewlyLimited(dict(self.limited), *asked, dict(self._replaced), ages)

    def forget_charged(self) -> None:
        """Forget the new guests, which are charged now."""
        self.limited.clear()
        self._replaced.clear()
        self._found_s.clear()

    def _note_observed(self, observed: Observed, now_s: float) -> None:
        """Take note of the domains at an observation.

        If a guest can't be read, its last domain is kept as long as its record is the same. An
        owner can let its guest be replaced or saved at each observation.
        """
        use, look = observed.use, observed.observation
        if use.run is None or look.records is None:
            self._last = {}
            return
        records = look.records
        times = (records.seq.tolist(), records.ran_from_s.tolist(), records.ran_until_s.tolist())
        last = [GuestRecord(*record) for record in zip(*times, strict=True)]
        record_of = dict(zip(look.vm_id.tolist(), last, strict=True))
        host_of = dict(zip(look.vm_id.tolist(), look.vm_host.tolist(), strict=True))
        for vm, run in zip(use.vm_id.tolist(), use.run.tolist(), strict=True):
            if vm in record_of:
                self._note_domain(vm, _Domain(host_of[vm], record_of[vm], run), now_s)
        self._last = {
            vm: domain._replace(record=record_of[vm])
            for vm, domain in self._last.items()
            if host_of.get(vm) == domain.host and domain.may_be_of(record_of[vm])
        }

    def _note_domain(self, vm: int, now: _Domain, now_s: float) -> None:
        """Count a domain with another id than the one before on the same host."""
        last = self._last.get(vm)
        if last is not None and last.host == now.host and last.run != now.run:
            self._replaced[vm] = self._replaced.get(vm, 0) + 1
            self._found_s[vm] = now_s
        self._last[vm] = now

    def _note_asked(self, hosts: Collection[int]) -> None:
        now_s = self._clock.seconds()
        for host in hosts:
            gap_s = now_s - self._asked_s.get(host, now_s)
            self._gap_s[host] = max(gap_s, self._gap_s.get(host, 0.0))
            self._asked_s[host] = now_s

    def expect(self, context: PeriodContext, expected: StartingGuests) -> None:
        """Watch for these VMs from now on, for at most two intervals."""
        self._break_off()
        if not expected.where or context.rhythm.arrival_look_s <= 0:
            return
        self._world, self._expected, self._turns = context, expected, {}
        self._runs, self._where, self._hosts = expected.runs, expected.where, expected.hosts
        self._present, self._leaving = set(self._runs), dict(expected.leaving)
        now_s = self._clock.seconds()
        rest_s = max(context.rhythm.least_charge_s, REST * (now_s - self._period_s))
        self._soonest_s, self._ends_s = now_s + rest_s, now_s + 2 * context.rhythm.interval_s
        self.looked = set(expected.hosts)
        self._asked_s, self._gap_s = dict.fromkeys(expected.hosts, now_s), {}
        self._later(context)

    def forget(self) -> None:
        """Stop watching, because a period begins or the daemon ends."""
        self._period_s = self._clock.seconds()
        if self._world is None:
            self.looked = set()  # no host was asked since the last period
        self._leave()

    def _leave(self) -> None:
        self._where, self._world, self._expected = {}, None, StartingGuests()
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._call = None

    def _break_off(self) -> None:
        """Stop watching; guests that start from now on may not be seen before the next period."""
        self._leave()
        self.looked = set()

    def _later(self, context: PeriodContext) -> None:
        self._call = self._clock.callLater(
            context.rhythm.arrival_look_s, lambda: ensureDeferred(self._due(context))
        )

    async def _due(self, context: PeriodContext) -> None:
        await self._turn.acquire()
        try:
            if context is not self._world:
                return
            if not self._may():
                self.looked = set()
                return
            await self._look(context)
        except (LeaseLostError, CloudUnreachableError) as error:
            _log.info("Limits of starting VMs wait for the next period: {why}", why=str(error))
            self._break_off()
        except Exception:  # noqa: BLE001 - the next period sets the limits after any error
            _log.failure("Limits of starting VMs wait for the next period")
            self._break_off()
        finally:
            self._turn.release()
        if not self._where or self._world is not context:
            return
        if self._clock.seconds() < self._ends_s:
            self._later(context)
        else:
            self._break_off()

    async def _look(self, context: PeriodContext) -> None:
        """Ask hosts for their domains, and limit the guests that have started."""
        hosts = self._next(context)
        if not hosts:
            return
        there = await context.hypervisors.runs(hosts)
        self.looked -= set(hosts) - there.keys()
        self._note_asked(there)
        self._leaving = {
            vm: host for vm, host in self._leaving.items() if vm in there.get(host, (vm,))
        }
        missed = await context.executor.run(lambda: self._is_missed(there))
        if missed and self._clock.seconds() >= self._soonest_s:
            self._wake()
        places = await context.executor.run(lambda: self._places(there))
        if not places:
            return
        use = await context.hypervisors.read(places)
        if use.run is None:
            return
        known = use.vm_id, use.run, use.cpu_s
        steps = await context.executor.run(lambda: self._steps_for_started(*known))
        if steps:
            await _send(context, steps)

    def _next(self, context: PeriodContext) -> list[int]:
        """Return the hosts of this look."""
        most = max(MOST_HOSTS, -(-len(self._hosts) // LOOKS_FOR_ALL))
        away = context.hypervisors.reach().away
        self.looked -= away.keys()
        now = [host for host in self._hosts if host not in away][:most]
        chosen = set(now)
        self._hosts.sort(key=lambda host: host in chosen)  # the hosts of this look come last
        return now

    def _is_missed(self, there: Mapping[int, Mapping[int, int]]) -> bool:
        """Return whether a guest is gone whose share others lack (Note [Guests that are gone])."""
        now = {vm for runs in there.values() for vm in runs}
        self._present |= now
        gone = (self._present & self._expected.missed) - now - self._expected.leaving.keys()
        return any(self._where.get(vm) in there for vm in gone)

    def _new(self, vm: int, run: int) -> bool:
        """Return whether a guest has started, or has arrived and runs on no other host."""
        return self._runs.get(vm) != run and vm not in self._leaving

    def _places(self, there: Mapping[int, Mapping[int, int]]) -> dict[int, int]:
        """Return the host of each VM, by id, on all hosts where a guest has started."""
        began = {
            host
            for host, runs in there.items()
            for vm, run in runs.items()
            if self._where.get(vm) == host and self._new(vm, run)
        }
        if not began:
            return {}
        known = {**self._expected.others, **self._where}
        return {vm: host for vm, host in known.items() if host in began}

    def _steps_for_started(self, vms: Ints, runs: Ints, cpu_s: Floats) -> list[OnHost]:
        """Return the steps that limit the guests which have started since the last look."""
        # A guest that can't be read yet is handled by the next look.
        run_of_vm = zip(vms.tolist(), runs.tolist(), strict=True)
        computed_s = dict(zip(vms.tolist(), cpu_s.tolist(), strict=True))
        started = {vm: run for vm, run in run_of_vm if vm in self._where and self._new(vm, run)}
        # Once for each start, also if setting the limits fails.
        self._runs.update(started)
        now_s = self._clock.seconds()
        for vm, run in started.items():
            self._note_domain(vm, _Domain(self._where[vm], None, run), now_s)
        expected = self._expected
        for vm in started.keys() - expected.leaving.keys():  # a migrated guest had limits
            self.limited.setdefault(vm, []).append(computed_s[vm])
        first_steps = [step for vm in started for step in expected.steps.get(vm, ())]
        restarted = [vm for vm in started if vm not in expected.steps]
        steps = []
        for step in (*first_steps, *(expected.again(restarted) if restarted else ())):
            # The period itself may have sent the first step for this host.
            turn = self._turns.get(step.vm, 0 if step.vm in expected.steps else 1)
            steps.append(_in_turn(step, turn))
        for vm in started:
            self._turns[vm] = self._turns.get(vm, 0 if vm in expected.steps else 1) + 1
        return steps


def _in_turn(step: OnHost, turn: int) -> OnHost:
    return (
        replace(step, turn=turn) if turn and isinstance(step, Limit | Throttle | Balloon) else step
    )


async def _send(context: PeriodContext, steps: list[OnHost]) -> None:
    """Record the limits, and set those that were not sent before."""
    by_id, at_s = {step.id: step for step in steps}, context.now()

    def store(connection: sa.Connection) -> frozenset[str]:
        journal.record(connection, steps, at_s)
        return journal.mark_sent(connection, by_id, at_s)

    sent = await context.database.run(store)
    await context.certain()
    why = await context.hypervisors.apply([by_id[step] for step in by_id if step in sent])
    at_s = context.now()
    await context.database.run(lambda c: journal.confirm(c, sent - why.keys(), at_s))
    await context.database.run(lambda c: journal.refuse(c, why, at_s))
    for step_id, reason in why.items():
        _log.warn("A host refused step {step}: {why}", step=step_id, why=reason)
