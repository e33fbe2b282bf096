"""CPU time of a whole period without changes, compared with reading the pools and deciding.

python benchmarks/bench_period.py

The embedded cloud has 1,000 hosts and 10,000 running VMs. It is used first through the in-memory
transport in virtual time, then through HTTP as a process of its own. All times are CPU time of this
process, medians of several periods; with the in-memory transport they include the cloud's work.
"""

import gc
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, TypeVar

import numpy as np
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.support.measurement import Figures
from merkatd.base.clock import Inline, OwnedExecutor, Threads, asyncio_reactor
from merkatd.currency.settings import MoneySettings
from merkatd.database import Database, migrations
from merkatd.database.base.engine import make_engine
from merkatd.database.scheduler.journal import of_plan
from merkatd.embedded.memory_transport import MemoryTransport
from merkatd.embedded.state_file import SqliteStore
from merkatd.hypervisor import EmbeddedHypervisors
from merkatd.limits import plan_limits as decide_limits
from merkatd.opennebula import Client, HttpTransport, OpenNebulaCloud, Transport
from merkatd.placement import strategy_named
from merkatd.scheduler.charging.charge import charge
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.execution.message_writer import MessageWriter
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.phases.act import act
from merkatd.scheduler.phases.announce import due
from merkatd.scheduler.phases.decide import decide
from merkatd.scheduler.phases.observe import observe
from tests.daemon.large import ADMIN, BOOT_S, large_cloud

Result = TypeVar("Result")

ROUNDS = 7
INTERVAL_S = 60.0
LONGEST_SETTLING = 20
"""Maximum number of periods until nothing changes any more."""
AGO_S = 4 * 3600.0
"""Start of the virtual time in seconds before now, so that it never reaches the future."""
LIMIT = 1.5
PARTS = (
    "reading the pools",
    "reading the hosts",
    "observe",
    "charge",
    "deciding: the strategy alone",
    "limits",
    "decide",
    "act",
    "tell",
    "whole period",
)
"""The parts of a period. `observe` and `decide` include their own parts and the database."""


class Laps:
    """CPU seconds of this process, by name."""

    def __init__(self) -> None:
        self._laps: dict[str, list[float]] = defaultdict(list)

    async def of(
        self, name: str, call: Callable[..., Awaitable[Result]], *arguments: Any
    ) -> Result:
        """Await a call, store its time, and return its result."""
        begin = time.process_time()
        result = await call(*arguments)
        self._laps[name].append(time.process_time() - begin)
        return result

    def median(self, name: str) -> float:
        """Return the median time in seconds."""
        return float(np.median(self._laps[name]))


class TimedCloud:
    """A proxy of an object that measures one of its methods."""

    def __init__(self, laps: Laps, name: str, thing: Any, method: str) -> None:
        self._thing = thing
        self._method = method
        self._of = lambda *arguments: laps.of(name, getattr(thing, method), *arguments)

    def __getattr__(self, name: str) -> Any:
        return self._of if name == self._method else getattr(self._thing, name)


async def one_round(context: PeriodContext, laps: Laps, passes: Callable[[], None]) -> None:
    """Run a whole period as the daemon does, then its parts one by one."""
    timed = replace(
        context,
        cloud=TimedCloud(laps, "reading the pools", context.cloud, "observe"),
        hypervisors=TimedCloud(laps, "reading the hosts", context.hypervisors, "read"),
    )
    passes()
    await laps.of("whole period", Scheduler(timed).period)
    passes()
    seen = await laps.of("observe", observe, context)
    await laps.of("charge", charge, context, seen)
    decided = await laps.of("decide", decide, context, seen)
    await laps.of("act", act, context, seen, decided)
    messages, shown = due(seen, decided, withdraw=True), seen.observation.messages
    await laps.of("tell", MessageWriter().tell, context, messages, shown)
    planned = await context.database.read(lambda connection: of_plan(connection, seen.period))
    if decided.steps or planned:
        raise AssertionError(f"the period must have no steps (got {len(decided.steps)})")
    (market,) = context.markets
    entry = strategy_named(market.strategy)
    memory = decided.decision.memory[market.name]

    async def strategy() -> object:
        return entry.decide(seen.snapshot, entry.defaults, memory)

    async def limits() -> object:
        return decide_limits(seen.snapshot, decided.decision, seen.in_force, {}, context.limits)

    await laps.of("deciding: the strategy alone", strategy)
    await laps.of("limits", limits)


async def rounds(
    figures: Figures, name: str, context: PeriodContext, passes: Callable[[], None]
) -> None:
    """Print all figures for one transport."""
    await one_round(context, Laps(), passes)
    laps = Laps()
    for _ in range(ROUNDS):
        await one_round(context, laps, passes)
    for part in PARTS:
        figures.plain(f"{name}: {part}, CPU ms", laps.median(part) * 1e3)
    pools, strategy = laps.median("reading the pools"), laps.median("deciding: the strategy alone")
    rest = laps.median("observe") - pools - laps.median("reading the hosts")
    figures.plain(f"{name}: observe less both readings (database, snapshot), CPU ms", rest * 1e3)
    figures.at_most(
        f"{name}: whole period / (reading the pools + deciding)",
        laps.median("whole period") / (pools + strategy),
        LIMIT,
    )


def world_of(
    transport: Transport, database: Database, clock: Any, executor: OwnedExecutor, now: Any
) -> PeriodContext:
    """Return a period's context as the daemon builds it, from other parts."""
    client = Client(transport, ADMIN, clock)
    return PeriodContext(
        cloud=OpenNebulaCloud(client, clock, executor, now=now),
        hypervisors=EmbeddedHypervisors(client),
        database=database,
        clock=clock,
        executor=executor,
        rng=np.random.default_rng(1),
        now=now,
        # Enough credits: otherwise each period would write warnings to owners.
        money=MoneySettings(starting_credits=1e9),
    )


def at_once(running: Coroutine[Deferred[Any], Any, Result]) -> Result:
    """Run a coroutine that never waits, and return its result."""
    outcomes: list[Any] = []
    ensureDeferred(running).addBoth(outcomes.append)
    (outcome,) = outcomes
    if hasattr(outcome, "raiseException"):
        outcome.raiseException()
    result: Result = outcome
    return result


def in_memory(figures: Figures, state: Path, url: str) -> None:
    """Build the cloud, run it until nothing changes, and measure; keep cloud and database."""
    clock = Clock()
    clock.advance(time.time() - AGO_S)
    store = SqliteStore(state)
    cloud = large_cloud(clock, store)
    clock.advance(BOOT_S)
    engine = make_engine(url)
    migrations.upgrade(engine)
    database = Database(engine, Inline(), clock, np.random.default_rng(1))
    world = world_of(MemoryTransport(cloud), database, clock, Inline(), clock.seconds)
    for _ in range(LONGEST_SETTLING):
        steps = at_once(Scheduler(world).period()).decided.steps
        clock.advance(INTERVAL_S)
        if not steps:
            break
    # As the command does: keep the cloud's objects out of the garbage collections of a period.
    gc.collect()
    gc.freeze()
    at_once(rounds(figures, "in memory", world, lambda: clock.advance(INTERVAL_S)))
    at_once(database.close())
    cloud.close()


@contextmanager
def served(state: Path) -> Iterator[str]:
    """Yield the address of the cloud in a process of its own."""
    command = [sys.executable, "-m", "merkatd.cli", "embedded", "--listen", "127.0.0.1:0"]
    with Popen([*command, "--state", str(state)], stdout=PIPE, text=True) as process:
        try:
            yield process.stdout.readline().strip() if process.stdout else ""
        finally:
            process.terminate()


def over_http(figures: Figures, endpoint: str, url: str) -> None:
    """Measure over HTTP, on the daemon's reactor."""
    reactor = asyncio_reactor()
    outcomes: list[Any] = []

    async def measure() -> None:
        workers = Threads(reactor, 2, name="workers")
        database = await Database.open(url, reactor, np.random.default_rng(1))
        transport = HttpTransport(reactor, endpoint, workers)
        world = world_of(transport, database, reactor, workers, time.time)
        try:
            await rounds(figures, "over HTTP", world, lambda: None)
        finally:
            await transport.close()
            await database.close()
            workers.stop()

    def begin() -> None:
        ensureDeferred(measure()).addBoth(outcomes.append).addBoth(lambda _: reactor.stop())

    reactor.callWhenRunning(begin)
    reactor.run()
    for outcome in outcomes:
        if outcome is not None:
            outcome.raiseException()


def main() -> int:
    """Print all figures; return 1 if a limit is missed."""
    figures = Figures()
    with tempfile.TemporaryDirectory() as name:
        state, url = Path(name) / "cloud.db", f"sqlite:///{name}/merkat.db"
        in_memory(figures, state, url)
        with served(state) as endpoint:
            over_http(figures, endpoint, url)
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main())
