"""Two daemons on one database: the standby takes over when the first is killed."""

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
"""For the load of the machine."""


@pytest.fixture
def standby(site: Site) -> Iterator[Program]:
    """Start a second daemon with its own state directory on the first one's database."""
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


def test_a_paused_start_on_a_second_machine_does_not_pause_the_daemon(site: Site) -> None:
    """The package starts a stopped daemon paused to release its VMs, and ends it again."""
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


def test_the_standby_takes_over_from_a_killed_daemon(
    site: Site, standby: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    """It waits until the lease ends, sends nothing meanwhile, and then acts."""
    standby.until_output("Standing by")
    assert "This daemon acts" not in standby.output()
    site.after_good_periods(2, busy=True)
    site.kill_daemon()
    killed_s = time.monotonic()
    until(lambda: "This daemon acts" in standby.output(), "the standby acts", site.tenants.act)
    assert time.monotonic() - killed_s < LEAST_LEASE_S * 1.2 + SLACK_S
    site.daemon = standby
    settle(site)
    agree(site)

    config = str(site.directory / "second.toml")
    assert main(["check", "--config", config]) == 0
    output = capsys.readouterr().out
    assert "mode daemon fits" in output
    assert "the login is an administrator's" in output

    # The daemon acts by itself here, so the driver of OpenNebula 7 places nothing.
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
    assert standby.end() == 0, standby.output()
    site.start_daemon()
    site.after_good_periods(1)
    agree(site)
