"""Two daemons on one MariaDB: the acting one is killed repeatedly."""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from merkatd.database.base.engine import make_engine
from merkatd.database.ledger.entry_store import audit
from merkatd.database.scheduler.period_store import PERIODS
from merkatd.database.scheduler.step_store import STEPS, StepState
from tests.daemon.harness import Site
from tests.daemon.processes import Program, until
from tests.servers import MariaDb

KILLS = min(int(os.environ.get("MERKAT_SOAK", "1")), 50)
INTERVAL_S = 2.0
SLACK_S = 5.0
"""For the load of the machine, and for the first observation of the new leader."""
NAMES = ("first", "second")
_DEPLOYS = STEPS.c.kind == "deploy"
_ACTED = re.compile(r"Period (\d+): ")


class Pair:
    """Both daemons and all their processes, killed ones too."""

    def __init__(self, site: Site, server: MariaDb) -> None:
        self.site = site
        self.url = server.make("two_processes")
        self.engine = make_engine(self.url)
        self.lives: dict[str, list[Program]] = {name: [] for name in NAMES}
        text = re.sub(
            r'interval = ".*"',
            f'interval = "{INTERVAL_S}s"',
            (site.directory / "merkatd.toml").read_text(),
        )
        for name in NAMES:
            own = text.replace(f'"{site.directory}/state"', f'"{site.directory}/{name}"')
            path = site.directory / f"{name}.toml"
            path.write_text(own + f'[database]\nurl = "{self.url}"\n')

    def start(self, name: str) -> None:
        """Start a daemon with its own state directory."""
        directory = self.site.directory
        config = str(directory / f"{name}.toml")
        self.lives[name].append(Program(directory / f"{name}.log", "run", "--config", config))

    def acted(self, name: str) -> list[int]:
        """Return the numbers of the periods in a daemon's log."""
        log = self.site.directory / f"{name}.log"
        return [int(number) for number in _ACTED.findall(log.read_text())] if log.exists() else []

    def newest(self) -> int:
        """Return the number of the newest period."""
        with self.engine.connect() as connection:
            return connection.scalar(sa.select(sa.func.max(PERIODS.c.number))) or 0

    def deployed(self) -> list[int]:
        """Return the VMs of all confirmed deployments."""
        done = STEPS.c.state == StepState.CONFIRMED
        with self.engine.connect() as connection:
            return list(connection.scalars(sa.select(STEPS.c.vm).where(_DEPLOYS, done)))

    def close(self) -> None:
        """Kill all processes."""
        for lives in self.lives.values():
            for life in lives:
                life.kill()
        self.engine.dispose()


@pytest.fixture
def pair(tmp_path: Path, mariadb: MariaDb) -> Iterator[Pair]:
    """Start both daemons: the first acts, the second stands by."""
    site = Site(tmp_path, 11)
    site.start_cloud()
    made = Pair(site, mariadb)
    try:
        made.start("first")
        until(lambda: len(made.acted("first")) > 0, "the first daemon acts")
        made.start("second")
        made.lives["second"][0].until_output("Standing by")
        yield made
    finally:
        made.close()
        site.close()
        mariadb.drop("two_processes")


def test_exactly_one_daemon_acts_in_each_period(pair: Pair) -> None:
    """The standby takes over within two periods, and no step is repeated."""
    acting, waiting = NAMES
    vms = []
    for _ in range(KILLS):
        vms.append(pair.site.call("one.vm.allocate", 'CPU="0.1"\nMEMORY="64"\n'))
        swap_roles(pair, acting, waiting)
        acting, waiting = waiting, acting
    until(lambda: set(vms) <= set(pair.deployed()), "all VMs are seen to be deployed")
    first, second = (pair.acted(name) for name in NAMES)
    assert sorted({*first, *second}) == sorted([*first, *second])
    deployed = pair.deployed()
    assert len(deployed) == len(set(deployed))
    with pair.engine.connect() as connection:
        assert audit(connection).sound


def swap_roles(pair: Pair, acting: str, waiting: str) -> None:
    """Kill the acting daemon, wait for the standby to act, and restart the killed one."""
    until(lambda: pair.newest() in pair.acted(acting), "a period of the acting daemon")
    already = len(pair.acted(waiting))
    pair.lives[acting][-1].kill()
    killed_s = time.monotonic()
    until(lambda: len(pair.acted(waiting)) > already, "the standby acts")
    assert time.monotonic() - killed_s <= 2 * INTERVAL_S + SLACK_S
    pair.start(acting)
    pair.lives[acting][-1].until_output("Standing by")
