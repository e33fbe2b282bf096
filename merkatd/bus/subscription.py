"""A process's subscription to the daemon's publications, and the news assembled from it.

Hundreds of processes on few cores receive a price at the same moment. So the socket passes its
bytes straight to the receiver, without a future or a task that has to be woken first.
"""

import asyncio
from collections.abc import Callable

import zmq

from merkatd.protocol.bus_messages import Beaten, Latest, Measured, news_of
from merkatd.protocol.platform_messages import MarketNow, News, PlatformStatus
from merkatd.protocol.wire_format import Envelope

Event = News | Measured | MarketNow
"""An event for a controller (news, measurements) or for a monitor (its market)."""


class SubscriptionState:
    """Joins the two parts of a period's news, the market and the platform's status."""

    def __init__(self, *, attends: bool) -> None:
        """Begin without news. A controller (`attends`) gets all news, a monitor only prices."""
        self._attends = attends
        self._life = ""
        self._published = 0
        self._priced = 0
        self.market: MarketNow | None = None
        """The market as last announced."""
        self._standing: PlatformStatus | None = None
        self._told = False
        """Whether the news of the last period were returned already."""

    def begin(self, life: str, latest: Latest) -> list[Event]:
        """Start a session with a daemon; return the news missed since the last session."""
        anew = self._life == ""
        if life != self._life:
            # A new daemon numbers its publications from 1.
            self._life, self._published, self._priced = life, 0, 0
        events = self.catch_up(latest)
        return [] if anew else events

    def catch_up(self, latest: Latest) -> list[Event]:
        """Return the events in the latest publications that were missed."""
        events: list[Event] = []
        if latest.priced > self._priced and latest.market is not None:
            events += self._market_is(latest.market)
        if latest.published > self._published and latest.standing is not None:
            events += self._standing_is(latest.standing)
        self._priced, self._published = latest.priced, latest.published
        return events

    def misses(self, beaten: Beaten) -> bool:
        """Return whether some publications did not arrive."""
        own = self._attends and beaten.published > self._published
        return own or beaten.priced > self._priced

    def take(self, envelope: Envelope) -> list[Event]:
        """Return the events that follow from a publication."""
        if envelope.session != self._life:
            return []
        body, number = envelope.body, envelope.number
        if isinstance(body, MarketNow):
            if number <= self._priced:
                return []
            self._priced = number
            return self._market_is(body)
        if number <= self._published:
            return []
        self._published = number
        if isinstance(body, PlatformStatus):
            return self._standing_is(body)
        return [body] if isinstance(body, Measured) else []

    def _market_is(self, market: MarketNow) -> list[Event]:
        self.market = market
        return self._news() if self._attends else [market]

    def _standing_is(self, standing: PlatformStatus) -> list[Event]:
        if standing != self._standing:
            self._standing, self._told = standing, False
        return self._news()

    def _news(self) -> list[Event]:
        news = None if self._told else news_of(self.market, self._standing)
        self._told = self._told or news is not None
        return [] if news is None else [news]


_TURN = 16
"""Messages read in a row before other tasks get the event loop."""


class Subscription:
    """The only reader of a socket, from construction to `close`."""

    def __init__(self, socket: "zmq.Socket[bytes]", take: Callable[[bytes], None]) -> None:
        self._socket = socket
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._open = True
        # libzmq signals once that messages are waiting, not for each message. Without this call,
        # messages that arrived before `add_reader` would never be signalled.
        self._loop.add_reader(socket.fileno(), self._read)
        self._loop.call_soon(self._read)

    def _read(self) -> None:
        """Read all waiting messages: only then does libzmq signal the next one."""
        for _ in range(_TURN):
            if not self._open:
                return
            try:
                data = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._take(data)
        self._loop.call_soon(self._read)

    def close(self) -> None:
        """Stop reading, and close the socket."""
        if not self._open:
            return
        self._open = False
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
