"""Answers to oned's driver: a period decides, oned carries out what concerns it."""

from collections.abc import Callable

from twisted.logger import Logger

from merkatd.database.scheduler.lease_store import LeaseLostError
from merkatd.driver.action import Action, ActionError, read_action
from merkatd.driver.answer import EMPTY, answer, line
from merkatd.scheduler.base.ports import UnreachableError
from merkatd.scheduler.execution.delegation import Wanted
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.phases.announce import NotActingError

_log = Logger()


class Driver:
    """What a scheduler says when oned's driver asks."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def answer(self, cluster: int | None, payload: bytes, waits: Callable[[], bool]) -> str:
        """Places for VMs that wait, or what to migrate in a cluster; `waits`: whether oned does.

        Where Merkat acts by itself the answer is the empty plan: nothing is to be done.
        """
        world = self._scheduler.world
        if not world.handing:
            return EMPTY
        try:
            action = await world.executor.run(lambda: read_action(payload))
            handed = await self._scheduler.places(wanted(action, cluster), waits)
        except ActionError as error:
            _log.warn("OpenNebula's driver handed over what can't be read: {why}", why=str(error))
            return line("WARN", f"merkatd can't read the question: {error}") + "\n" + EMPTY
        except (NotActingError, LeaseLostError) as error:
            return line("INFO", f"merkatd does nothing: {error}") + "\n" + EMPTY
        except UnreachableError as error:
            return line("WARN", f"merkatd can't see the cloud: {error}") + "\n" + EMPTY
        return answer(handed, action, cluster)


def wanted(action: Action, cluster: int | None) -> Wanted:
    """What is asked about, as the period takes it."""
    if cluster is None:
        return Wanted(hosts=action.hosts, room=action.room)
    inside = frozenset(host for host, its in action.clusters.items() if its == cluster)
    hosts = {vm: hosts & inside for vm, hosts in action.hosts.items()}
    return Wanted(hosts=hosts, cluster=cluster)
