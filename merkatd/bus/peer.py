"""The other end: a controller's or monitor's."""

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
"""How long an answer may take before the same is asked again."""
_TRIES = 12
_WAITING = 100
_ID_BYTES = 12
"""The role of who looks after a platform; its monitors have others."""


class MessageRefusedError(Exception):
    """The daemon did not take a message; the text says why."""


class LostError(Exception):
    """The daemon does not answer any more."""


class Peer:
    """A session with the daemon, opened anew as often as needed."""

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
        """Greet the daemon; LostError where it does not answer, RefusedError where it won't."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._hear())]
        welcome = await self._greet("")
        self._tasks.append(loop.create_task(self._beat(welcome.beat_s)))
        return welcome

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """The answer to a message, asked for until it comes.

        An action keeps its id however often it is said: it is done once.
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
        raise LostError("no session with the daemon lasts")

    async def news(self) -> AsyncIterator[Event]:
        """What is published for this process, as it comes; where some was missed, the newest."""
        while True:
            yield await self._news.get()

    @property
    def market(self) -> MarketNow | None:
        """As it was announced last."""
        return self._hearing.market

    def waiting(self) -> Event | None:
        """What has come and was not taken yet, if anything."""
        return None if self._news.empty() else self._news.get_nowait()

    async def close(self) -> None:
        """Let go."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._asking.close()
        self._listening.close()
        if self._own_context:
            self._context.term()

    async def lost(self) -> None:
        """Return when the daemon is gone for good."""
        await asyncio.gather(*self._tasks)

    def _next(self) -> int:
        self._number += 1
        return self._number

    async def _answered(self, envelope: Envelope) -> Any:
        """The answer to a message, which is said until there is one. Raises LostError.

        Whichever of them is answered, and however late: a daemon that takes longer for an answer
        than one is waited for would else be asked anew each time, and never heard.
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
        """The bytes of a message. Raises RefusedError where the daemon would not take so many."""
        data = pack(envelope)
        most = largest_bytes(0 if self.welcome is None else self.welcome.assignment.most_vms)
        if len(data) > most:
            raise MessageRefusedError(f"{len(data)} bytes are more than the {most} that are taken")
        return data

    async def _greet(self, stale: str) -> Welcome:
        """Open a new session, unless somebody has done so meanwhile."""
        async with self._greeting:
            if self.welcome is not None and self._session != stale:
                return self.welcome
            answer = await self._answered(Envelope(Hello(role=self._passport.role)))
            if not isinstance(answer, Welcome):
                raise MessageRefusedError(getattr(answer, "why", "greeted with something else"))
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
                self._fail(MessageRefusedError(f"the daemon {error}: it is to be restarted"))
            except MalformedError:
                continue
            else:
                future = self._answers.get(envelope.number)
                if future is not None and not future.done():
                    future.set_result(envelope.body)

    def _fail(self, error: Exception) -> None:
        """Nothing that was asked will be answered."""
        for future in self._answers.values():
            if not future.done():
                future.set_exception(error)

    def _listen(self, published: bytes) -> None:
        _, _, data = published.partition(TOPIC_END)
        with contextlib.suppress(MalformedError):
            self._take(self._hearing.take(unpack(data, FROM_DAEMON, LARGEST_NEWS_BYTES)))

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            if self._news.full():  # whoever is slow gets on with the newest
                self._news.get_nowait()
            self._news.put_nowait(event)

    async def _beat(self, every_s: float) -> None:
        """Say that this end is here, and see whether something was missed."""
        while True:
            await asyncio.sleep(every_s)
            answer = await self.ask(Heartbeat())
            if not isinstance(answer, Beaten) or not self._hearing.misses(answer):
                continue
            # What is on its way now will have come by then.
            await asyncio.sleep(min(1.0, every_s))
            if self._hearing.misses(answer):
                latest = await self.ask(LatestRequest())
                if isinstance(latest, Latest):
                    self._take(self._hearing.catch_up(latest))
