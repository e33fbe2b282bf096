"""Fixtures and settings of all tests: shared servers, and the order of the files."""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import forks, servers
from tests.daemon.processes import fork_server_here
from tests.lengths import shorten
from tests.servers import MariaDb

# The objects of a collection stay: nearly all of them are modules and tests.
gc.disable()

# Output goes into a pipe, so the width of the terminal must not matter.
os.environ.pop("COLUMNS", None)

# A script's background process ignores Ctrl-C, and its child processes inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The duration of an example depends mostly on the machine's load. Tests without a number of their
# own have 100 examples in `make soak`.
settings.register_profile("calm", deadline=None, max_examples=shorten(100, 30))
settings.load_profile("calm")


LONGEST = (
    "simulator/test_dask_cluster.py",
    "demo/test_tour.py",
    "daemon/test_reactor.py",
    "ledger/test_page.py",
    "daemon/test_kill.py",
    "web/",
    "api/xmlrpc/",
    "api/xmlrpc/test_many.py",
    "database/test_kill.py",
    "scheduler/test_period.py",
    "ledger/test_kill.py",
    "api/test_control.py",
    "bus/test_kill.py",
    "daemon/test_standby.py",
    "placement/conformance/test_rules.py",
    "placement/test_tabu.py",
    "commands/test_garbage.py",
    "demo/test_demo.py",
    "daemon/test_ending.py",
    "daemon/test_kill_approved.py",
    "docs/test_running.py",
    "web/test_hanging_database.py",
    "web/test_odd_bytes.py",
    "web/test_tls.py",
)
"""The longest units, which run first: at the end, short ones keep every process busy."""

SHARING = ("web/", "api/xmlrpc/", "merkat/", "onegroup/")
"""The folders whose files share a daemon.

One process runs such a folder, so only one daemon starts. Its files in LONGEST start their own.
"""


def unit_of(file: str) -> str:
    """Return what one process runs: this file, or the folder whose daemon it shares."""
    name = file.removeprefix("tests/")
    shared = next((folder for folder in SHARING if name.startswith(folder)), name)
    return name if name in LONGEST else shared


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the number of processes."""
    parser.addoption("--processes", type=int, default=1, help="run the tests in so many processes")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the longest units to the front; keep the order within each."""
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(unit_of(item.nodeid.partition("::")[0]), len(ranks)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests, in several processes if so asked.

    Loaded modules are exempt from garbage collections, which take a tenth of the CPU time.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 20)
    processes: int = session.config.getoption("processes")
    if processes == 1 or session.config.option.collectonly or session.testsfailed:
        return None
    units = forks.units_by(unit_of, session.items)
    forks.run_units(session, units, processes, begin=fork_server_here)
    return True


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
