"""Answers to oned's scheduler driver: the period's decisions as plans that oned carries out."""

from collections.abc import Callable, Iterable, Mapping

from twisted.logger import Logger

from merkatd.cluster import Deploy, Migrate
from merkatd.database.scheduler.lease_store import LeaseLostError
from merkatd.opennebula.driver.driver_request import (
    DriverRequest,
    DriverRequestError,
    OfferedHost,
    read_action,
)
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.scheduler.execution.delegation import DelegatedPlan, HandoverRequest
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.phases.announce import NotActingError

PLACEMENT = -1
"""The id of a plan for placements, which belongs to no single cluster."""
UNUSED = -1
LONGEST_LINE = 300
EMPTY = f"<PLAN><ID>{PLACEMENT}</ID></PLAN>"
"""The plan without any action, which oned accepts for every question."""


def answer(handed: DelegatedPlan, action: DriverRequest, cluster: int | None) -> str:
    """Return the whole answer to oned: lines for its log, then the plan as the last line."""
    lines = [line("ERROR", why, vm) for vm, why in sorted(handed.reasons.items())]
    if action.unread:
        lines.append(line("WARN", f"{action.unread} elements of the pools could not be read"))
    return "\n".join([*lines, plan(handed.steps, action, cluster)])


def line(severity: str, text: str, vm: int | None = None) -> str:
    """Return a line for oned's log; an ERROR with a VM becomes the message to the VM's owner."""
    printable = " ".join(
        "".join(letter if letter.isprintable() else " " for letter in text).split()
    )
    return f"{severity}: {'' if vm is None else f'{vm} '}{printable[:LONGEST_LINE]}"


def plan(steps: Iterable[Deploy | Migrate], action: DriverRequest, cluster: int | None) -> str:
    """Return the plan as oned parses it: oned rejects a plan with a non-integer number."""
    actions = "".join(_action(step, action) for step in steps)
    if not actions:
        return EMPTY
    return f"<PLAN><ID>{PLACEMENT if cluster is None else cluster}</ID>{actions}</PLAN>"


def _action(step: Deploy | Migrate, action: DriverRequest) -> str:
    store, nics = UNUSED, ""
    if isinstance(step, Deploy):
        cluster = action.clusters.get(step.host, UNUSED)
        best = _best(action.stores.get(step.vm, frozenset()), action.datastores, cluster)
        store = UNUSED if best is None else best
        nics = "".join(
            f"<NIC><NIC_ID>{nic}</NIC_ID><NETWORK_ID>{network}</NETWORK_ID></NIC>"
            for nic, among in sorted(action.networks.get(step.vm, {}).items())
            if (network := _best(among, action.vnets, cluster)) is not None
        )
    return (
        f"<ACTION><VM_ID>{step.vm}</VM_ID><OPERATION>{step.kind}</OPERATION>"
        f"<HOST_ID>{step.host}</HOST_ID><DS_ID>{store}</DS_ID>{nics}</ACTION>"
    )


def _best(among: frozenset[int], known: Mapping[int, OfferedHost], cluster: int) -> int | None:
    """Return the usable one with the most free space in the host's cluster, None without one.

    Of several with equal space, return the one with the lowest id.
    """
    usable = [
        thing for thing in sorted(among) if thing in known and cluster in known[thing].clusters
    ]
    return max(usable, key=lambda thing: known[thing].free, default=None)


_log = Logger()


class DriverAnswers:
    """Answers the questions of oned's driver with the scheduler's decisions."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def answer(self, cluster: int | None, payload: bytes, waits: Callable[[], bool]) -> str:
        """Return a plan: places for waiting VMs, or the migrations in a cluster.

        `waits` returns whether oned still waits. If Merkat acts by itself, the plan is empty.
        """
        world = self._scheduler.world
        if not world.handing:
            return EMPTY
        try:
            action = await world.executor.run(lambda: read_action(payload))
            handed = await self._scheduler.places(handover_request(action, cluster), waits)
        except DriverRequestError as error:
            _log.warn("A question of OpenNebula's driver can't be read: {why}", why=str(error))
            return line("WARN", f"merkatd can't read the question: {error}") + "\n" + EMPTY
        except (NotActingError, LeaseLostError) as error:
            return line("INFO", f"merkatd does nothing: {error}") + "\n" + EMPTY
        except CloudUnreachableError as error:
            return line("WARN", f"merkatd can't read the cloud: {error}") + "\n" + EMPTY
        return answer(handed, action, cluster)


def handover_request(action: DriverRequest, cluster: int | None) -> HandoverRequest:
    """Return a question of oned in the form that the period takes."""
    if cluster is None:
        return HandoverRequest(hosts=action.hosts, room=action.room)
    inside = frozenset(host for host, its in action.clusters.items() if its == cluster)
    hosts = {vm: hosts & inside for vm, hosts in action.hosts.items()}
    return HandoverRequest(hosts=hosts, cluster=cluster)
