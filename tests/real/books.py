"""The databases of real clouds: one MariaDB server for all clouds of a run, one database each.

The first cloud starts the server. It ends with the run, also with one that is killed.
"""

import atexit
import functools
import itertools
from contextlib import ExitStack

from tests import servers
from tests.servers import MariaDb

_numbers = itertools.count()


@functools.cache
def _server() -> MariaDb:
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(servers.mariadb())


class Books:
    """An empty database, which exists until it is dropped."""

    def __init__(self) -> None:
        self._name = f"cloud{next(_numbers)}"
        self.url = _server().make(self._name)

    def drop(self) -> None:
        """Drop the database, which no daemon may use any more."""
        _server().drop(self._name)
