"""Following: VMs that begin to run between two periods get their limits within seconds.

A guest starts without any limit, and the next period may be most of a minute away. After a
period has acted, the hosts of VMs that may begin to run are read every few seconds, and no other
hosts. Once such a VM runs, its limits go into the journal and to its host, each once. What a
daemon that dies leaves undone the next period finds, and decides anew.
"""

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.logger import Logger

from merkatd.cluster import OnHost
from merkatd.database import journal
from merkatd.database.lease import LeaseLostError
from merkatd.scheduler.arrivals import Arrivals
from merkatd.scheduler.ports import UnreachableError
from merkatd.scheduler.world import Clock, World

MOST_HOSTS = 100
"""So many hosts are read in one look; the others have their turn in the next ones."""

_log = Logger()


class Following:
    """Looks again and again at VMs that may begin to run, until the next period begins."""

    def __init__(self, turn: DeferredLock, clock: Clock, may: Callable[[], bool]) -> None:
        """No look and no period go on at once: both have the `turn`. `may`: whether to act."""
        self._turn, self._clock, self._may = turn, clock, may
        self._world: World | None = None
        self._expected = Arrivals()
        self._hosts: list[int] = []
        self._left: dict[int, tuple[OnHost, ...]] = {}
        self._ends_s = 0.0
        self._call: Any = None

    def expect(self, world: World, expected: Arrivals) -> None:
        """Look for these from now on, until a period was missed."""
        self.forget()
        if not expected.steps or world.rhythm.arrival_look_s <= 0:
            return
        self._world, self._expected, self._left = world, expected, dict(expected.steps)
        self._hosts = sorted(set(expected.host.values()))
        self._ends_s = self._clock.seconds() + 2 * world.rhythm.interval_s
        self._later(world)

    def forget(self) -> None:
        """A period begins, or the daemon ends: look for nothing any more."""
        self._left, self._world = {}, None
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._call = None

    def _later(self, world: World) -> None:
        self._call = self._clock.callLater(
            world.rhythm.arrival_look_s, lambda: ensureDeferred(self._due(world))
        )

    async def _due(self, world: World) -> None:
        await self._turn.acquire()
        try:
            if world is not self._world or not self._may():
                return
            await self._look(world)
        except (LeaseLostError, UnreachableError) as error:
            _log.info("VMs that begin to run wait for the next period: {why}", why=str(error))
            self.forget()
        except Exception:  # noqa: BLE001 - whatever it was, the next period sets the limits
            _log.failure("VMs that begin to run wait for the next period")
            self.forget()
        finally:
            self._turn.release()
        if self._left and self._clock.seconds() < self._ends_s:
            self._later(world)

    async def _look(self, world: World) -> None:
        """Read the hosts of VMs that are still to come, and limit those that run."""
        places = self._places(world)
        if not places:
            return
        use = await world.hypervisors.read(places)
        runs = [vm for vm in use.vm_id.tolist() if vm in self._left]
        # Never a second time, whatever becomes of it.
        steps = [step for vm in runs for step in self._left.pop(vm)]
        if steps:
            await _send(world, steps)

    def _places(self, world: World) -> Mapping[int, int]:
        """By VM id: the hosts that are read now, of all VMs that are known to be there."""
        away = world.hypervisors.reach().away
        coming = {vm: self._expected.host[vm] for vm in self._left}
        wanted = set(coming.values()) - away.keys()
        now = set([host for host in self._hosts if host in wanted][:MOST_HOSTS])
        self._hosts.sort(key=lambda host: host in now)  # those that were read come last
        return {vm: host for vm, host in {**self._expected.others, **coming}.items() if host in now}


async def _send(world: World, steps: list[OnHost]) -> None:
    """Record the limits, and send the hosts those that were not sent before."""
    by_id, at_s = {step.id: step for step in steps}, world.now()

    def store(connection: sa.Connection) -> frozenset[str]:
        journal.record(connection, steps, at_s)
        return journal.mark_sent(connection, by_id, at_s)

    sent = await world.database.run(store)
    await world.certain()
    why = await world.hypervisors.apply([by_id[one] for one in by_id if one in sent])
    at_s = world.now()
    await world.database.run(lambda c: journal.confirm(c, sent - why.keys(), at_s))
    await world.database.run(lambda c: journal.refuse(c, why, at_s))
    for step_id, reason in why.items():
        _log.warn("A host refused step {step}: {why}", step=step_id, why=reason)
