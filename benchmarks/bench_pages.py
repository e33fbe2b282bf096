"""The CPU time and the size of the web pages about a large cloud.

python benchmarks/bench_pages.py

The embedded cloud has 1,000 hosts and 10,000 running VMs of its tenants; an administrator, who sees
all of them, opens each page. The charts have as many periods as the daemon keeps for so many VMs.
The times are CPU times of this process, medians of several visits, and include all reads from the
database.
"""

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.bench_period import AGO_S, at_once, world_of
from benchmarks.support.measurement import Figures
from merkatd.api.http.settings import ApiSettings
from merkatd.api.xmlrpc.dispatch import Dispatch
from merkatd.base.clock import Inline
from merkatd.database import Database, migrations
from merkatd.database.base.engine import make_engine
from merkatd.embedded.memory_transport import MemoryTransport
from merkatd.embedded.state_file import SqliteStore
from merkatd.opennebula import Client
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.identity import SignIns
from merkatd.service.base.order_limits import OrderCounts
from merkatd.service.base.period_view import present
from merkatd.service.services import services_of
from merkatd.web.base.form_reader import Form
from merkatd.web.base.live_updates import Listeners
from merkatd.web.base.period_memory import MOST_PERIODS, PeriodRecord, moment_of
from merkatd.web.base.responses import BrowserRequest, PageResponse
from merkatd.web.base.stored_answers import StoredAnswers
from merkatd.web.browser_sessions import BrowserSessions
from merkatd.web.site import WebSite
from tests.daemon.large import ADMIN, BOOT_S, large_cloud

CPU_MS = 300.0
KILOBYTES = 200.0
VISITS = 5
PERIODS = 3
_MANY = 1e9
PAGES = (
    "/",
    "/hosts",
    "/hosts?sort=-cpu-allocated",
    "/hosts/7",
    "/vms",
    "/vms?q=1&sort=-pays&page=7",
    "/vms?state=running&sort=host",
    "/vms/77",
    "/platforms",
    "/tenants",
    "/tenants/2",
    "/limit-orders",
    "/prices",
    "/decisions",
    "/periods/2",
    "/strategies",
    "/daemon",
)


class Visits:
    """The visits of an administrator to the pages of a large cloud."""

    def __init__(self, folder: Path) -> None:
        clock = Clock()
        clock.advance(time.time() - AGO_S)
        transport = MemoryTransport(large_cloud(clock, SqliteStore(folder / "cloud.db")))
        clock.advance(BOOT_S)
        engine = make_engine(f"sqlite:///{folder / 'merkat.db'}")
        migrations.upgrade(engine)
        database = Database(engine, Inline(), clock, np.random.default_rng(1))
        world = world_of(transport, database, clock, Inline(), clock.seconds)
        scheduler = Scheduler(world)
        sign_ins = SignIns(transport, clock, kept_s=_MANY, refusal_kept_s=2.0)
        ask = Client(transport, ADMIN, clock).call
        services = services_of(scheduler, sign_ins, OrderCounts(clock, _MANY), ask, "1")
        settings = ApiSettings(user_calls=_MANY, address_calls=_MANY, user_orders=_MANY)
        sessions = BrowserSessions(clock.seconds, longest_s=_MANY, idle_s=_MANY, most_per_user=9)
        self._site = WebSite(
            Dispatch(services, settings, clock),
            sessions,
            Listeners(clock, most=9, most_per_user=9),
            recall=StoredAnswers(clock, clock.seconds),
            cookie="merkat",
            secure=False,
        )
        self._token = sessions.begin(ADMIN, 0)
        for _ in range(PERIODS):
            scheduler.latest = latest = at_once(scheduler.period())
            view = present(latest, scheduler.world.markets)
            self._site.past.add(moment_of(latest.period, view, ()))
            clock.advance(60.0)
        self._fill(self._site.past.moments[0])

    def _fill(self, first: PeriodRecord) -> None:
        """Add earlier periods like the first one, until there is no room."""
        for back in range(1, MOST_PERIODS):
            earlier = replace(first, period=first.period - back, at_s=first.at_s - 60.0 * back)
            if not self._site.past.put_before(earlier):
                return

    def page(self, address: str) -> PageResponse:
        """Return the page at an address."""
        path, _, query = address.partition("?")
        asked = BrowserRequest(
            "GET", path, Form(query.encode()), Form(b""), 0, self._token,
            by_hand=True, own=True, address="192.0.2.2",
        )  # fmt: skip
        outcome: list[Any] = []
        ensureDeferred(self._site.visit(asked)).addBoth(outcome.append)
        answer = outcome[0]
        if not isinstance(answer, PageResponse) or answer.status != 200:
            raise AssertionError(f"{address} must be shown (got {answer})")
        return answer


def main() -> int:
    """Print all figures; return 1 if a limit is missed."""
    figures = Figures()
    with tempfile.TemporaryDirectory() as folder:
        visits = Visits(Path(folder))
        for address in PAGES:
            took = []
            for _ in range(VISITS):
                begin = time.process_time()
                answer = visits.page(address)
                took.append(time.process_time() - begin)
            figures.at_most(f"{address}, CPU ms", float(np.median(took)) * 1e3, CPU_MS)
            figures.at_most(f"{address}, kB", len(answer.body) / 1e3, KILOBYTES)
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main())
