"""A daemon of a newer version migrates the schema only if no older daemon acts on it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from merkatd.base.clock import Inline
from merkatd.config.configuration import Config
from merkatd.config.process_sections import CloudKind
from merkatd.daemon.errors import StartError
from merkatd.daemon.single_instance import check_of_other_daemons, holder_of
from merkatd.database import Database, migrations
from merkatd.database.base.engine import make_engine
from merkatd.database.scheduler import lease_store
from tests.database.test_service_reactor import run_on_reactor

OLDER = "0012"
WAIT_S = 30.0
"""A third of a lease with periods of a minute."""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Return the configuration of the daemon that starts."""
    made = Config()
    return replace(
        made,
        cloud=replace(made.cloud, kind=CloudKind.OPENNEBULA),
        daemon=replace(made.daemon, state_directory=tmp_path),
        database=replace(made.database, url=f"sqlite:///{tmp_path}/merkat.db"),
    )


@pytest.fixture
def engine(config: Config) -> Iterator[sa.Engine]:
    """Return a database of an older version whose daemon has the lease."""
    made = make_engine(config.database_url)
    migrations.upgrade(made, OLDER)
    with made.begin() as connection:
        assert lease_store.take_lease(connection, "older", None) == 1
    yield made
    made.dispose()


def check_daemons(
    config: Config, engine: sa.Engine, meanwhile: Callable[[], None]
) -> Deferred[None]:
    """Run the check for other daemons to its end; return its result."""
    clock = Clock()
    database = Database(engine, Inline(), clock, np.random.default_rng(0))
    begin = check_of_other_daemons(clock, config)
    assert begin is not None
    look = ensureDeferred(begin(database))
    clock.advance(WAIT_S / 2)
    meanwhile()
    clock.advance(WAIT_S / 2)
    assert look.called
    return look


def beat(engine: sa.Engine) -> None:
    """Renew the lease, as the older daemon does every few seconds."""
    with engine.begin() as connection:
        lease_store.renew_lease(connection, 1)


def test_an_acting_older_daemon_prevents_the_migration(config: Config, engine: sa.Engine) -> None:
    """The error names that daemon."""
    look = check_daemons(config, engine, lambda: beat(engine))
    failures: list[Any] = []
    look.addErrback(failures.append)
    (failure,) = failures
    assert isinstance(failure.value, StartError)
    assert "daemon older acts on this database with an older version" in str(failure.value)


def test_a_dead_older_daemon_does_not_prevent_the_migration(
    config: Config, engine: sa.Engine
) -> None:
    """Its lease counter does not change."""
    assert not isinstance(check_daemons(config, engine, lambda: None).result, Exception)


@pytest.mark.parametrize("way", ["given back", "our own", "as new"])
def test_the_check_does_not_wait_if_no_other_daemon_can_act(
    config: Config, engine: sa.Engine, way: str
) -> None:
    """The lease is free or this daemon's own, or the schema is current."""
    with engine.begin() as connection:
        if way == "given back":
            lease_store.give_back(connection, 1)
        elif way == "our own":
            ours = holder_of(config.state_directory / "holder")
            connection.execute(sa.update(lease_store.LEASES).values(holder=ours))
    if way == "as new":
        migrations.upgrade(engine)
    clock = Clock()
    database = Database(engine, Inline(), clock, np.random.default_rng(0))
    begin = check_of_other_daemons(clock, config)
    assert begin is not None
    assert ensureDeferred(begin(database)).called
    assert not clock.getDelayedCalls()


def test_a_failed_check_leaves_the_schema_unchanged(config: Config, engine: sa.Engine) -> None:
    """The check runs before the migration."""

    async def refuse(_: Database) -> None:
        raise StartError("an older one acts")

    async def main(reactor: Any) -> None:
        await Database.open(config.database_url, reactor, np.random.default_rng(0), before=refuse)

    with pytest.raises(StartError):
        run_on_reactor(main)
    with engine.connect() as connection:
        assert migrations.revision_of(connection) == OLDER
