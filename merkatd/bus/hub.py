"""The daemon's end: takes what processes ask for, and publishes to each platform its own news."""

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from merkatd.bus.door import Door, Heard
from merkatd.bus.keys import KeyPair, Passport, fresh
from merkatd.bus.messages import (
    TO_DAEMON,
    Beat,
    Beaten,
    Hello,
    Kept,
    Latest,
    Look,
    Measured,
    Refused,
    Remember,
    Welcome,
)
from merkatd.bus.sessions import ReplayedError, Session, Sessions, StaleError
from merkatd.bus.settings import Settings
from merkatd.bus.throttle import Throttle
from merkatd.bus.wire import Envelope, MalformedError, pack, unpack
from merkatd.platforms.ports import Assignment, Attendant, News

_log = Logger()

_TOKEN_BYTES = 16
_WAITING = 16
"""What one platform may have asked for without having been answered."""
_WARNINGS_PER_S, _WARNINGS_AT_ONCE = 0.1, 5.0


@dataclass
class _Desk:
    """What is kept for one platform."""

    assignment: Assignment
    roles: frozenset[str]
    keys: KeyPair
    waiting: "asyncio.Queue[tuple[Session, Envelope]]"
    news: News | None = None
    published: int = 0
    task: "asyncio.Task[None] | None" = field(default=None, repr=False)


class Hub:
    """One for a daemon; everything it does is done on the event loop and waits for no peer."""

    def __init__(
        self, keys: KeyPair, attendant: Attendant, now: Callable[[], float], settings: Settings
    ) -> None:
        self._attendant = attendant
        self._now = now
        self._settings = settings
        self._life = secrets.token_hex(_TOKEN_BYTES)
        self._keys = keys
        self._desks: dict[int, _Desk] = {}
        self._sessions = Sessions()
        self._rates = Throttle(now, settings.messages, settings.messages_at_once)
        self._warnings = Throttle(now, _WARNINGS_PER_S, _WARNINGS_AT_ONCE)
        self._door = Door(keys, settings.endpoint, self._warnings, self._heard)

    def admit(self, assignment: Assignment, roles: frozenset[str]) -> None:
        """Let processes of these roles speak for a platform; it gets new keys."""
        self.dismiss(assignment.platform)
        desk = _Desk(assignment, roles, fresh(), asyncio.Queue(_WAITING))
        desk.task = asyncio.get_running_loop().create_task(self._serve(desk))
        self._desks[assignment.platform] = desk
        self._door.allowing.allow(desk.keys.public, assignment.platform)

    def passport(self, platform: int, role: str) -> Passport:
        """What a process of an admitted platform needs to connect."""
        desk = self._desks[platform]
        return Passport(
            asking=self._door.asking,
            listening=self._door.listening,
            daemon=self._keys.public,
            platform=platform,
            role=role,
            public=desk.keys.public,
            secret=desk.keys.secret,
        )

    def dismiss(self, platform: int) -> None:
        """Hear a platform's processes no more."""
        desk = self._desks.pop(platform, None)
        if desk is not None:
            self._door.allowing.forbid(desk.keys.public)
            self._sessions.close(platform)
            self._rates.forget(platform)
            self._warnings.forget(platform)
            if desk.task is not None:
                desk.task.cancel()

    def heard_s(self, platform: int, role: str) -> float | None:
        """When a process was last heard, None where it has not said `Hello` yet."""
        return self._sessions.heard_s(platform, role)

    def announce(self, news: News) -> None:
        """Tell a platform's processes the news; who comes later is told the last."""
        desk = self._desks.get(news.platform)
        if desk is not None:
            desk.news = news
            self._publish(desk, news)

    def close(self) -> None:
        """End at once; who is connected comes back when there is a daemon again."""
        for platform in list(self._desks):
            self.dismiss(platform)
        self._door.close()

    def _publish(self, desk: _Desk, body: News | Measured) -> None:
        desk.published += 1
        data = pack(Envelope(body, self._life, desk.published))
        self._door.publish(desk.assignment.platform, data)

    async def _heard(self, heard: Heard) -> None:
        """Judge one message: answer it, pass it on, or refuse it."""
        if not self._rates.allows(heard.platform):
            self._warn(heard.platform, "too many messages")
            return
        try:
            envelope = unpack(heard.data, TO_DAEMON)
        except MalformedError as error:
            await self._refuse(heard, Envelope(None), str(error))
            return
        if isinstance(envelope.body, Hello):
            await self._greet(heard, envelope, envelope.body)
            return
        try:
            session = self._sessions.find(envelope.session, heard.platform, heard.route)
            session.take(envelope.number)
        except StaleError as error:
            await self._refuse(heard, envelope, str(error), greet=True)
        except ReplayedError as error:
            await self._refuse(heard, envelope, f"replayed: {error}")
        else:
            session.heard_s = self._now()
            await self._pass(session, envelope)

    async def _greet(self, heard: Heard, envelope: Envelope, hello: Hello) -> None:
        desk = self._desks[heard.platform]
        if hello.role not in desk.roles:
            await self._refuse(heard, envelope, f"has no process {hello.role[:40]!r}")
            return
        token = secrets.token_hex(_TOKEN_BYTES)
        session = Session(token, heard.platform, hello.role, heard.route, self._now())
        self._sessions.open(session)
        welcome = Welcome(
            session=token,
            life=self._life,
            beat_s=self._settings.beat_s,
            assignment=desk.assignment,
            news=desk.news,
            published=desk.published,
        )
        await self._answer(session, envelope, welcome)

    async def _pass(self, session: Session, envelope: Envelope) -> None:
        desk = self._desks[session.platform]
        match envelope.body:
            case Beat():
                await self._answer(session, envelope, Beaten(published=desk.published))
            case Look():
                latest = Latest(news=desk.news, published=desk.published)
                await self._answer(session, envelope, latest)
            case Measured() as measured:
                self._publish(desk, measured)
                await self._answer(session, envelope, Kept())
            case _:
                await self._queue(desk, session, envelope)

    async def _queue(self, desk: _Desk, session: Session, envelope: Envelope) -> None:
        if not isinstance(envelope.body, Remember) and not envelope.id:
            await self._answer(session, envelope, Refused(why="an action needs an id"))
            return
        try:
            desk.waiting.put_nowait((session, envelope))
        except asyncio.QueueFull:
            why = f"{_WAITING} wait already: wait for answers"
            await self._answer(session, envelope, Refused(why=why))

    async def _serve(self, desk: _Desk) -> None:
        """Bring one platform's wishes to the attendant, one after the other."""
        while True:
            session, envelope = await desk.waiting.get()
            try:
                answer = await self._done(desk, envelope)
            except Exception:  # noqa: BLE001 - the process is told, and asks again
                _log.failure(
                    "What platform {platform} asked for was not done", platform=session.platform
                )
                answer = Refused(why="failed here; ask again")
            await self._answer(session, envelope, answer)

    async def _done(self, desk: _Desk, envelope: Envelope) -> Any:
        platform = desk.assignment.platform
        if isinstance(envelope.body, Remember):
            await _finished(self._attendant.remember(platform, envelope.body.memory))
            desk.assignment = replace(desk.assignment, memory=envelope.body.memory)
            return Kept()
        return await _finished(self._attendant.act(platform, envelope.id, envelope.body))

    async def _answer(self, session: Session, to: Envelope, body: Any) -> None:
        data = pack(Envelope(body, session.token, to.number, to.id))
        await self._door.answer(session.route, data)

    async def _refuse(
        self, heard: Heard, envelope: Envelope, why: str, *, greet: bool = False
    ) -> None:
        self._warn(heard.platform, why)
        refused = Refused(why=why, greet=greet)
        data = pack(Envelope(refused, envelope.session, envelope.number, envelope.id))
        await self._door.answer(heard.route, data)

    def _warn(self, platform: int, why: str) -> None:
        if self._warnings.allows(("refused", platform)):
            _log.warn(
                "Refused on the bus, from platform {platform}: {why}", platform=platform, why=why
            )


async def _finished(work: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine of Twisted's kind comes to, for one of asyncio's."""
    loop = asyncio.get_running_loop()
    return await asyncio.shield(ensureDeferred(work).asFuture(loop))
