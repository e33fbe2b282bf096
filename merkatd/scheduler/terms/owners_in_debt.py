"""VMs of owners that have not paid for too long give their hosts back.

# Note [Starts of owners in debt]

A guest has no limits for the seconds between its start and the first look at it. What it computes
then is charged, and is a debt where its owner has no credits. Without more than that an owner that
owes would have nothing to lose: eight VMs that were powered off and on again all the time took a
quarter of a host from VMs that paid, for a debt that grew for ever. New VMs of an owner in debt
are not placed, and a VM that is started again is no better than a new one. So once an owner has not
paid for as long as `unpaid_periods` says, each VM that it starts is stopped, or undeployed if it is
off by then. So are its VMs that are suspended or off: they keep memory on their hosts from VMs that
pay. Such a VM needs a place to be started again, which it gets once the debt is paid. VMs that run
on are left alone.

OpenNebula stops no VM that boots or is shut down. A VM that does one or the other whenever a period
looks would never be stopped. So the daemon tries again until the next period, after one to three
seconds drawn at random, which no owner can foresee. A stop that OpenNebula was not asked for by
then is taken back: it would count as under way, and the VM would neither be limited nor stopped.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import sqlalchemy as sa
from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from merkatd import ledger
from merkatd.cluster import RESTING, Stop, VmState
from merkatd.cluster.columns import NOWHERE
from merkatd.currency import credits_of
from merkatd.currency.solvency import due_for_suspension, gives_back
from merkatd.database.scheduler import journal
from merkatd.database.scheduler.lease_store import LeaseLostError
from merkatd.scheduler.base.ports import CloudUnreachableError, ReplyKind
from merkatd.scheduler.charging.charge import PayerFunds
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.observed import Observed

SOONEST_S, LATEST_S = 1.0, 3.0
"""Between two attempts."""
_NOT_ASKED = "OpenNebula could not be asked for it before the next period"
_ON_HOST = (VmState.RUNNING, VmState.BUSY, *RESTING)

_log = Logger()


class Barred:
    """VMs that rest or were started in debt, until they are off their hosts or all is paid."""

    def __init__(self, may: Callable[[], bool] = lambda: True) -> None:
        """`may`: whether to act."""
        self._may = may
        self._owners: Mapping[int, int] = {}
        """By VM id."""
        self._steps: dict[int, Stop] = {}
        self._recorded: set[int] = set()
        self._unasked: set[str] = set()
        """The ids of stops in the journal for which OpenNebula could not be asked so far."""
        self._call: Any = None

    def note(
        self, world: PeriodContext, seen: Observed, purse: PayerFunds, started: Collection[int]
    ) -> Mapping[int, str]:
        """Take in which guests their owners started; return why VMs are stopped, by id."""
        late = due_for_suspension(purse.arrears, world.money.unpaid_periods) & purse.debt.keys()
        vms = seen.snapshot.vms
        there = np.isin(vms.owner, list(late)) & np.isin(vms.state, _ON_HOST)
        rows = np.flatnonzero(there & (vms.market != NOWHERE))
        owners = dict(zip(vms.id[rows].tolist(), vms.owner[rows].tolist(), strict=True))
        rests = vms.id[np.isin(vms.state, RESTING)].tolist()
        kept = self._owners.keys() | frozenset(started) | frozenset(rests)
        self._owners = {vm: owner for vm, owner in owners.items() if vm in kept}
        return {vm: gives_back(credits_of(purse.debt[owner])) for vm, owner in self._owners.items()}

    def begin(self, world: PeriodContext, period: int) -> None:
        """Stop them, until the next period begins."""
        self.forget()
        why = "its owner has not paid for earlier periods, and it is off or was started again"
        self._steps = {vm: Stop(period=period, vm=vm, reason=why) for vm in sorted(self._owners)}
        if self._steps:
            self._later(world, 0.0)

    def forget(self) -> None:
        """A period begins, or the daemon ends."""
        self._steps, self._recorded = {}, set()
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._call = None

    async def take_back(self, world: PeriodContext) -> None:
        """No stop is under way that OpenNebula could not be asked for."""
        await self._refuse(world, self._unasked)

    async def _refuse(self, world: PeriodContext, ids: Collection[str]) -> None:
        """As above, of these steps alone."""
        why = dict.fromkeys(self._unasked.intersection(ids), _NOT_ASKED)
        if why:
            await world.database.run(lambda c: journal.refuse(c, why, world.now()))
            self._unasked -= why.keys()

    def _later(self, world: PeriodContext, seconds: float) -> None:
        steps = self._steps
        self._call = world.clock.callLater(
            seconds, lambda: ensureDeferred(self._attempt(world, steps))
        )

    async def _attempt(self, world: PeriodContext, steps: dict[int, Stop]) -> None:
        try:
            if not self._may():
                await self._refuse(world, {step.id for step in steps.values()})
                return
            owing = await world.database.read(ledger.debts_of)
            for vm, step in list(steps.items()):
                if steps is not self._steps:
                    break
                if self._owners[vm] not in owing:  # it has paid in the meantime
                    await self._refuse(world, {step.id})
                    steps.pop(vm, None)
                elif await self._is_settled(world, step):
                    steps.pop(vm, None)
            if steps is not self._steps:  # a period has begun
                await self._refuse(world, {step.id for step in steps.values()})
        except (LeaseLostError, CloudUnreachableError) as error:
            _log.info("VMs of owners in debt are stopped later: {why}", why=str(error))
        except Exception:  # noqa: BLE001 - whatever it was, the next period tries again
            _log.failure("VMs of owners in debt are stopped later")
        if steps is self._steps and steps:
            self._later(world, float(world.rng.uniform(SOONEST_S, LATEST_S)))

    async def _is_settled(self, world: PeriodContext, step: Stop) -> bool:
        """Ask for the stop; return whether nothing more is to be asked for in this period."""
        if step.vm not in self._recorded:
            at_s = world.now()

            def store(connection: sa.Connection) -> frozenset[str]:
                journal.record(connection, [step], at_s)
                return journal.mark_sent(connection, {step.id: step}, at_s)

            if step.id not in await world.database.run(store):
                return True  # another step of this VM is under way
            self._recorded.add(step.vm)
        await world.certain()
        self._unasked.discard(step.id)
        reply = await world.cloud.send(step)
        if reply.answer is ReplyKind.LOOK_AGAIN:
            self._unasked.add(step.id)
            return False
        _log.info("stop of VM {vm}: {answer}", vm=step.vm, answer=str(reply.answer))
        if reply.answer is ReplyKind.REFUSED:
            why, at_s = {step.id: f"{reply.answer}: {reply.why}"}, world.now()
            await world.database.run(lambda c: journal.refuse(c, why, at_s))
        return True
