"""What changes seldom: each pool is asked for every period, and taken apart where it changed."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any

from twisted.logger import Logger

from merkatd.opennebula.client import Client
from merkatd.opennebula.errors import BadCallError, ForbiddenError
from merkatd.opennebula.estate_pools import (
    read_clusters,
    read_datastores,
    read_groups,
    read_networks,
    read_rules,
    read_users,
    read_vm_groups,
)
from merkatd.opennebula.transport import Executor
from merkatd.opennebula.waiting import in_parallel
from merkatd.opennebula.wanted import Estate

_log = Logger()


@dataclass(frozen=True, slots=True)
class Known:
    """The estate, and what clusters say to requirements on their hosts."""

    estate: Estate = field(default_factory=Estate)
    cluster_words: Mapping[int, Mapping[str, Sequence[str]]] = field(default_factory=dict)


class EstatePools:
    """Reads them again and again."""

    def __init__(self, client: Client, executor: Executor) -> None:
        self._client = client
        self._executor = executor
        self._read: dict[str, tuple[bytes, Any]] = {}
        self._refused: set[str] = set()

    async def read(self) -> Known:
        """All of it. Raises UnreachableError, BrokenError, or OneError."""
        client = self._client
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
                self._pool(client.network_pool, read_networks, ()),
                self._pool(client.vm_group_pool, read_vm_groups, ()),
                self._pool(client.user_pool, read_users, {}),
                self._pool(client.group_pool, read_groups, {}),
                self._pool(client.rules, read_rules, None),
                self._pool(client.cluster_pool, read_clusters, ({}, {})),
                client.zone(),
            ]
        )
        estate = Estate(
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
        return Known(estate, cluster_words)

    async def _pool(
        self, ask: Callable[[], Awaitable[str]], read: Callable[[str], Any], without: Any
    ) -> Any:
        """What a pool says; `without` where the server has none such, or does not show it to us."""
        name = ask.__name__
        try:
            text = await ask()
        except (ForbiddenError, BadCallError) as error:
            if name not in self._refused:
                _log.warn("It is left out of account: {why}", why=str(error))
            self._refused.add(name)
            return without
        self._refused.discard(name)
        digest = blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
        known, result = self._read.get(name, (b"", without))
        if known != digest:
            result = await self._executor.run(partial(read, text))
            self._read[name] = digest, result
        return result
