"""The reader of pools that change seldom: each is requested every period, but parsed on changes.

# Note [Long texts in pools]
Users may write megabytes into their own template, and into as many VM groups as OpenNebula accepts.
A pool that exceeds the longest answer, or the longest time of a call, would stop every period. So a
pool with tenants' texts that can't be read keeps its last known content, and is requested again
after five minutes. A pool that is readable but long is requested as seldom. A connection that was
lost only once says nothing about the text: that pool is requested again in the next period. The log
names the object with the longest text.

# Note [Pools that were never read]
After a restart there is no last known content. If the pool counted as hidden from the daemon, a
user with a long text could use hosts that its rights exclude, and break the VM groups of others. So
the daemon reads the objects that VMs refer to one by one: the owners of VMs, their groups of users
and their VM groups. An owner that can't be read has no rights until then. Only a pool that
OpenNebula refuses to show is hidden.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any

from twisted.logger import Logger

from merkatd.base.clock import Clock, Executor
from merkatd.base.deferreds import few_at_once, in_parallel
from merkatd.opennebula.pools.constraint_facts import SiteFacts
from merkatd.opennebula.pools.estate_pools import (
    longest_of,
    read_clusters,
    read_datastores,
    read_groups,
    read_networks,
    read_rules,
    read_users,
    read_vm_groups,
)
from merkatd.opennebula.pools.vm_pool import VmRow
from merkatd.opennebula.rpc.client import Client
from merkatd.opennebula.rpc.errors import (
    LongAnswerError,
    OneBadCallError,
    OneError,
    OneForbiddenError,
)
from merkatd.opennebula.rpc.xml_elements import BrokenError
from merkatd.scheduler.base.ports import CloudUnreachableError

_log = Logger()

_Ask = Callable[[], Awaitable[str]]
_Reader = Callable[[str], Any]

_REST_S = 300.0
_AT_ONCE = 16
"""The single objects that are requested at the same time."""
_MOST_LOST = 20
"""The single objects without an answer after which no more are requested in a period."""
LONG = 1 << 25
"""The length in characters from which a pool is requested less often; a user takes 1 or 2 kB."""


@dataclass(frozen=True, slots=True)
class EstateReading:
    """The objects that constrain placements, and the clusters' facts for requirements on hosts."""

    estate: SiteFacts = field(default_factory=SiteFacts)
    cluster_words: Mapping[int, Mapping[str, Sequence[str]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _SingleObjects:
    """The objects of a pool to read one by one (Note [Pools that were never read])."""

    pool: str
    """The name of the pool's element."""
    ask: Callable[[int], Awaitable[str]]
    wanted: Collection[int]


class SitePools:
    """Reads the pools in each period, and keeps what has not changed."""

    def __init__(self, client: Client, executor: Executor, clock: Clock) -> None:
        self._client = client
        self._executor = executor
        self._clock = clock
        self._read: dict[str, tuple[bytes, Any]] = {}
        self._refused: set[str] = set()
        self._again_s: dict[str, float] = {}
        """When long or unreadable pools are requested again."""
        self._unanswered: set[str] = set()
        """Pools without an answer in the last period."""
        self._asked_alone: dict[str, set[int]] = {}
        """The ids that were requested one by one, by pool that was never read."""

    async def read(self, vms: Iterable[VmRow] = ()) -> EstateReading:
        """Read all pools; `vms` refer to the objects of pools that can't be read.

        Raise CloudUnreachableError, BrokenError or OneError.
        """
        client, known_vms = self._client, list(vms)
        users = _SingleObjects("USER_POOL", client.user, {vm.owner for vm in known_vms})
        user_groups = _SingleObjects(
            "GROUP_POOL", client.user_group, {vm.group for vm in known_vms}
        )
        vm_groups = _SingleObjects(
            "VM_GROUP_POOL",
            client.vm_group,
            {vm.member.group for vm in known_vms if vm.member is not None},
        )
        resting: dict[str, str] = {}
        unanswered: set[str] = set()
        (
            datastores,
            networks,
            groups,
            known_users,
            group_names,
            rules,
            (clusters, cluster_words),
            zone,
        ) = await in_parallel(
            [
                self._pool(client.datastore_pool, read_datastores, ()),
                self._of_tenants(client.network_pool, read_networks, (), resting, unanswered),
                self._of_tenants(
                    client.vm_group_pool, read_vm_groups, (), resting, unanswered, vm_groups
                ),
                self._of_tenants(client.user_pool, read_users, {}, resting, unanswered, users),
                self._of_tenants(
                    client.group_pool, read_groups, {}, resting, unanswered, user_groups
                ),
                self._pool(client.rules, read_rules, None),
                self._pool(client.cluster_pool, read_clusters, ({}, {})),
                client.zone(),
            ]
        )
        # Reached only if the other calls succeeded: if the server is down, no pool is the cause.
        for name, why in resting.items():
            if not (name in unanswered and name not in self._unanswered):
                self._again_s[name] = self._clock.seconds() + _REST_S
            _log.warn("{pool} {why}; it will be read again later", pool=name, why=why)
        self._unanswered = unanswered
        estate = SiteFacts(
            datastores=datastores,
            groups=groups,
            networks=networks,
            # Without the rules, rights can't be checked.
            users={} if rules is None else known_users,
            users_in_part=rules is not None and client.user_pool.__name__ in self._asked_alone,
            group_names=group_names,
            acl=rules or (),
            clusters=clusters,
            zone=zone,
        )
        return EstateReading(estate, cluster_words)

    async def _of_tenants(
        self,
        ask: _Ask,
        read: _Reader,
        without: Any,
        resting: dict[str, str],
        unanswered: set[str],
        single: _SingleObjects | None = None,
    ) -> Any:
        """Read a pool with tenants' texts, or return its last known content.

        If the pool should rest, store the reason in `resting`; if there was no answer at all, also
        add the pool to `unanswered`.
        """
        name = ask.__name__
        if self._clock.seconds() < self._again_s.get(name, 0.0):
            return await self._last_known(name, read, without, single)
        try:
            text = await self._shown(ask)
            rows = without if text is None else await self._taken_apart(name, text, read)
        except (LongAnswerError, BrokenError, CloudUnreachableError) as error:
            resting[name] = f"can't be read and keeps its last known content: {error}"
            if isinstance(error, CloudUnreachableError):
                unanswered.add(name)
            self._asked_alone.get(name, set()).clear()
            return await self._last_known(name, read, without, single)
        self._asked_alone.pop(name, None)
        if text is not None and len(text) > LONG:
            longest = await self._executor.run(partial(longest_of, text))
            resting[name] = f"takes {len(text) >> 20} MiB, most of it {longest}"
        return rows

    async def _last_known(
        self, name: str, read: _Reader, without: Any, single: _SingleObjects | None
    ) -> Any:
        """Return the last known content of a pool, or single objects if it was never read."""
        known = self._read.get(name, (b"", without))[1]
        if single is None or (name in self._read and name not in self._asked_alone):
            return known
        asked = self._asked_alone.setdefault(name, set())
        new = sorted(set(single.wanted) - asked)
        asked.update(new)
        lost: list[int] = []
        texts = await few_at_once((_alone(single, number, lost) for number in new), _AT_ONCE)
        asked.difference_update(lost)  # they are requested again in the next period
        for text in filter(None, texts):
            pool = f"<{single.pool}>{text}</{single.pool}>"
            known = _with(known, await self._executor.run(partial(read, pool)))
        self._read[name] = b"", known
        return known

    async def _pool(self, ask: _Ask, read: _Reader, without: Any) -> Any:
        """Read a pool; return `without` if the server lacks it or refuses to show it."""
        text = await self._shown(ask)
        return without if text is None else await self._taken_apart(ask.__name__, text, read)

    async def _shown(self, ask: _Ask) -> str | None:
        name = ask.__name__
        try:
            text = await ask()
        except (OneForbiddenError, OneBadCallError) as error:
            if name not in self._refused:
                _log.warn(
                    "OpenNebula refuses {pool}, which is left out: {why}", pool=name, why=str(error)
                )
            self._refused.add(name)
            return None
        self._refused.discard(name)
        return text

    async def _taken_apart(self, name: str, text: str, read: _Reader) -> Any:
        digest = await self._executor.run(partial(_digest, text))
        known, result = self._read.get(name, (b"", None))
        if known != digest:
            result = await self._executor.run(partial(read, text))
            self._read[name] = digest, result
        return result


async def _alone(single: _SingleObjects, number: int, lost: list[int]) -> str:
    """Return the text of an object, empty if it can't be read; add its id to `lost`, if so."""
    if len(lost) >= _MOST_LOST:
        lost.append(number)
        return ""
    try:
        return await single.ask(number)
    except CloudUnreachableError:
        lost.append(number)
    except OneError as error:
        _log.warn("Object {number} of {pool}: {why}", number=number, pool=single.pool, why=error)
    return ""


def _with(known: Any, more: Any) -> Any:
    """Return the content of a pool with further objects, which replace those with their ids."""
    if isinstance(known, Mapping):
        return {**known, **more}
    new = {each.id for each in more}
    return (*(each for each in known if each.id not in new), *more)


def _digest(text: str) -> bytes:
    """Return a digest of a text, which takes 0.4 s for 100 MB."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
