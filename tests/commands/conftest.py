"""A daemon for commands: five VMs contend for two hosts, a sixth is too large for both."""

from collections.abc import Iterator

import pytest

from tests.commands.asking import Daemon, Shell

BIDS = (1.0, 3.0, 4.0, 2.0, 8.0)


def contended(periods: int) -> Daemon:
    """Return a daemon: web-0 ... web-4 bid 1, 3, 4, 2 and 8; `big` stays pending."""
    daemon = Daemon()
    for number, bid in enumerate(BIDS):
        daemon.frontend.vm(bid, VCPU=4, NAME=f"web-{number}")
    daemon.frontend.vm(
        3.0, NAME="big", MEMORY=20_000, MERKAT_MIN_MEMORY=10_000, MERKAT_BID_MEMORY=100
    )
    daemon.period(periods)
    return daemon


@pytest.fixture(scope="module")
def settled() -> Iterator[Daemon]:
    """Yield the daemon after four periods; tests that change it use `daemon` instead."""
    made = contended(4)
    yield made
    made.frontend.close()


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """Yield such a daemon after two periods, for one test; commands use it."""
    made = contended(2)
    monkeypatch.setattr("merkatd.commands.socket_door.ask", made.ask)
    yield made
    made.frontend.close()


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Return a shell whose output is a pipe."""
    monkeypatch.delenv("COLUMNS", raising=False)
    return Shell(capsys)


@pytest.fixture
def asked(settled: Daemon, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Return a shell whose commands use the settled daemon."""
    monkeypatch.setattr("merkatd.commands.socket_door.ask", settled.ask)
    return shell
