"""Requests to OpenNebula: many at a time, none delayed by another, for a limited time.

One transaction marks all steps as sent, instead of hundreds of transactions. So a step whose turn
does not come within the time limit is known to be unsent, and is given up. An answer after that
time is still handled: a refusal ends its step, and any other outcome is judged by a later
observation. A request takes several calls, so it may go on in later periods. Until it ends, its
step is not given up: otherwise OpenNebula could get the same request twice, and create two VMs.
Another daemon knows nothing of the request. So it ends as soon as this daemon loses the lease, also
if this daemon takes the lease again.

Steps that switch hosts run commands of administrators, which may take long or hang. No period waits
for them. A step whose turn does not come within the time limit is given up like any other.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    DeferredList,
    DeferredSemaphore,
    ensureDeferred,
)
from twisted.logger import Logger

from merkatd.base.deferreds import begun_in_parts
from merkatd.cluster import Create, Deploy, Migrate, OfHost, Terminate
from merkatd.cluster.plan import Step
from merkatd.database.scheduler import journal
from merkatd.database.scheduler.lease_store import LeaseLostError
from merkatd.placement.changes.migration_waves import MigrationWaves
from merkatd.scheduler.base.ports import CloudUnreachableError, ReplyKind, StepReply
from merkatd.scheduler.context import PeriodContext

_log = Logger()

_TOO_LATE = "the time for acting was over"
_NEVER = "never sent: {why}; the next period decides again"

Send = Callable[[Step], Awaitable[StepReply]]


@dataclass(frozen=True, slots=True)
class RequestTally:
    """The answers within the time limit, by step id."""

    refused: Mapping[str, str]
    """Refused steps with reasons."""
    never_sent: frozenset[str]
    by_its_vm: frozenset[str] = frozenset()
    """Refused steps that OpenNebula refused because of the VM, as far as is known."""
    broken_off: bool = False
    """Whether migrations were not sent because the outcome of another one is unknown."""


@dataclass(slots=True)
class _Turns:
    """The progress of all requests, with their answers."""

    begun: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    why: dict[str, str] = field(default_factory=dict)
    by_its_vm: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    """Steps without an answer, which may happen or not."""
    over: bool = False


@dataclass(frozen=True, slots=True)
class _Checked:
    """Sends a step unless something has changed since the decision."""

    world: PeriodContext
    known: Mapping[int, AbstractSet[int]]
    since_s: float
    """The start of the requests; `known` includes all valid observations of hosts before it."""
    send: Send

    async def obstacle(self, step: Step) -> str | None:
        """Return what has changed, or None. Raise CloudUnreachableError."""
        try:
            if isinstance(step, Deploy | Migrate):
                known = self.known.get(step.host, frozenset())
                why = await self.world.why_not_on(step.host, known, self.since_s)
                if why is not None:
                    return f"{ReplyKind.LOOK_AGAIN}: {why}"
            # This check comes last: nothing may happen between it and the call.
            await self.world.certain()
        except LeaseLostError as error:
            return f"not sent: {error}"
        return None


async def send_requests(
    context: PeriodContext,
    steps: Mapping[str, Step],
    known: Mapping[int, AbstractSet[int]],
    retries: AbstractSet[str] = frozenset(),
    in_waves: Sequence[MigrationWaves] = (),
) -> RequestTally:
    """Send all steps at once, so that none delays another, but with a limit of concurrent calls.

    `known` are the VM ids of each host at the time of the decision. `retries` are deployments of
    VMs that failed on their hosts. Migrations `in_waves` are sent after the answers to the waves
    before them.
    """
    at_s = context.now()
    ours = await context.database.run(lambda connection: journal.mark_sent(connection, steps, at_s))
    turns = _Turns()
    in_all = DeferredSemaphore(context.rhythm.in_flight)
    on_host: dict[int, DeferredSemaphore] = defaultdict(
        lambda: DeferredSemaphore(context.rhythm.in_flight_per_host)
    )

    host_of = await context.executor.run(
        lambda: {vm: host for host, vms in known.items() for vm in vms}
    )

    def begin(step: Step) -> Deferred[None]:
        def send() -> Deferred[None]:
            return in_all.run(lambda: _started(context, step, start(step)))

        host = getattr(step, "host", None)
        host = host_of.get(step.vm) if host is None else host
        if host is None:  # creating a VM, or ending one that waits, concerns no host
            return send()
        # The host's turn comes first: a step that waits for a slow host must not block others.
        return on_host[host].run(send)

    async def start(step: Step) -> None:
        send = context.retry if step.id in retries else context.cloud.send
        await _one(context, step, _Checked(context, known, at_s, send), turns)

    switches = {id_: step for id_, step in steps.items() if isinstance(step, OfHost)}
    for step_id in switches.keys() & ours:
        checked = _Checked(context, known, at_s, context.cloud.send)
        _started(context, steps[step_id], _switch(context, steps[step_id], checked))
    ours -= switches.keys()
    waiting = {step.id for waves in in_waves for step in (*waves.first, *waves.judged)}
    at_once = [step for step in steps.values() if step.id in ours - waiting]
    new_vms = [step for step in at_once if isinstance(step, Create)]
    running = [step for step in at_once if not isinstance(step, Create)]
    sending = await begun_in_parts(running, begin, context.executor)
    sending += [
        ensureDeferred(_in_waves(context, market_waves, ours, begin, turns))
        for market_waves in in_waves
    ]
    sending += await begun_in_parts(
        new_vms, begin, context.executor
    )  # after the steps of running VMs
    in_time = await _all_or_the_limit(context, sending)
    turns.over = True
    late = "without the others it would do harm" if in_time else _TOO_LATE
    never = dict.fromkeys(ours - turns.begun, _NEVER.format(why=late))
    at_s = context.now()
    await context.database.run(lambda connection: journal.refuse(connection, turns.why, at_s))
    await context.database.run(lambda connection: journal.expire_unsent(connection, never, at_s))
    slow = len(turns.begun - turns.ended)
    if slow or (never and not in_time):
        _log.warn(
            "Acting ended after {limit_s:g} s: {never} steps not sent, {slow} not answered yet",
            limit_s=context.rhythm.act_limit_s,
            never=len(never),
            slow=slow,
        )
    unsure = any(isinstance(steps[step_id], Migrate) for step_id in turns.unknown)
    return RequestTally(
        turns.why,
        frozenset(never),
        frozenset(turns.by_its_vm & turns.why.keys()),
        broken_off=unsure and in_time and bool(never),
    )


async def _in_waves(
    context: PeriodContext,
    waves: MigrationWaves,
    ours: AbstractSet[str],
    begin: Callable[[Step], Deferred[None]],
    turns: _Turns,
) -> None:
    """Send a market's migrations, each wave after the answers to the previous one.

    No wave follows a wave with an unknown outcome.
    """

    async def sent(steps: Sequence[Step]) -> bool:
        mine = [step for step in steps if step.id in ours]
        await DeferredList([begin(step) for step in mine], consumeErrors=True)
        return not turns.over and turns.unknown.isdisjoint(step.id for step in mine)

    if not await sent(waves.first):
        return
    done = [step for step in waves.first if step.id not in turns.why]
    remaining = await context.executor.run(lambda: waves.remaining(done))
    while rows := await context.executor.run(remaining.wave):
        steps = {row: waves.step_of(row) for row in rows}
        if not await sent(list(steps.values())):
            return
        for row, step in steps.items():
            if step.id in turns.why or step.id not in ours:
                remaining.drop(row)
            else:
                remaining.made(row)


async def _all_or_the_limit(context: PeriodContext, sending: list[Deferred[Any]]) -> bool:
    """Wait until all are done or the time for acting is over; return whether all are done."""
    waiting: Deferred[None] = Deferred()

    def end(_: object = None) -> None:
        if not waiting.called:
            waiting.callback(None)

    DeferredList(sending, consumeErrors=True).addCallback(end)
    alarm = context.clock.callLater(context.rhythm.act_limit_s, end)
    await waiting
    if alarm.active():
        alarm.cancel()
        return True
    return False


def cancel_requests(context: PeriodContext) -> None:
    """Cancel all requests that have not ended; it is unknown whether OpenNebula received them."""
    for request in list(context.in_flight.values()):
        request.cancel()


def _started(
    context: PeriodContext, step: Step, request: Coroutine[Deferred[Any], Any, None]
) -> Deferred[None]:
    """Start a request, which is in flight until it ends."""
    running = ensureDeferred(request)

    def end(outcome: Any) -> Any:
        del context.in_flight[step.id]
        return outcome

    if not running.called:
        context.in_flight[step.id] = running
        running.addBoth(end)
    return running


async def _switch(context: PeriodContext, step: Step, send: _Checked) -> None:
    """Handle one step that switches a host, as soon as it has a turn."""
    decided_s, turns = context.clock.seconds(), _Turns(over=True)

    async def in_turn() -> None:
        if context.clock.seconds() - decided_s > context.rhythm.act_limit_s:
            await _recorded(context, step, journal.expire_unsent, _NEVER.format(why=_TOO_LATE))
            return
        why = await _send(step, send, turns)
        if why is not None:
            await _refused(context, step, why, turns)

    try:
        await context.switching.run(lambda: ensureDeferred(in_turn()))
    except CancelledError:
        _log.warn("{kind} of {target} ends: the lease is lost", kind=step.kind, target=step.target)


async def _one(context: PeriodContext, step: Step, send: _Checked, turns: _Turns) -> None:
    """Handle one step without raising errors: it has an answer, or its outcome is unknown."""
    if turns.over:
        return
    turns.begun.add(step.id)
    why = await _send(step, send, turns)
    turns.ended.add(step.id)
    if why is not None:
        await _refused(context, step, why, turns)


async def _refused(context: PeriodContext, step: Step, why: str, turns: _Turns) -> None:
    if not turns.over:
        turns.why[step.id] = why
        return
    await _recorded(context, step, journal.refuse, why)


async def _recorded(
    context: PeriodContext,
    step: Step,
    end: Callable[[sa.Connection, Mapping[str, str], float], object],
    why: str,
) -> None:
    """Record the end of a step after its period."""
    at_s = context.now()
    try:
        await context.database.run(lambda connection: end(connection, {step.id: why}, at_s))
    except Exception as error:  # noqa: BLE001 - a later observation judges the step then
        _log.warn(
            "A late answer for {target} was lost: {error}", target=step.target, error=str(error)
        )


def _without_answer(step: Step, error: Exception, turns: _Turns) -> str | None:
    """Return why a termination ends; any other step may happen or not.

    The guest was perhaps not asked to shut down, and it does no harm to ask it twice.
    """
    if isinstance(step, Terminate):
        return f"no answer: {error}"
    turns.unknown.add(step.id)
    return None


async def _send(step: Step, send: _Checked, turns: _Turns) -> str | None:
    """Return why the step ends without effect; None if it has one, or if that is unknown."""
    said: dict[str, Any] = {"kind": step.kind, "target": step.target}
    try:
        why = await send.obstacle(step)
        if why is not None:
            _log.info("{kind} of {target} is not sent: {why}", **said, why=why)
            return why
        reply = await send.send(step)
    except CloudUnreachableError as error:
        _log.warn("{kind} of {target}: {error}", **said, error=str(error))
        return _without_answer(step, error, turns)
    except CancelledError:
        _log.warn("{kind} of {target} ends: the lease is lost", **said)
        turns.unknown.add(step.id)
        return None
    except Exception:  # noqa: BLE001 - an error of one step must not lose the others' answers
        _log.failure("{kind} of {target} failed", **said)
        turns.unknown.add(step.id)
        return None
    _log.info(
        "{kind} of {target}: {answer}; {reason}",
        **said,
        answer=str(reply.answer),
        reason=step.reason,
        step=step.id,
    )
    if reply.answer is ReplyKind.ACCEPTED:
        return None
    if reply.answer is ReplyKind.REFUSED or reply.changed:
        turns.by_its_vm.add(step.id)
    return f"{reply.answer}: {reply.why}" if reply.why else str(reply.answer)
