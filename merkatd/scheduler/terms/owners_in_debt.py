"""Owners in debt: stopping their VMs that rest on hosts or are started again.

# Note [Starts of owners in debt]

A guest has no limits for the seconds between its start and its first observation. Its use in that
time is charged, and becomes a debt if its owner has no credits. An owner in debt would then have
nothing to lose. Example: eight VMs that were powered off and on all the time took a quarter of a
host from paying VMs, while the debt only grew.

New VMs of an owner in debt are not placed, and restarting an old VM must not be better than that.
So once an owner has not paid for `unpaid_periods`, each VM that it starts is stopped, or undeployed
if it is off by then. Its VMs that are suspended or off are undeployed too, because they keep memory
on their hosts from paying VMs. Such a VM is placed again once the debt is paid. VMs that keep
running are left alone, or suspended if they have floors (`affordability.py`).

OpenNebula can't stop a VM while it boots, shuts down or is changed (a disk, a network card, its
size). A VM for which that is so at every observation would never be stopped or suspended. So the
daemon tries again until the next period, at random intervals of one to three seconds, which no
owner can predict. If OpenNebula still did not accept the stop, the step is withdrawn. Otherwise it
would count as under way, and the VM would be neither limited nor stopped.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import sqlalchemy as sa
from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from merkatd import ledger
from merkatd.cluster import ON_HOST, RESTING, Stop, VmState
from merkatd.cluster.columns import NO_MARKET, is_one_of
from merkatd.currency import credits_of
from merkatd.currency.solvency import due_for_suspension, why_stopped
from merkatd.database.scheduler import journal
from merkatd.database.scheduler.lease_store import LeaseLostError
from merkatd.scheduler.base.ports import CloudUnreachableError, ReplyKind
from merkatd.scheduler.charging.charge import PayerFunds
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.observed import Observed

SOONEST_S, LATEST_S = 1.0, 3.0
"""The bounds of the random wait between two attempts."""
_NOT_ASKED = "OpenNebula could not accept it before the next period"

_log = Logger()


class BarredVms:
    """VMs of late owners to stop, until they are off their hosts or paid."""

    def __init__(self, may: Callable[[], bool] = lambda: True) -> None:
        """`may`: returns whether stopping VMs is allowed now."""
        self._may = may
        self._owners: Mapping[int, int] = {}
        """Owners, by VM id."""
        self._steps: dict[int, Stop] = {}
        self._recorded: set[int] = set()
        self._unasked: set[str] = set()
        """The ids of stops in the journal that OpenNebula could not accept so far."""
        self._call: Any = None

    def note(
        self,
        context: PeriodContext,
        observed: Observed,
        purse: PayerFunds,
        started: Collection[int],
    ) -> Mapping[int, str]:
        """Take note of the guests that owners started; return why VMs are stopped, by id."""
        late = due_for_suspension(purse.arrears, context.money.unpaid_periods) & purse.debt.keys()
        vms = observed.snapshot.vms
        there = is_one_of(vms.owner, late) & is_one_of(vms.state, ON_HOST)
        rows = np.flatnonzero(there & (vms.market != NO_MARKET))
        owners = dict(zip(vms.id[rows].tolist(), vms.owner[rows].tolist(), strict=True))
        rests = is_one_of(vms.state, RESTING)
        # An owner can change a running VM at each observation, so that no period could suspend it.
        changes = (vms.state == VmState.BUSY) & vms.stays & (vms.floor > 0).any(axis=1)
        changes &= is_one_of(vms.owner, purse.unpaid)
        off = frozenset(vms.id[rests | changes].tolist())
        kept = self._owners.keys() | frozenset(started) | off
        self._owners = {vm: owner for vm, owner in owners.items() if vm in kept}
        return {
            vm: why_stopped(credits_of(purse.debt[owner])) for vm, owner in self._owners.items()
        }

    def begin(self, context: PeriodContext, period: int) -> None:
        """Stop these VMs, with retries until the next period starts."""
        self.forget()
        why = "its owner has not paid for earlier periods, and it is off or was started again"
        self._steps = {vm: Stop(period=period, vm=vm, reason=why) for vm in sorted(self._owners)}
        if self._steps:
            self._later(context, 0.0)

    def forget(self) -> None:
        """Stop retrying, because a period starts or the daemon ends."""
        self._steps, self._recorded = {}, set()
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._call = None

    async def take_back(self, context: PeriodContext) -> None:
        """Withdraw all stops that OpenNebula could not accept."""
        await self._refuse(context, self._unasked)

    async def _refuse(self, context: PeriodContext, ids: Collection[str]) -> None:
        """Withdraw those of these stops that OpenNebula could not accept."""
        why = dict.fromkeys(self._unasked.intersection(ids), _NOT_ASKED)
        if why:
            await context.database.run(lambda c: journal.refuse(c, why, context.now()))
            self._unasked -= why.keys()

    def _later(self, context: PeriodContext, seconds: float) -> None:
        steps = self._steps
        self._call = context.clock.callLater(
            seconds, lambda: ensureDeferred(self._attempt(context, steps))
        )

    async def _attempt(self, context: PeriodContext, steps: dict[int, Stop]) -> None:
        try:
            if not self._may():
                await self._refuse(context, {step.id for step in steps.values()})
                return
            owing = await context.database.read(ledger.debts_of)
            for vm, step in list(steps.items()):
                if steps is not self._steps:
                    break
                if self._owners[vm] not in owing:  # the owner has paid in the meantime
                    await self._refuse(context, {step.id})
                    steps.pop(vm, None)
                elif await self._is_settled(context, step):
                    steps.pop(vm, None)
            if steps is not self._steps:  # a period has started
                await self._refuse(context, {step.id for step in steps.values()})
        except (LeaseLostError, CloudUnreachableError) as error:
            _log.info("VMs of owners in debt will be stopped later: {why}", why=str(error))
        except Exception:  # noqa: BLE001 - the next period tries again after any error
            _log.failure("VMs of owners in debt will be stopped later")
        if steps is self._steps and steps:
            self._later(context, float(context.rng.uniform(SOONEST_S, LATEST_S)))

    async def _is_settled(self, context: PeriodContext, step: Stop) -> bool:
        """Ask for the stop; return whether this period needs no further attempt."""
        if step.vm not in self._recorded:
            at_s = context.now()

            def store(connection: sa.Connection) -> frozenset[str]:
                journal.record(connection, [step], at_s)
                return journal.mark_sent(connection, {step.id: step}, at_s)

            if step.id not in await context.database.run(store):
                return True  # another step of this VM is under way
            self._recorded.add(step.vm)
        await context.certain()
        self._unasked.discard(step.id)
        reply = await context.cloud.send(step)
        if reply.answer is ReplyKind.LOOK_AGAIN:
            self._unasked.add(step.id)
            return False
        _log.info("stop of VM {vm}: {answer}", vm=step.vm, answer=str(reply.answer))
        if reply.answer is ReplyKind.REFUSED:
            why, at_s = {step.id: f"{reply.answer}: {reply.why}"}, context.now()
            await context.database.run(lambda c: journal.refuse(c, why, at_s))
        return True
