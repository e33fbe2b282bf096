"""The reader of pools that change seldom: each is requested every period, but parsed on changes.

# Note [Long texts in pools]
Users may write megabytes into their own template, and into as many VM groups as OpenNebula accepts.
A pool that exceeds the longest answer, or the longest time of a call, would stop every period. So a
pool with tenants' texts that can't be read keeps its last known content, and is requested again
after five minutes. A pool that is readable but long is requested as seldom. A connection that was
lost only once says nothing about the text: that pool is requested again in the next period. A pool
that was never read counts as hidden from the daemon. The log names the object with the longest
text.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any

from twisted.logger import Logger

from merkatd.base.clock import Clock, Executor
from merkatd.base.deferreds import in_parallel
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
"""The length in characters from which a pool is requested less often; a user takes 1 or 2 kB."""


@dataclass(frozen=True, slots=True)
class EstateReading:
    """The objects that constrain placements, and the clusters' facts for requirements on hosts."""

    estate: SiteFacts = field(default_factory=SiteFacts)
    cluster_words: Mapping[int, Mapping[str, Sequence[str]]] = field(default_factory=dict)


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

    async def read(self) -> EstateReading:
        """Read all pools. Raise CloudUnreachableError, BrokenError or OneError."""
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
        """Read a pool with tenants' texts, or return its last known content.

        If the pool should rest, store the reason in `resting`; if there was no answer at all, also
        add the pool to `unanswered`.
        """
        name = ask.__name__
        known = self._read.get(name, (b"", without))[1]
        if self._clock.seconds() < self._again_s.get(name, 0.0):
            return known
        try:
            text = await self._shown(ask)
            rows = without if text is None else await self._taken_apart(name, text, read)
        except (LongAnswerError, BrokenError, CloudUnreachableError) as error:
            resting[name] = f"can't be read and keeps its last known content: {error}"
            if isinstance(error, CloudUnreachableError):
                unanswered.add(name)
            return known
        if text is not None and len(text) > LONG:
            longest = await self._executor.run(partial(longest_of, text))
            resting[name] = f"takes {len(text) >> 20} MiB, most of it {longest}"
        return rows

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


def _digest(text: str) -> bytes:
    """Return a digest of a text, which takes 0.4 s for 100 MB."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
