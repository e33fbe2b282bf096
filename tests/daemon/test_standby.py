"""Two daemons as processes on one database: the second follows when the first is killed."""

import base64
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from merkatd.cli import main
from merkatd.database.scheduler import order_store
from merkatd.opennebula.driver.driver_answer import EMPTY
from merkatd.scheduler.leadership import LEAST_LEASE_S
from tests.daemon.agreement import agree
from tests.daemon.harness import Site
from tests.daemon.processes import Program, until
from tests.daemon.settling import settle

SLACK_S = 3.0
"""For whatever else the machine does."""


@pytest.fixture
def standby(site: Site) -> Iterator[Program]:
    """A second daemon with a state directory of its own, on the database of the first."""
    site.after_good_periods(1)
    own = site.directory / "second"
    own.mkdir()
    config = site.directory / "second.toml"
    shared = f'[database]\nurl = "sqlite:///{site.directory}/state/merkat.db"\n'
    text = (site.directory / "merkatd.toml").read_text()
    config.write_text(text.replace(f'"{site.directory}/state"', f'"{own}"') + shared)
    made = Program(site.directory / "second.log", "run", "--config", str(config))
    yield made
    made.kill()


def test_a_look_at_a_second_machine_pauses_nobody(site: Site) -> None:
    """As the package does where its daemon is stopped: start one paused, release, end it."""
    site.after_good_periods(1)
    second = site.directory / "second.toml"
    text = (site.directory / "merkatd.toml").read_text()
    shared = f'[database]\nurl = "sqlite:///{site.directory}/state/merkat.db"\n'
    own = site.directory / "second"
    second.write_text(text.replace(f'"{site.directory}/state"', f'"{own}"') + shared)
    made = Program(site.directory / "second.log", "run", "--paused", "--config", str(second))
    try:
        until((own / "control.sock").exists, "it answers")
        assert main(["release", "--yes", "--config", str(second)]) == 1
    finally:
        made.kill()
    assert not site.read(order_store.in_force).paused
    site.after_good_periods(3)


def test_the_standby_follows_a_daemon_that_is_killed(
    site: Site, standby: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    """It waits as long as the lease lasts, does nothing meanwhile, and then all goes on."""
    standby.until_said("Standing by")
    assert "This daemon acts" not in standby.said()
    site.after_good_periods(2, busy=True)
    site.kill_daemon()
    killed_s = time.monotonic()
    until(lambda: "This daemon acts" in standby.said(), "the standby acts", site.tenants.act)
    assert time.monotonic() - killed_s < LEAST_LEASE_S * 1.2 + SLACK_S
    site.daemon = standby
    settle(site)
    agree(site)

    config = str(site.directory / "second.toml")
    assert main(["check", "--config", config]) == 0
    said = capsys.readouterr().out
    assert "mode daemon fits" in said
    assert "the login is an administrator's" in said

    # Merkat acts by itself here, so its driver, were there an OpenNebula 7, has nothing to do.
    scripts = site.directory / "merkat"
    assert main(["driver", str(scripts), "--config", config]) == 0
    done = subprocess.run(
        [sys.executable, "-IS", scripts / "ask.py", "place"],
        input=base64.b64encode(b"<SCHEDULER_DRIVER_ACTION/>"),
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode() == f"{EMPTY}\n"
    assert done.stderr == b""

    standby.tell_to_end()
    assert standby.end() == 0, standby.said()
    site.start_daemon()
    site.after_good_periods(1)
    agree(site)
