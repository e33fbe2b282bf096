"""The other end: how a controller or monitor reaches the daemon, over every interruption."""

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import zmq
import zmq.asyncio

from merkatd.bus.keys import Passport
from merkatd.bus.messages import (
    FROM_DAEMON,
    Beat,
    Beaten,
    Hello,
    Latest,
    Look,
    Measured,
    Refused,
    Welcome,
)
from merkatd.bus.wire import (
    LARGEST_NEWS_BYTES,
    TOPIC_END,
    Envelope,
    MalformedError,
    pack,
    topic_of,
    unpack,
)
from merkatd.platforms.ports import News

_ANSWER_S = 5.0
"""How long an answer may take before the same is asked again."""
_TRIES = 12
_WAITING = 100
_ID_BYTES = 12


class RefusedError(Exception):
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
        self._asking = self._socket(zmq.DEALER, passport.asking)
        self._listening = self._socket(zmq.SUB, passport.listening)
        self._listening.subscribe(topic_of(passport.platform))
        self._session = ""
        self._life = ""
        self._number = 0
        self._published = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._news: asyncio.Queue[News | Measured] = asyncio.Queue(_WAITING)
        self._greeting = asyncio.Lock()
        self.welcome: Welcome | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def _socket(self, kind: int, endpoint: str) -> zmq.asyncio.Socket:
        socket = self._context.socket(kind)
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
        self._tasks = [loop.create_task(self._hear()), loop.create_task(self._listen())]
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
            answer = await self._once(Envelope(body, session, self._next(), identity))
            if isinstance(answer, Refused) and answer.greet:
                await self._greet(session)
            elif isinstance(answer, Refused):
                raise RefusedError(answer.why)
            elif answer is not None:
                return answer
        raise LostError("the daemon does not answer")

    async def news(self) -> AsyncIterator[News | Measured]:
        """What is published for the platform, as it comes; where some was missed, the newest."""
        while True:
            yield await self._news.get()

    def waiting(self) -> News | Measured | None:
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

    async def _once(self, envelope: Envelope) -> Any:
        """The answer to a message, None where none comes in time."""
        future = asyncio.get_running_loop().create_future()
        self._answers[envelope.number] = future
        try:
            async with asyncio.timeout(self._answer_s):
                await self._asking.send(pack(envelope))
                return await future
        except TimeoutError:
            return None
        finally:
            self._answers.pop(envelope.number, None)

    async def _greet(self, stale: str) -> Welcome:
        """Open a new session, unless somebody has done so meanwhile."""
        async with self._greeting:
            if self.welcome is not None and self._session != stale:
                return self.welcome
            for _ in range(self._tries):
                hello = Hello(role=self._passport.role)
                answer = await self._once(Envelope(hello, number=self._next()))
                if isinstance(answer, Refused):
                    raise RefusedError(answer.why)
                if isinstance(answer, Welcome):
                    self._welcomed(answer)
                    return answer
        raise LostError("the daemon does not answer")

    def _welcomed(self, welcome: Welcome) -> None:
        first = self.welcome is None
        self.welcome = welcome
        self._session, self._life = welcome.session, welcome.life
        self._caught_up(None if first else welcome.news, welcome.published)

    async def _hear(self) -> None:
        async for envelope in _envelopes(self._asking.recv):
            future = self._answers.get(envelope.number)
            if future is not None and not future.done():
                future.set_result(envelope.body)

    async def _listen(self) -> None:
        async for envelope in _envelopes(self._published_bytes):
            body = envelope.body
            if envelope.session != self._life or envelope.number <= self._published:
                continue
            self._published = envelope.number
            if isinstance(body, News | Measured):
                self._take(body)

    async def _published_bytes(self) -> bytes:
        _, _, data = (await self._listening.recv()).partition(TOPIC_END)
        return data

    def _take(self, body: News | Measured) -> None:
        if self._news.full():  # whoever is slow gets on with the newest
            self._news.get_nowait()
        self._news.put_nowait(body)

    def _caught_up(self, news: News | None, published: int) -> None:
        if news is not None and published > self._published:
            self._take(news)
        self._published = published

    async def _beat(self, every_s: float) -> None:
        """Say that this end is here, and see whether something was missed."""
        while True:
            await asyncio.sleep(every_s)
            seen = self._published
            answer = await self.ask(Beat())
            # What is on its way now will have come by the next beat.
            if isinstance(answer, Beaten) and answer.published > max(seen, self._published):
                await asyncio.sleep(min(1.0, every_s))
                if answer.published > self._published:
                    latest = await self.ask(Look())
                    if isinstance(latest, Latest):
                        self._caught_up(latest.news, latest.published)


async def _envelopes(receive: Callable[[], Awaitable[bytes]]) -> AsyncIterator[Envelope]:
    while True:
        data = await receive()
        with contextlib.suppress(MalformedError):
            yield unpack(data, FROM_DAEMON, LARGEST_NEWS_BYTES)


def passport_of(text: str) -> Passport:
    """The passport that was handed over as this text; ValueError where it is none."""
    try:
        return Passport.read(text)
    except (TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"no passport: {error}") from None
