"""Two daemons on one real MariaDB, each with its own connections."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from merkatd.database.base.engine import make_engine
from tests.scheduler.frontend import Frontend
from tests.scheduler.two_daemons import INTERVAL_S, Daemon, pass_, periods_of
from tests.servers import MariaDb


@pytest.fixture
def engines(mariadb: MariaDb) -> Iterator[list[sa.Engine]]:
    """Return three engines of one database: one for the test and one for each daemon."""
    url = mariadb.make("two_daemons")
    made = [make_engine(url) for _ in range(3)]
    yield made
    for engine in made:
        engine.dispose()
    mariadb.drop("two_daemons")


def test_one_daemon_acts_in_each_period_and_the_other_follows_within_two(
    engines: list[sa.Engine],
) -> None:
    """They run together, after a kill, and after the first returns; no step is repeated."""
    cloud = Frontend(engine=engines[0])
    vms = [cloud.vm(1.0 + at) for at in range(4)]
    first = Daemon(cloud, "first", engine=engines[1])
    pass_(cloud, 20)
    second = Daemon(cloud, "second", offset_s=500.0, engine=engines[2])
    pass_(cloud, 3 * INTERVAL_S)
    assert len(first.acted) >= 3
    assert second.acted == []
    assert second.calls == []
    first.kill()
    vms.append(cloud.vm(9.0))
    before = list(first.acted)
    pass_(cloud, 2 * INTERVAL_S)
    assert second.acted
    first.clock.resume()
    pass_(cloud, 3 * INTERVAL_S)
    assert first.acted == before
    assert first.scheduler.standby == "daemon second has the lease on this database"
    assert not set(first.acted) & set(second.acted)
    assert cloud.read(periods_of) == sorted([*first.acted, *second.acted])
    assert {cloud.state(vm) for vm in vms} == {"RUNNING"}
    cloud.agree()
    second.end()
    first.end()
    cloud.close()
