"""What a process has heard of what is published.

A price is for hundreds of processes on few cores at the same moment: nothing stands between the
socket and who takes the bytes, neither a future nor a task that would have to be woken first.
"""

import asyncio
from collections.abc import Callable

import zmq

from merkatd.protocol.bus_messages import Beaten, Latest, Measured, news_of
from merkatd.protocol.platform_messages import MarketNow, News, PlatformStatus
from merkatd.protocol.wire_format import Envelope

Event = News | Measured | MarketNow
"""What a controller is told (news, measurements), and what a monitor is (its market)."""


class SubscriptionState:
    """Puts together what a period's news bring in two parts."""

    def __init__(self, *, attends: bool) -> None:
        """`attends`: whether this is a controller, who is told all; a monitor hears prices."""
        self._attends = attends
        self._life = ""
        self._published = 0
        self._priced = 0
        self.market: MarketNow | None = None
        """As it was announced last."""
        self._standing: PlatformStatus | None = None
        self._told = False
        """Whether what is known of the last period was told."""

    def begin(self, life: str, latest: Latest) -> list[Event]:
        """A daemon's life begins, or goes on; what is new since the last one."""
        anew = self._life == ""
        if life != self._life:
            # Another daemon counts from the beginning.
            self._life, self._published, self._priced = life, 0, 0
        events = self.catch_up(latest)
        return [] if anew else events

    def catch_up(self, latest: Latest) -> list[Event]:
        """Take what was published last, where it was missed."""
        events: list[Event] = []
        if latest.priced > self._priced and latest.market is not None:
            events += self._market_is(latest.market)
        if latest.published > self._published and latest.standing is not None:
            events += self._standing_is(latest.standing)
        self._priced, self._published = latest.priced, latest.published
        return events

    def misses(self, beaten: Beaten) -> bool:
        """Whether more was published than came here."""
        own = self._attends and beaten.published > self._published
        return own or beaten.priced > self._priced

    def take(self, envelope: Envelope) -> list[Event]:
        """What a publication brings."""
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
"""After so many messages in a row others get the event loop."""


class Subscription:
    """Reads a socket that nobody else reads, from its making to its closing."""

    def __init__(self, socket: "zmq.Socket[bytes]", take: Callable[[bytes], None]) -> None:
        self._socket = socket
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._open = True
        # libzmq tells once that there is something, not for each message: what came before we
        # began to watch would never be told.
        self._loop.add_reader(socket.fileno(), self._read)
        self._loop.call_soon(self._read)

    def _read(self) -> None:
        """All that is there; only then is the next message told."""
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
        """Read no more."""
        if not self._open:
            return
        self._open = False
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
