"""Act: the one hand that changes the cloud. Steps are in the journal before they are sent.

What hosts do at once (limits, pins, balloons) is answered by them and ends there. What
OpenNebula does takes its time: such a step stays sent, whatever was answered, until a later
observation shows what became of it. A step that comes after one that is not done yet is not
sent in this period; the next one decides anew, with what it sees then.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from twisted.internet.defer import Deferred, DeferredSemaphore, ensureDeferred, gatherResults
from twisted.logger import Logger

from merkatd.cluster import Balloon, Limit, Pin
from merkatd.cluster.steps import Step
from merkatd.database import journal, periods
from merkatd.scheduler.decide import Decided
from merkatd.scheduler.observe import Seen
from merkatd.scheduler.ports import Answer, UnreachableError
from merkatd.scheduler.world import World

_log = Logger()

OnHost = Limit | Pin | Balloon


@dataclass(frozen=True, slots=True)
class Acted:
    """How the steps of a period fared."""

    sent: int
    refused: int
    postponed: int


async def act(world: World, seen: Seen, decided: Decided) -> Acted:
    """Tell the hosts, then ask OpenNebula for what can be asked for now."""
    done: set[str] = set()
    steps = {step.id: step for step in decided.steps}
    told = {one: step for one, step in steps.items() if isinstance(step, OnHost)}
    refused = await _tell_hosts(world, told, done)
    ready = {
        one: step for one, step in steps.items() if one not in told and done.issuperset(step.after)
    }
    late = dict.fromkeys(
        steps.keys() - done - refused - ready.keys(),
        "another step must come first; the next period decides anew",
    )
    at_s = world.now()
    await world.database.run(lambda connection: journal.expire(connection, late, at_s))
    refused |= await _ask(world, ready)
    at_s = world.now()
    await world.database.run(lambda connection: periods.acted(connection, seen.period, at_s))
    return Acted(len(done) + len(ready), len(refused), len(late))


async def _tell_hosts(world: World, steps: Mapping[str, OnHost], done: set[str]) -> set[str]:
    """Tell the hosts wave by wave, each when all it comes after is done."""
    refused: set[str] = set()
    waiting = steps
    while True:
        ready = {one: step for one, step in waiting.items() if done.issuperset(step.after)}
        if not ready:
            return refused
        waiting = {one: step for one, step in waiting.items() if one not in ready}
        refused |= await _wave(world, ready, done)


async def _wave(world: World, steps: Mapping[str, OnHost], done: set[str]) -> set[str]:
    at_s = world.now()
    await world.database.run(lambda connection: journal.mark_sent(connection, steps, at_s))
    why = await world.hypervisors.apply(list(steps.values()))
    fine = [one for one in steps if one not in why]
    at_s = world.now()
    await world.database.run(lambda connection: journal.confirm(connection, fine, at_s))
    await world.database.run(lambda connection: journal.refuse(connection, why, at_s))
    for step_id, reason in why.items():
        _log.warn("A host refused step {step}: {why}", step=step_id, why=reason)
    done.update(fine)
    return set(why)


async def _ask(world: World, steps: Mapping[str, Step]) -> set[str]:
    """Send all at once, so that a slow one holds up no other, but not too many at a time."""
    at_s = world.now()
    ours = await world.database.run(lambda connection: journal.mark_sent(connection, steps, at_s))
    in_all = DeferredSemaphore(world.rhythm.in_flight)
    on_host: dict[int, DeferredSemaphore] = defaultdict(
        lambda: DeferredSemaphore(world.rhythm.in_flight_per_host)
    )

    def send(step: Step) -> Deferred[str | None]:
        host = on_host[getattr(step, "host", -1)]
        return in_all.run(lambda: host.run(lambda: ensureDeferred(_send(world, step))))

    sending = {one: step for one, step in steps.items() if one in ours}
    answers = await gatherResults(map(send, sending.values()), consumeErrors=True)
    why = {one: answer for one, answer in zip(sending, answers, strict=True) if answer is not None}
    at_s = world.now()
    await world.database.run(lambda connection: journal.refuse(connection, why, at_s))
    return set(why)


async def _send(world: World, step: Step) -> str | None:
    """Why the step will certainly not happen; None where it will, or where nobody knows."""
    try:
        reply = await world.cloud.send(step)
    except UnreachableError as error:
        _log.warn("{kind} of VM {vm}: {error}", kind=step.kind, vm=step.vm, error=str(error))
        return None
    except Exception:  # noqa: BLE001 - one step that went wrong must not lose the others' answers
        _log.failure("{kind} of VM {vm} went wrong", kind=step.kind, vm=step.vm)
        return None
    _log.info(
        "{kind} of VM {vm}: {answer}; {reason}",
        kind=step.kind,
        vm=step.vm,
        answer=str(reply.answer),
        reason=step.reason,
        step=step.id,
    )
    if reply.answer is Answer.ACCEPTED:
        return None
    return f"{reply.answer}: {reply.why}" if reply.why else str(reply.answer)
