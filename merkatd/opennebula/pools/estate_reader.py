"""What changes seldom: each pool is asked for every period, and taken apart where it changed.

# Note [Long texts in pools]
Any user may write megabytes into the own template, and into as many VM groups as OpenNebula takes.
A pool that is longer than an answer may be, or that takes longer than a call may, would stop every
period. So a pool in which tenants' texts stand counts as it was read last, and is asked for again
some minutes later; one that is long is asked for as seldom. A connection that was lost once says
nothing of the text: that pool is asked for in the next period. Where it was never read, it counts
as one that is not shown to us. That is said in the log, with the object that has the longest text.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any

from twisted.logger import Logger

from merkatd.base.clock import Executor
from merkatd.base.deferreds import Time, in_parallel
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
from merkatd.opennebula.rpc.client import Client
from merkatd.opennebula.rpc.errors import LongAnswerError, OneBadCallError, OneForbiddenError
from merkatd.opennebula.rpc.xml_elements import BrokenError
from merkatd.scheduler.base.ports import CloudUnreachableError

_log = Logger()

_Ask = Callable[[], Awaitable[str]]
_Reader = Callable[[str], Any]

_REST_S = 300.0
LONG = 1 << 25
"""A longer pool is not asked for in each period; a user takes one kB or two."""


@dataclass(frozen=True, slots=True)
class EstateReading:
    """The estate, and what clusters say to requirements on their hosts."""

    estate: SiteFacts = field(default_factory=SiteFacts)
    cluster_words: Mapping[int, Mapping[str, Sequence[str]]] = field(default_factory=dict)


class SitePools:
    """Reads them again and again."""

    def __init__(self, client: Client, executor: Executor, clock: Time) -> None:
        self._client = client
        self._executor = executor
        self._clock = clock
        self._read: dict[str, tuple[bytes, Any]] = {}
        self._refused: set[str] = set()
        self._again_s: dict[str, float] = {}
        """When pools that were long, or could not be read, are asked for again."""
        self._unanswered: set[str] = set()
        """Pools without an answer in the last period."""

    async def read(self) -> EstateReading:
        """All of it. Raises UnreachableError, BrokenError, or OneError."""
        client = self._client
        resting: dict[str, str] = {}
        unanswered: set[str] = set()
        (
            datastores,
            networks,
            groups,
            users,
            group_names,
            rules,
            (clusters, cluster_words),
            zone,
        ) = await in_parallel(
            [
                self._pool(client.datastore_pool, read_datastores, ()),
                self._of_tenants(client.network_pool, read_networks, (), resting, unanswered),
                self._of_tenants(client.vm_group_pool, read_vm_groups, (), resting, unanswered),
                self._of_tenants(client.user_pool, read_users, {}, resting, unanswered),
                self._of_tenants(client.group_pool, read_groups, {}, resting, unanswered),
                self._pool(client.rules, read_rules, None),
                self._pool(client.cluster_pool, read_clusters, ({}, {})),
                client.zone(),
            ]
        )
        # Only now: where the server is away, every pool fails, and none is to blame.
        for name, why in resting.items():
            if not (name in unanswered and name not in self._unanswered):
                self._again_s[name] = self._clock.seconds() + _REST_S
            _log.warn("{pool} {why}; it is asked for again later", pool=name, why=why)
        self._unanswered = unanswered
        estate = SiteFacts(
            datastores=datastores,
            groups=groups,
            networks=networks,
            # Without the rules nobody can say who may use what.
            users={} if rules is None else users,
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
    ) -> Any:
        """The same of a pool with tenants' texts.

        `resting` is told why it is left to rest, `unanswered` where there was no answer at all.
        """
        name = ask.__name__
        known = self._read.get(name, (b"", without))[1]
        if self._clock.seconds() < self._again_s.get(name, 0.0):
            return known
        try:
            text = await self._shown(ask)
            found = without if text is None else await self._taken_apart(name, text, read)
        except (LongAnswerError, BrokenError, CloudUnreachableError) as error:
            resting[name] = f"can't be read and counts as it was before: {error}"
            if isinstance(error, CloudUnreachableError):
                unanswered.add(name)
            return known
        if text is not None and len(text) > LONG:
            longest = await self._executor.run(partial(longest_of, text))
            resting[name] = f"takes {len(text) >> 20} MiB, most of it {longest}"
        return found

    async def _pool(self, ask: _Ask, read: _Reader, without: Any) -> Any:
        """What a pool says; `without` where the server has none such, or does not show it to us."""
        text = await self._shown(ask)
        return without if text is None else await self._taken_apart(ask.__name__, text, read)

    async def _shown(self, ask: _Ask) -> str | None:
        name = ask.__name__
        try:
            text = await ask()
        except (OneForbiddenError, OneBadCallError) as error:
            if name not in self._refused:
                _log.warn("It is left out of account: {why}", why=str(error))
            self._refused.add(name)
            return None
        self._refused.discard(name)
        return text

    async def _taken_apart(self, name: str, text: str, read: _Reader) -> Any:
        digest = blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
        known, result = self._read.get(name, (b"", None))
        if known != digest:
            result = await self._executor.run(partial(read, text))
            self._read[name] = digest, result
        return result
