"""An empty database for each test: on SQLite and on a MariaDB that the tests start."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import sqlalchemy as sa

from merkatd.database.base.engine import make_engine
from merkatd.database.migrations import METADATA
from tests import servers
from tests.migrated import copy_migrated, migrated
from tests.servers import MariaDb

_NUMBERS = count()

BOTH = [
    "sqlite",
    pytest.param(
        "mariadb",
        marks=pytest.mark.skipif(servers.MARIADBD is None, reason="mariadb-server is not here"),
    ),
]


@pytest.fixture(scope="session")
def made_on_mariadb(mariadb: MariaDb) -> Iterator[sa.Engine]:
    """Yield a database with all tables, for tests that roll back their changes."""
    engine = make_engine(mariadb.make("shared"))
    METADATA.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture(params=BOTH)
def connection(request: pytest.FixtureRequest) -> Iterator[sa.Connection]:
    """Yield a connection inside a transaction that is never committed."""
    if request.param == "mariadb":
        with request.getfixturevalue("made_on_mariadb").connect() as opened:
            yield opened
        return
    engine = migrated()
    with engine.connect() as opened:
        yield opened
    engine.dispose()


@pytest.fixture(params=BOTH)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yield the URL of an empty database, for tests with several connections."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'merkat.db'}"
        return
    server: MariaDb = request.getfixturevalue("mariadb")
    name = f"test{next(_NUMBERS)}"
    yield server.make(name)
    server.drop(name)


@pytest.fixture
def file_engine(url: str) -> Iterator[sa.Engine]:
    """Yield an engine on a database with all tables, for tests with several connections."""
    engine = make_engine(url)
    if engine.url.get_backend_name() == "sqlite":
        copy_migrated(Path(str(engine.url.database)))
    else:
        METADATA.create_all(engine)
    yield engine
    engine.dispose()
