"""Detection of users that OpenNebula has removed."""

from collections.abc import Collection

from twisted.logger import Logger

from merkatd.opennebula.rpc.client import Client
from merkatd.opennebula.rpc.errors import OneError, OneMissingError

_log = Logger()


async def missing_users(client: Client, users: Collection[int]) -> frozenset[int]:
    """Return the users that do not exist according to oned. Raise CloudUnreachableError.

    Users that can't be read for another reason are not returned.
    """
    missing = set()
    for user in users:
        try:
            await client.user(user)
        except OneMissingError:
            missing.add(user)
        except OneError as error:
            _log.warn("User {user} can't be read: {why}", user=user, why=str(error))
    return frozenset(missing)
