"""CPU time of XML-RPC calls, compared with an empty method of Twisted's XML-RPC; and of quotes.

python benchmarks/bench_api.py

One process serves both on the loopback interface. This process calls the methods in turn, many
times, and does not parse the answers. Each of the open connections always has one call under way,
so that the serving process is never idle; rates are compared by its CPU time. The market has
10,000 VMs on 1,000 hosts.
"""

import gc
import re
import selectors
import socket
import sys
import time
import xmlrpc.client
from pathlib import Path
from subprocess import PIPE, Popen
from types import SimpleNamespace
from typing import IO, Any, cast

import numpy as np
from twisted.web import server as web
from twisted.web.xmlrpc import XMLRPC

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.support.measurement import Figures
from merkatd.api.http.settings import ApiSettings
from merkatd.api.xmlrpc.dispatch import Dispatch, serve
from merkatd.base.clock import asyncio_reactor
from merkatd.cluster import Decision, Plan, Snapshot
from merkatd.embedded.cloud import EmbeddedCloud
from merkatd.embedded.memory_transport import MemoryTransport
from merkatd.market.market_view import market_view
from merkatd.market.price import PriceRule
from merkatd.market.quote import QuotedPlace, Quotes
from merkatd.scheduler.base.settings import GoodsSettings
from merkatd.service.base.callers import CallerRights
from merkatd.service.base.identity import SignIns
from merkatd.service.base.order_limits import OrderCounts
from merkatd.service.base.period_view import PeriodView, QuotedView
from merkatd.service.market.prices import PriceService
from merkatd.service.market.quotes import QuoteService
from merkatd.service.services import DaemonServices
from tests.clouds import crowded

HOSTS = 1_000
SESSION = "oneadmin:secret"
CONNECTIONS = 8
ROUNDS = 15
CALLS = 400
"""Calls of each method in a round."""
LEAST = 0.5
GROWTH = 2.0
"""Maximum growth of a quote's time from 1,000 VMs to 100,000; the logarithm grows by 1.7."""
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_DONE = b"<boolean>1</boolean>"
_UNBOUNDED = 1e9
_UNUSED: Any = None
"""A placeholder for parts that the called methods don't use."""


class Empty(XMLRPC):
    """An XML-RPC server with a method that does nothing."""

    def xmlrpc_empty(self) -> int:
        """Return 0."""
        return 0


class QuietSite(web.Site):
    """A site without an access log, like the tenants' interface."""

    def log(self, request: Any) -> None:
        """Do nothing."""


class FixedDecision:
    """A prepared period in which no VM moved."""

    def __init__(self, snapshot: Snapshot) -> None:
        view = market_view(snapshot, 0)
        allocations = np.zeros_like(snapshot.vms.bid)
        allocations[view.vms] = view.on_hosts(view.place).allocation
        prices = view.bid.sum(axis=0) / view.total
        host = snapshot.vms.host
        latest: Any = SimpleNamespace(
            period=1,
            at_s=time.time(),
            prices={"default": dict(zip(snapshot.resources, prices.tolist(), strict=True))},
        )
        self.latest = latest
        now = PeriodView(
            at_s=latest.at_s,
            snapshot=snapshot,
            states=("RUNNING",) * len(snapshot.vms),
            decision=Decision(Plan(), allocations, prices[np.newaxis]),
            limits=_UNUSED,
            host=host,
            cost=allocations * prices,
            rate=np.full(len(snapshot.vms), np.nan),
            messages={},
        )
        quotes = Quotes.of(snapshot, 0, host, PriceRule.CLEARING, np.zeros(len(prices)))
        self._prepared = QuotedView(latest, now, [quotes], [False])

    async def prepared(self) -> QuotedView:
        """Return the prepared period."""
        return self._prepared


def house(reactor: Any, hosts: int = HOSTS) -> DaemonServices:
    """Return the interface on that period, with an embedded cloud that checks logins."""
    cloud = EmbeddedCloud(reactor, np.random.default_rng(1))
    cloud.found(SESSION.partition(":")[2])
    decided: Any = FixedDecision(crowded(hosts, 1))
    scheduler: Any = SimpleNamespace(world=SimpleNamespace(goods=GoodsSettings()))
    sign_ins = SignIns(MemoryTransport(cloud), reactor, kept_s=10.0, refusal_kept_s=2.0)
    rights = CallerRights(sign_ins, _UNUSED, reactor)
    return DaemonServices(
        scheduler=scheduler,
        views=decided,
        callers=rights,
        sign_ins=sign_ins,
        orders=OrderCounts(reactor, _UNBOUNDED),
        limit_quotes=_UNUSED,
        version="0",
        ledger=_UNUSED,
        creation=_UNUSED,
        accounts=_UNUSED,
        application_standings=_UNUSED,
        daemon=_UNUSED,
        balances=_UNUSED,
        bids=_UNUSED,
        explanations=_UNUSED,
        limit_orders=_UNUSED,
        limits=_UNUSED,
        listings=_UNUSED,
        modes=_UNUSED,
        strategies=_UNUSED,
        tenant_reports=_UNUSED,
        what_if=_UNUSED,
        past=_UNUSED,
        plans=_UNUSED,
        price_reasons=_UNUSED,
        prices=PriceService(scheduler, decided),
        quotes=QuoteService(rights),
        refusals=_UNUSED,
        steps=_UNUSED,
    )


def serve_both() -> None:
    """Serve both until standard input ends."""
    reactor = asyncio_reactor()
    settings = ApiSettings(user_calls=_UNBOUNDED, address_calls=_UNBOUNDED)
    door = serve(reactor, settings, Dispatch(house(reactor), settings, reactor))
    site: Any = QuietSite(Empty())  # type: ignore[no-untyped-call]  # Twisted's web has no types
    empty = reactor.listenTCP(0, site, interface="127.0.0.1")
    sys.stdout.write(f"{door.port} {empty.getHost().port}\n")
    sys.stdout.flush()
    reactor.callInThread(_end_with_input, reactor)
    gc.freeze()  # as the daemon does
    reactor.run()


def _end_with_input(reactor: Any) -> None:
    for _ in sys.stdin:  # each line requests the CPU time of all threads until now
        sys.stdout.write(f"{time.process_time()}\n")
        sys.stdout.flush()
    reactor.callFromThread(reactor.stop)


class BenchmarkCaller:
    """Connections to a port, each with one call under way."""

    def __init__(self, port: int) -> None:
        self._sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
        self._selector = selectors.DefaultSelector()
        for connection in self._sockets:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(connection, selectors.EVENT_READ, bytearray())

    def call(self, body: bytes, expected: bytes) -> None:
        """Make `CALLS` calls as fast as they are answered; each answer must contain `expected`."""
        request = b"POST /RPC2 HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml\r\n"
        request += b"Content-Length: %d\r\n\r\n" % len(body) + body
        for connection in self._sockets:
            connection.sendall(request)
        answered, asked = 0, len(self._sockets)
        while answered < asked:
            for key, _ in self._selector.select():
                ready: Any = key.fileobj
                if self._whole(ready, key.data, expected):
                    answered += 1
                    if asked < CALLS:
                        asked += 1
                        ready.sendall(request)

    def close(self) -> None:
        """Close the connections."""
        self._selector.close()
        for connection in self._sockets:
            connection.close()

    @staticmethod
    def _whole(ready: socket.socket, held: bytearray, expected: bytes) -> bool:
        """Read more; return whether the answer is complete, and drop it then."""
        held += ready.recv(1 << 16)
        head = held.find(b"\r\n\r\n")
        if head < 0:
            return False
        length = _LENGTH.search(held, 0, head)
        if length is None or (len(held) == head + 4 + int(length[1]) and expected not in held):
            raise ValueError(f"unexpected answer: {held!r}")
        if len(held) < head + 4 + int(length[1]):
            return False
        held.clear()
        return True


def over_the_wire(figures: Figures) -> None:
    """Measure prices and quotes against the empty method, over the network."""
    quoted = {"cpu": 4.0, "memory": 2.0}
    calls: dict[str, tuple[Any, ...]] = {
        "empty": (),
        "merkat.price.info": (SESSION,),
        "merkat.quote.bid": (SESSION, 77, quoted),
        "merkat.quote.want": (SESSION, 77, {"cpu": 50.0}),
    }
    laps: dict[str, list[float]] = {name: [] for name in calls}
    with Popen([sys.executable, __file__, "serve"], stdin=PIPE, stdout=PIPE, text=True) as child:
        output, input_ = cast("IO[str]", child.stdout), cast("IO[str]", child.stdin)

        def cpu_s() -> float:
            input_.write("\n")
            input_.flush()
            return float(output.readline())

        ours, theirs = (BenchmarkCaller(int(port)) for port in output.readline().split())
        for number in range(ROUNDS + 1):
            for name, arguments in calls.items():
                caller, expected = (ours, _DONE) if arguments else (theirs, b"<int>0</int>")
                begin = cpu_s()
                caller.call(xmlrpc.client.dumps(arguments, name).encode(), expected)
                if number:  # the first round warms up
                    laps[name].append((cpu_s() - begin) / CALLS)
        for caller in (ours, theirs):
            caller.close()
        input_.close()
    empty = np.array(laps.pop("empty"))
    typical = 1e6 * float(np.median(empty))
    figures.plain("an empty method of Twisted's XML-RPC, CPU us a call", typical)
    for name, times in laps.items():
        figures.plain(f"{name}, CPU us a call", 1e6 * float(np.median(times)))
        part = float(np.median(empty / times))
        figures.at_least(f"rate of {name} / of the empty method", part, LEAST)


def in_this_process(figures: Figures) -> None:
    """Measure a quote without the interface, in a small and in a large market."""
    markets = {}
    for hosts in (100, 10_000):
        snapshot = crowded(hosts, 1)
        begin = time.process_time()
        markets[hosts * 10] = Quotes.of(
            snapshot, 0, snapshot.vms.host, PriceRule.CLEARING, np.zeros(len(snapshot.resources))
        )
        took_ms = 1e3 * (time.process_time() - begin)
        figures.plain(f"preparing {hosts * 10:,} VMs for a period, CPU ms", took_ms)
    laps: dict[int, list[float]] = {vms: [] for vms in markets}
    for _ in range(ROUNDS):
        for vms, quotes in markets.items():
            rows = np.random.default_rng(0).integers(0, vms, 200).tolist()
            begin = time.process_time()
            for row in rows:
                quotes.quote(cast("QuotedPlace", quotes.place_of(row)), [1.0, 2.0])
            laps[vms].append((time.process_time() - begin) / len(rows))
    small, large = (np.array(laps[vms]) for vms in markets)
    for vms, times in laps.items():
        name = f"a quote among {vms:,} VMs, clearing prices, CPU us"
        figures.plain(name, 1e6 * float(np.median(times)))
    growth = float(np.median(large / small))
    figures.at_most("a quote among 100,000 VMs / among 1,000", growth, GROWTH)


def main() -> int:
    """Print all figures; return 1 if a limit is missed."""
    figures = Figures()
    over_the_wire(figures)
    in_this_process(figures)
    return figures.exit_code()


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve_both()
    else:
        sys.exit(main())
