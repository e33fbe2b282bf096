"""Fixtures and settings of all tests: shared servers, and the order of the files."""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import servers
from tests.servers import MariaDb

# Output goes into a pipe, so the width of the terminal must not matter.
os.environ.pop("COLUMNS", None)

# A script's background process ignores Ctrl-C, and its child processes inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The duration of an example depends mostly on the machine's load.
settings.register_profile("calm", deadline=None)
settings.load_profile("calm")


LONGEST = (
    "demo/test_tour.py",
    "daemon/test_reactor.py",
    "ledger/test_page.py",
    "daemon/test_kill.py",
    "api/xmlrpc/test_many.py",
    "database/test_kill.py",
    "scheduler/test_period.py",
    "ledger/test_kill.py",
    "api/test_control.py",
    "bus/test_kill.py",
    "daemon/test_standby.py",
    "placement/test_rules.py",
    "placement/test_tabu.py",
    "commands/test_garbage.py",
    "demo/test_demo.py",
    "daemon/test_ending.py",
    "daemon/test_kill_approved.py",
    "docs/test_running.py",
    "api/xmlrpc/test_calls.py",
    "api/xmlrpc/test_platforms.py",
)
"""The longest files, which run first: at the end, short files keep every process busy."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the longest files to the front; keep the order within each file."""
    ranks = {Path(__file__).parent / name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


def pytest_collection_finish() -> None:
    """Exempt the loaded modules from garbage collections, which take a tenth of the CPU time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


MOST_LOG_CHARS = 6000


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of each daemon's log in the report of a failed test."""
    report = yield
    fixtures: dict[str, object] = getattr(item, "funcargs", {}) if report.failed else {}
    for name, fixture in fixtures.items():
        log = getattr(fixture, "log", None)
        if isinstance(log, Path) and log.exists():
            text = log.read_text(errors="replace")
            report.sections.append((f"the log of {name}", text[-MOST_LOG_CHARS:]))
    return report


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    """Start one MariaDB for all tests that do not kill their server."""
    if servers.MARIADBD is None:
        pytest.skip("mariadb-server is not here")
    with servers.mariadb() as server:
        yield server
