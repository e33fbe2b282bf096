"""What the server says at this very moment: of itself, and of a host just before it is used."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import NamedTuple

from twisted.internet.defer import Deferred, ensureDeferred

from merkatd.cluster import HostState, Step
from merkatd.opennebula.client import Client
from merkatd.opennebula.elements import (
    BrokenError,
    Element,
    UnreadableError,
    children,
    ids,
    object_id,
    one,
    rows,
    whole,
)
from merkatd.opennebula.errors import OneError, WrongStateError
from merkatd.opennebula.states import host_state
from merkatd.opennebula.transport import Executor
from merkatd.opennebula.waiting import in_parallel
from merkatd.scheduler.base.ports import Answer, Reply, UnreachableError

_SOLO, _LEADER = 0, 3
_RETRY = 2
_FRESH_S = 2.0
"""So old may be what is known of a host: hundreds of VMs may go there one after another."""
_SOME = 4
"""Fewer hosts are never a reason to ask for all."""
_DEARER = 32
"""A host that is asked for alone costs as much as so many that come with all others."""


async def leads(client: Client) -> bool:
    """Whether this server is alone or leads its zone: the others refuse what changes anything.

    Raises UnreachableError.
    """
    try:
        status = children(one(await client.call("one.zone.raftstatus"), "RAFT"))
        return whole(status, "STATE") in {_SOLO, _LEADER}
    except (OneError, BrokenError, UnreadableError) as error:
        raise UnreachableError(f"the server does not say whether it leads: {error}") from error


class _HostNow(NamedTuple):
    """A host as it was no earlier than at a time."""

    at_s: float
    state: int
    vms: frozenset[int]


class HostsNow:
    """Hosts, each looked at shortly before something is sent there.

    Those that are asked for while a look is under way wait for the next one, which is for all
    hosts of the cloud where that is less work.
    """

    def __init__(
        self,
        client: Client,
        executor: Executor,
        now: Callable[[], float],
        count: Callable[[], int] = lambda: 0,
    ) -> None:
        """`count` says how many hosts there are, as far as is known.

        A pool of hosts is read on `executor`.
        """
        self._client = client
        self._executor = executor
        self._now = now
        self._count = count
        self._seen: dict[int, _HostNow] = {}
        self._wanted: dict[int, list[Deferred[_HostNow]]] = {}
        self._looking = False

    async def why_not(self, host: int, known: AbstractSet[int], since_s: float) -> str | None:
        """Why nothing may be sent there: it takes nothing, or there are VMs that nobody counted.

        What was seen before `since_s` is looked at anew. Raises UnreachableError.
        """
        seen = self._seen.get(host)
        if seen is None or seen.at_s < since_s or abs(self._now() - seen.at_s) >= _FRESH_S:
            try:
                seen = await self._at_next_look(host)
            except (OneError, UnreadableError) as error:
                return f"host {host} can't be looked at: {error}"
            except BrokenError as error:
                raise UnreachableError(f"host {host}: {error}") from error
        if host_state(seen.state) is not HostState.ON:
            return f"host {host} takes nothing any more"
        strangers = seen.vms - known
        if strangers:
            return f"VM {min(strangers)} has come to host {host} meanwhile"
        return None

    async def _at_next_look(self, host: int) -> _HostNow:
        waiting: Deferred[_HostNow] = Deferred()
        self._wanted.setdefault(host, []).append(waiting)
        if not self._looking:
            self._looking = True
            ensureDeferred(self._look())
        return await waiting

    async def _look(self) -> None:
        while self._wanted:
            wanted, self._wanted = self._wanted, {}
            found = await self._outcomes(list(wanted))
            for host, outcome in found.items():
                if isinstance(outcome, _HostNow):
                    self._seen[host] = outcome
            for host, waiting in wanted.items():
                outcome = found[host]
                for each in waiting:
                    if isinstance(outcome, _HostNow):
                        each.callback(outcome)
                    else:
                        each.errback(outcome)
        self._looking = False

    async def _outcomes(self, hosts: Sequence[int]) -> Mapping[int, _HostNow | Exception]:
        """By id, each of these hosts, or why it can't be looked at, and maybe others."""
        begin_s = self._now()
        found: dict[int, _HostNow] = {}
        if len(hosts) >= _SOME and len(hosts) * _DEARER >= self._count():
            try:
                pool = await self._client.host_pool()
                found = await self._executor.run(lambda: dict(_read(pool, begin_s)))
            except Exception as error:  # noqa: BLE001 - it is theirs who asked
                return dict.fromkeys(hosts, error)
        # One that was not shown among others: its own call says why.
        missing = [host for host in hosts if host not in found]
        alone = await in_parallel(self._alone(host, begin_s) for host in missing)
        return {**found, **dict(zip(missing, alone, strict=True))}

    async def _alone(self, host: int, at_s: float) -> _HostNow | Exception:
        try:
            return _host(children(one(await self._client.host(host), "HOST")), at_s)
        except Exception as error:  # noqa: BLE001 - it is theirs who asked
            return error


def _read(pool: str, at_s: float) -> Iterable[tuple[int, _HostNow]]:
    """The hosts of a pool, but those that can't be read."""
    for element in rows(pool, "HOST_POOL", "HOST"):
        parts = children(element)
        with suppress(UnreadableError):
            yield object_id(parts), _host(parts, at_s)


def _host(parts: Mapping[str, Element], at_s: float) -> _HostNow:
    return _HostNow(at_s, whole(parts, "STATE"), frozenset(ids(parts.get("VMS", ()))))


async def start_again(client: Client, step: Step) -> Reply:
    """Start a VM once more on the host where it failed to boot. Raises UnreachableError."""
    try:
        await client.call("one.vm.recover", step.vm, _RETRY, about=f"VM {step.vm}")
    except WrongStateError as error:
        return Reply(Answer.LOOK_AGAIN, str(error))
    except OneError as error:
        return Reply(Answer.REFUSED, str(error))
    return Reply(Answer.ACCEPTED)
