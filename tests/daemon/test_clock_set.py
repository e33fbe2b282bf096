"""The daemon's timers do not depend on the wall clock, so it can be set."""

import mmap
import struct
import subprocess
import sys
import time
import xmlrpc.client
from collections.abc import Iterator
from typing import Any

import pytest

from tests.daemon.harness import Site
from tests.daemon.processes import until

HOUR_S = 3_600.0
MOST_S = 20.0
"""For a few periods of a fraction of a second each, on a loaded machine."""
_MOVED = """
import mmap, struct, sys, time
file = open(sys.argv.pop(1), "r+b")
moved = mmap.mmap(file.fileno(), 8)
real = time.time
time.time = lambda: real() + struct.unpack("d", moved)[0]
from merkatd.cli import main
raise SystemExit(main())
"""


class Clocked:
    """A daemon whose wall clock the test sets."""

    def __init__(self, site: Site) -> None:
        self._site = site
        site.kill_daemon()
        moved = site.directory / "moved"
        moved.write_bytes(struct.pack("d", 0.0))
        with moved.open("r+b") as file:
            self._moved = mmap.mmap(file.fileno(), 8)
        config = str(site.directory / "merkatd.toml")
        words = [sys.executable, "-c", _MOVED, str(moved), "run", "--config", config]
        self.log = site.directory / "clocked.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        try:
            self.after_periods(2)
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise
        address = (site.directory / "state" / "merkat_xmlrpc").read_text().strip()
        self.api: Any = xmlrpc.client.ServerProxy(address)

    def set(self, by_s: float) -> None:
        """Set the clock to this distance from the true time."""
        struct.pack_into("d", self._moved, 0, by_s)

    def after_periods(self, number: int) -> float:
        """Wait for this number of good periods; return their duration."""
        begun_s, wanted = time.monotonic(), self._site.good_periods() + number
        until(lambda: self._site.good_periods() >= wanted, f"{number} periods")
        return time.monotonic() - begun_s

    def close(self) -> None:
        """Stop the daemon, and check that it ends in order."""
        self.process.terminate()
        try:
            assert self.process.wait(MOST_S) == 0
        finally:
            self.process.kill()
            self.api("close")()
            self._moved.close()
        assert "Traceback" not in self.log.read_text(), self.log.read_text()


@pytest.fixture
def clocked(site: Site) -> Iterator[Clocked]:
    """Replace the site's daemon."""
    made = Clocked(site)
    yield made
    made.close()


def test_a_clock_change_stops_neither_periods_nor_users(clocked: Clocked) -> None:
    """The clock is set back by an hour, ahead by a day, and to the true time."""
    for by_s in (-HOUR_S, 24 * HOUR_S, 0.0):
        assert clocked.api.merkat.daemon.info("ann:secret")[0]
        clocked.set(by_s)
        assert clocked.after_periods(2) < MOST_S, by_s
        answer = clocked.api.merkat.daemon.info("ann:secret")
        assert answer[0], answer
