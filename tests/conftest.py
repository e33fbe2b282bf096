"""What tests of several packages share: servers that are started once."""

import os
from collections.abc import Iterator

import pytest

from tests import servers
from tests.servers import MariaDb

# Output goes into a pipe, however wide the terminal is in which the tests run.
os.environ.pop("COLUMNS", None)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    """A MariaDB for all tests that kill nobody."""
    if servers.MARIADBD is None:
        pytest.skip("mariadb-server is not here")
    with servers.mariadb() as server:
        yield server
