"""The end of the bus in a controller's or monitor's process."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any, TypeVar

import zmq
import zmq.asyncio

from merkatd.bus.subscription import Event, Subscription, SubscriptionState
from merkatd.protocol.bus_messages import (
    FROM_DAEMON,
    Beaten,
    Heartbeat,
    Hello,
    Latest,
    LatestRequest,
    Refused,
    Welcome,
)
from merkatd.protocol.controller_kinds import CONTROLLER
from merkatd.protocol.curve_keys import Passport
from merkatd.protocol.platform_messages import MarketNow
from merkatd.protocol.wire_format import (
    LARGEST_NEWS_BYTES,
    TOPIC_END,
    Envelope,
    MalformedError,
    OtherVersionError,
    largest_bytes,
    market_topic,
    pack,
    topic_of,
    unpack,
)

AnySocket = TypeVar("AnySocket", bound=zmq.Socket[Any])
_ANSWER_S = 5.0
"""Time to wait for an answer before the message is sent again."""
_TRIES = 12
_WAITING = 100
_ID_BYTES = 12


class MessageRefusedError(Exception):
    """The daemon refused a message; the text gives the reason."""


class LostError(Exception):
    """The daemon no longer answers."""


class Peer:
    """A session with the daemon, reopened whenever it is lost."""

    def __init__(
        self,
        passport: Passport,
        *,
        context: zmq.asyncio.Context | None = None,
        answer_s: float = _ANSWER_S,
        tries: int = _TRIES,
    ) -> None:
        self._passport = passport
        self._answer_s = answer_s
        self._tries = tries
        self._own_context = context is None
        self._context = context or zmq.asyncio.Context()
        self._asking = self._connected(self._context.socket(zmq.DEALER), passport.asking)
        attends = passport.role == CONTROLLER
        self._listening = Subscription(self._subscribed(attends=attends), self._listen)
        self._hearing = SubscriptionState(attends=attends)
        self._session = ""
        self._number = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._news: asyncio.Queue[Event] = asyncio.Queue(_WAITING)
        self._greeting = asyncio.Lock()
        self.welcome: Welcome | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def _subscribed(self, *, attends: bool) -> zmq.Socket[bytes]:
        passport = self._passport
        plain: zmq.Context[zmq.Socket[bytes]] = zmq.Context.shadow(self._context)
        socket = self._connected(plain.socket(zmq.SUB), passport.listening)
        socket.subscribe(market_topic(passport.market))
        if attends:
            socket.subscribe(topic_of(passport.platform))
        return socket

    def _connected(self, socket: AnySocket, endpoint: str) -> AnySocket:
        socket.set(zmq.LINGER, 0)
        socket.set(zmq.SNDHWM, _WAITING)
        socket.set(zmq.RCVHWM, _WAITING)
        socket.set(zmq.MAXMSGSIZE, LARGEST_NEWS_BYTES)
        socket.set(zmq.CURVE_SERVERKEY, self._passport.daemon.encode())
        socket.set(zmq.CURVE_PUBLICKEY, self._passport.public.encode())
        socket.set(zmq.CURVE_SECRETKEY, self._passport.secret.encode())
        socket.connect(endpoint)
        return socket

    async def open(self) -> Welcome:
        """Open a session with the daemon.

        Raise LostError if the daemon does not answer, MessageRefusedError if it refuses.
        """
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._hear())]
        welcome = await self._greet("")
        self._tasks.append(loop.create_task(self._beat(welcome.beat_s)))
        return welcome

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """Send a message until the daemon answers it, and return the answer.

        An action keeps its id in every retry, so the daemon carries it out once.
        """
        identity = action_id or secrets.token_hex(_ID_BYTES)
        for _ in range(self._tries):
            session = self._session
            answer = await self._answered(Envelope(body, session, id=identity))
            if isinstance(answer, Refused) and answer.greet:
                await self._greet(session)
            elif isinstance(answer, Refused):
                raise MessageRefusedError(answer.why)
            else:
                return answer
        raise LostError(f"the daemon closed the session in each of {self._tries} tries")

    async def news(self) -> AsyncIterator[Event]:
        """Yield the events published for this process; the newest if some were missed."""
        while True:
            yield await self._news.get()

    @property
    def market(self) -> MarketNow | None:
        """Return the market as last announced."""
        return self._hearing.market

    def waiting(self) -> Event | None:
        """Remove and return the oldest unread event; None if there is none."""
        return None if self._news.empty() else self._news.get_nowait()

    async def close(self) -> None:
        """Close the session."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._asking.close()
        self._listening.close()
        if self._own_context:
            self._context.term()

    async def lost(self) -> None:
        """Wait until the connection to the daemon has failed for good."""
        await asyncio.gather(*self._tasks)

    def _next(self) -> int:
        self._number += 1
        return self._number

    async def _answered(self, envelope: Envelope) -> Any:
        """Send a message until an answer comes, and return it. Raise LostError if none comes.

        A late answer to any of the tries counts. Otherwise a daemon that is slower than the
        time limit would be asked again each time, and none of its answers would be used.
        """
        future = asyncio.get_running_loop().create_future()
        numbers = []
        try:
            for _ in range(self._tries):
                numbers.append(self._next())
                self._answers[numbers[-1]] = future
                data = self._packed(replace(envelope, number=numbers[-1]))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._answer_s):
                        await self._asking.send(data)
                        return await asyncio.shield(future)
        finally:
            for number in numbers:
                del self._answers[number]
        raise LostError("the daemon does not answer")

    def _packed(self, envelope: Envelope) -> bytes:
        """Return the bytes of a message; raise MessageRefusedError if they are too many."""
        data = pack(envelope)
        most = largest_bytes(0 if self.welcome is None else self.welcome.assignment.most_vms)
        if len(data) > most:
            raise MessageRefusedError(f"a message must have at most {most} bytes (got {len(data)})")
        return data

    async def _greet(self, stale: str) -> Welcome:
        """Open a new session, unless another task has opened one meanwhile."""
        async with self._greeting:
            if self.welcome is not None and self._session != stale:
                return self.welcome
            answer = await self._answered(Envelope(Hello(role=self._passport.role)))
            if not isinstance(answer, Welcome):
                raise MessageRefusedError(getattr(answer, "why", "unexpected answer to Hello"))
            self._welcomed(answer)
            return answer

    def _welcomed(self, welcome: Welcome) -> None:
        self.welcome = welcome
        self._session = welcome.session
        self._take(self._hearing.begin(welcome.life, welcome.latest))

    async def _hear(self) -> None:
        while True:
            data = await self._asking.recv()
            try:
                envelope = unpack(data, FROM_DAEMON, LARGEST_NEWS_BYTES)
            except OtherVersionError as error:
                self._fail(MessageRefusedError(f"the daemon {error}: restart the daemon"))
            except MalformedError:
                continue
            else:
                future = self._answers.get(envelope.number)
                if future is not None and not future.done():
                    future.set_result(envelope.body)

    def _fail(self, error: Exception) -> None:
        """Fail all requests that wait for an answer."""
        for future in self._answers.values():
            if not future.done():
                future.set_exception(error)

    def _listen(self, published: bytes) -> None:
        _, _, data = published.partition(TOPIC_END)
        with contextlib.suppress(MalformedError):
            self._take(self._hearing.take(unpack(data, FROM_DAEMON, LARGEST_NEWS_BYTES)))

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            if self._news.full():  # a slow process goes on with the newest news
                self._news.get_nowait()
            self._news.put_nowait(event)

    async def _beat(self, every_s: float) -> None:
        """Send heartbeats, and fetch the latest news if some were missed."""
        while True:
            await asyncio.sleep(every_s)
            answer = await self.ask(Heartbeat())
            if not isinstance(answer, Beaten) or not self._hearing.misses(answer):
                continue
            # News that are on their way arrive during this pause.
            await asyncio.sleep(min(1.0, every_s))
            if self._hearing.misses(answer):
                latest = await self.ask(LatestRequest())
                if isinstance(latest, Latest):
                    self._take(self._hearing.catch_up(latest))
