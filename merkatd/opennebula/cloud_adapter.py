"""The adapter through which the daemon observes an OpenNebula cloud and acts on it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from xml.sax.saxutils import escape

from twisted.logger import Logger

from merkatd.base.clock import Clock, Executor
from merkatd.base.deferreds import in_parallel
from merkatd.cluster import Create, Deploy, Sleep, Step, Wake
from merkatd.opennebula.current_state import VmChecks
from merkatd.opennebula.host_power import HostSwitch, NoPower
from merkatd.opennebula.host_traits import TraitWarnings
from merkatd.opennebula.observation_builder import Destination, LatestPools, Pools, observed_once
from merkatd.opennebula.owner_tokens import Owners
from merkatd.opennebula.pools.estate_reader import SitePools
from merkatd.opennebula.pools.host_pool import HostLoad, HostPool, HostRow, read_samples
from merkatd.opennebula.pools.pool_reader import PoolReading, VmReader
from merkatd.opennebula.pools.vm_history import read_histories
from merkatd.opennebula.pools.vm_pool import MESSAGE, GarbledError, VmRow, read_page
from merkatd.opennebula.rpc.client import STATE_DONE, Client
from merkatd.opennebula.rpc.errors import LongAnswerError, OneError, WrongStateError
from merkatd.opennebula.rpc.xml_elements import BrokenError, UnreadableError
from merkatd.opennebula.scheduled_actions import run_due_actions
from merkatd.opennebula.step_calls import NewVms, create, send, sendable
from merkatd.scheduler.base.ports import (
    CloudUnreachableError,
    Histories,
    Observation,
    ReplyKind,
    StepReply,
)
from merkatd.scheduler.base.power_port import PowerPort

_log = Logger()

_DONE_ROWS = 100
"""The number of most recent DONE VMs that are read for their keys."""


class OpenNebulaCloud:
    """Implements `merkatd.scheduler.base.ports.CloudPort`.

    Between observations it keeps only data that saves reading the same again.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        executor: Executor,
        *,
        page_rows: int = 1000,
        now: Callable[[], float] | None = None,
        power: PowerPort | None = None,
    ) -> None:
        """Parse pools on `executor`, and request VMs in pages of `page_rows`.

        `now` returns the time of the wall clock; `clock` is monotonic. `power` switches
        hosts off and on.
        """
        self._power = HostSwitch(client, power or NoPower(), clock)
        self._warnings = TraitWarnings()
        self._client = client
        self._now = now or clock.seconds
        self._clock = clock
        self._owners = Owners(client, clock)
        self._executor = executor
        self._vm_reader = VmReader(client, executor, clock, page_rows)
        self._new_vms = NewVms(client, self._vm_reader)
        self._glances = VmChecks(client, clock)
        self._host_pool = HostPool()
        self._estate = SitePools(client, executor, clock)
        self._shown: LatestPools | None = None
        self._messages: dict[int, str] = {}

    def hosts_seen(self) -> int:
        """Return the number of hosts in the latest observation."""
        return 0 if self._shown is None else len(self._shown.host_rows)

    async def observe(self) -> Observation:
        """Read all pools. Raise CloudUnreachableError, also if the user may not read them."""
        going = self._power.going()
        try:
            pools = await self._pools()
        except OneError as error:
            raise CloudUnreachableError(f"the pools can't be read: {error}") from error
        except BrokenError as error:
            raise CloudUnreachableError(f"a pool is not complete XML: {error}") from error
        created = self._new_vms.answered()
        put_together = partial(observed_once, pools, self._now(), self._shown, created)
        observation, shown = await self._executor.run(put_together)
        self._new_vms.observed(shown)
        self._shown, self._messages = shown, dict(shown.messages)
        self._power.note(shown.marked, going)
        traits = observation.host_traits
        if traits is not None:
            self._warnings.log(traits.problems, shown.host_names)
            traits = replace(
                traits,
                can_sleep=self._power.which(observation.host_name),
                asleep=traits.asleep & self._power.unchanged(observation.host_id),
            )
        return replace(observation, host_traits=traits)

    async def histories(self, vms: Collection[int], since_s: float) -> Histories:
        """Read the history records of these VMs. Raise CloudUnreachableError."""
        return await read_histories(self._client, self._executor, self._clock, vms, since_s)

    async def send(self, step: Step) -> StepReply:
        """Send a step to OpenNebula. After CloudUnreachableError it may have been done or not."""
        try:
            if isinstance(step, Create):
                return await create(self._client, self._owners, self._new_vms, self._shown, step)
            if isinstance(step, Sleep | Wake):
                names = {} if self._shown is None else self._shown.host_names
                return await self._power.send(step, names.get(step.host), self._now())
            if sendable(step):
                return await send(self._client, self._glances, step, self._destination(step))
        except WrongStateError as error:
            return StepReply(ReplyKind.LOOK_AGAIN, str(error))
        except (OneError, UnreadableError) as error:
            return StepReply(ReplyKind.REFUSED, str(error))
        except BrokenError as error:
            raise CloudUnreachableError(
                f"an answer about {step.target} is not XML: {error}"
            ) from error
        return StepReply(ReplyKind.REFUSED, f"{step.kind} is not a step of a cloud")

    def _destination(self, step: Step) -> Destination:
        if self._shown is None or not isinstance(step, Deploy):
            return Destination()
        return self._shown.destination(step.vm, step.host)

    async def tell(self, vm: int, message: str) -> None:
        """Write a message for the VM's owner, unless it is there. Raise CloudUnreachableError."""
        if self._shown is not None and message == self._messages.get(vm, ""):
            return
        text = f"<TEMPLATE><{MESSAGE}>{escape(message)}</{MESSAGE}></TEMPLATE>"
        if not message:
            # oned ignores empty elements.
            text = f'{MESSAGE}=""'
        try:
            await self._client.append(vm, text)
        except OneError as error:
            _log.warn("The message of VM {vm} can't be written: {why}", vm=vm, why=error)
        else:
            self._messages[vm] = message

    async def run_scheduled(self) -> None:
        """Run users' scheduled actions if the server leaves that to its scheduler.

        Hosts that do not sleep lose their marks of sleep.
        """
        if self._shown is None:
            return
        try:
            await self._power.remove_outlived_marks(self._shown.host_names)
            if self._shown.scheduled:
                await run_due_actions(self._client, self._shown.scheduled, self._now())
        except CloudUnreachableError as error:
            _log.warn("Scheduled actions wait for the next period: {why}", why=str(error))

    async def _pools(self) -> Pools:
        read, done, load = await in_parallel([self._vms(), self._done(), self._load()])
        # Read the hosts last: their VM lists are then the newest source of where a VM is.
        hosts, known = await in_parallel([self._hosts(), self._estate.read(read.vms.values())])
        return Pools(list(read.vms.values()), done, read.ailing, hosts, load, known)

    async def _vms(self) -> PoolReading:
        return await self._vm_reader.read()

    async def _done(self) -> list[VmRow]:
        rows = _DONE_ROWS
        while rows > 1:
            try:
                text = await self._client.vm_page(0, rows, STATE_DONE)
                return (await self._executor.run(partial(read_page, text))).vms
            except (LongAnswerError, GarbledError):
                rows //= 2  # an owner's text makes the page unreadable: read fewer rows
        return []

    async def _load(self) -> Mapping[int, HostLoad]:
        text = await self._client.host_samples()
        return await self._executor.run(partial(read_samples, text))

    async def _hosts(self) -> list[HostRow]:
        text = await self._client.host_pool()
        return await self._executor.run(partial(self._host_pool.read, text))
