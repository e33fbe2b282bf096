"""The daemon's end of the bus: requests from platforms' processes, and published news."""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from merkatd.base.rate_limit import NamedRateLimits
from merkatd.bus.daemon_sockets import DaemonSockets, ReceivedMessage
from merkatd.bus.guarded_tasks import Tasks
from merkatd.bus.platform_sessions import (
    BusSession,
    BusSessions,
    MarketChannel,
    PlatformChannel,
    ReplayedError,
    StaleError,
)
from merkatd.bus.settings import BusSettings
from merkatd.protocol.bus_messages import (
    TO_DAEMON,
    Beaten,
    Heartbeat,
    Hello,
    LatestRequest,
    Measured,
    Refused,
    Remember,
    Stored,
    Welcome,
)
from merkatd.protocol.controller_kinds import CONTROLLER
from merkatd.protocol.curve_keys import KeyPair, Passport, fresh
from merkatd.protocol.platform_messages import (
    ActionReceiver,
    Assignment,
    MarketNow,
    PlatformStatus,
    Readings,
)
from merkatd.protocol.wire_format import (
    Envelope,
    MalformedError,
    Packed,
    head_of,
    largest_bytes,
    market_topic,
    pack,
    pack_fields,
    topic_of,
    unpack,
)

_log = Logger()

_TOKEN_BYTES = 16
_WAITING = 16
"""Unanswered requests that one platform may have."""
_AT_ONCE, _PAUSE_S = 25, 0.02
"""Platform news published in a row, and the pause before each such batch."""
_WARNINGS_PER_S, _WARNINGS_AT_ONCE = 0.1, 5.0


class Hub:
    """The daemon's only hub; it works on the event loop and never waits for a peer."""

    def __init__(
        self,
        keys: KeyPair,
        attendant: ActionReceiver,
        now: Callable[[], float],
        settings: BusSettings,
        greeted: Callable[[int, str], None] = lambda *_: None,
    ) -> None:
        """Open the bus. `greeted` is called with the platform and role of each new `Hello`."""
        self._attendant = attendant
        self._greeted = greeted
        self._now = now
        self._settings = settings
        self._life = secrets.token_hex(_TOKEN_BYTES)
        self._keys = keys
        self._desks: dict[int, PlatformChannel] = {}
        self._boards: dict[str, MarketChannel] = {}
        self._unsaid: dict[int, PlatformStatus] = {}
        self._saying: asyncio.Handle | None = None
        self._sessions = BusSessions()
        self.tasks = Tasks()
        self._rates = NamedRateLimits(now, settings.messages, settings.messages_at_once)
        self._traffic = NamedRateLimits(
            now, settings.traffic_mib * 2**20, settings.traffic_at_once_mib * 2**20
        )
        self._warnings = NamedRateLimits(now, _WARNINGS_PER_S, _WARNINGS_AT_ONCE)
        self._door = DaemonSockets(
            keys, settings.endpoint, self._warnings, self._heard, self._topics, self.tasks
        )

    def admit(self, assignment: Assignment, roles: frozenset[str]) -> None:
        """Accept processes of these roles for a platform, which gets a new key pair."""
        self.dismiss(assignment.platform)
        board = self._boards.setdefault(assignment.market, MarketChannel())
        desk = PlatformChannel(assignment, roles, fresh(), asyncio.Queue(_WAITING), board)
        name = f"server of platform {assignment.platform}"
        desk.task = self.tasks.start(name, partial(self._serve, desk))
        self._desks[assignment.platform] = desk
        self._door.allowing.allow(desk.keys.public, assignment.platform)

    def passport(self, platform: int, role: str) -> Passport:
        """Return the passport that a process of an admitted platform needs to connect."""
        desk = self._desks[platform]
        return Passport(
            asking=self._door.asking,
            listening=self._door.listening,
            daemon=self._keys.public,
            platform=platform,
            market=desk.assignment.market,
            role=role,
            public=desk.keys.public,
            secret=desk.keys.secret,
        )

    def dismiss(self, platform: int) -> None:
        """Stop accepting messages of a platform's processes."""
        desk = self._desks.pop(platform, None)
        if desk is not None:
            self._door.allowing.forbid(desk.keys.public)
            self._sessions.close(platform)
            self._rates.forget(platform)
            self._traffic.forget(platform)
            self._door.forget(platform)
            self._warnings.forget(_refused(platform))
            if desk.task is not None:
                desk.task.cancel()

    def heard_s(self, platform: int, role: str) -> float | None:
        """Return when a process last sent a message, or None before its first `Hello`."""
        return self._sessions.heard_s(platform, role)

    def readings(self, platform: int) -> Readings:
        """Return the newest measurements of a platform's monitors, by cluster."""
        desk = self._desks.get(platform)
        return {} if desk is None else desk.readings(self._now())

    def is_failing(self, platform: int) -> bool:
        """Return whether the daemon failed to carry out the platform's latest request."""
        desk = self._desks.get(platform)
        return desk is not None and desk.failing

    def announce(self, markets: Iterable[MarketNow], standings: Iterable[PlatformStatus]) -> None:
        """Publish the prices of each market, then the news of each platform.

        Prices are encoded once per market and sent at once to all its processes. Platform news
        follow in small batches: hundreds of processes on few cores read the price first, and the
        event loop is never blocked for long. Processes that connect later get the latest news.
        """
        for market in markets:
            board = self._boards.setdefault(market.name, MarketChannel())
            board.now, board.published = market, board.published + 1
            data = pack(Envelope(board.packed(), self._life, board.published))
            self._door.publish(market_topic(market.name), data)
        for standing in standings:
            self._unsaid.pop(standing.platform, None)
            self._unsaid[standing.platform] = standing
        if self._saying is None and self._unsaid:
            self._say_later()

    def _say_later(self) -> None:
        self._saying = asyncio.get_running_loop().call_later(_PAUSE_S, self._say)

    def _say(self) -> None:
        """Publish the news of the next few platforms, and schedule the rest."""
        self._saying = None
        for platform in list(self._unsaid)[:_AT_ONCE]:
            try:
                self._say_now(platform)
            except Exception:  # noqa: BLE001 - a failure of one platform must not stop the others
                _log.failure("Could not send the news of platform {platform}", platform=platform)
        if self._unsaid:
            self._say_later()

    def close(self) -> None:
        """Close the bus at once; its peers reconnect when a daemon runs again."""
        if self._saying is not None:
            self._saying.cancel()
        for platform in list(self._desks):
            self.dismiss(platform)
        self._door.close()

    def _say_now(self, platform: int) -> None:
        standing, desk = self._unsaid.pop(platform, None), self._desks.get(platform)
        if standing is not None and desk is not None:
            desk.standing = standing
            self._publish(desk, desk.packed())

    def _publish(self, desk: PlatformChannel, body: Packed | Measured) -> None:
        desk.published += 1
        data = pack(Envelope(body, self._life, desk.published))
        self._door.publish(topic_of(desk.assignment.platform), data)

    def _topics(self, platform: int) -> tuple[bytes, ...]:
        desk = self._desks.get(platform)
        return () if desk is None else (topic_of(platform), market_topic(desk.assignment.market))

    async def _heard(self, heard: ReceivedMessage) -> None:
        """Answer one message, forward it, or refuse it."""
        if not self._rates.allows(heard.platform):
            self._warn(heard.platform, "too many messages")
            return
        if not self._traffic.allows(heard.platform):
            self._warn(heard.platform, "too many bytes, sent and received together")
            return
        self._traffic.spend(heard.platform, len(heard.data))
        try:
            most = largest_bytes(self._desks[heard.platform].assignment.most_vms)
            envelope = unpack(heard.data, TO_DAEMON, most)
        except MalformedError as error:
            await self._refuse(heard, head_of(heard.data), str(error))
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
            await self._refuse(heard, envelope, f"replayed message: {error}")
        else:
            session.heard_s = self._now()
            await self._pass(session, envelope)

    async def _greet(self, heard: ReceivedMessage, envelope: Envelope, hello: Hello) -> None:
        desk = self._desks[heard.platform]
        if hello.role not in desk.roles:
            await self._refuse(heard, envelope, f"the platform has no process {hello.role[:40]!r}")
            return
        self._say_now(heard.platform)
        session = self._sessions.of(heard.platform, hello.role)
        if session is None or session.route != heard.route:
            token = secrets.token_hex(_TOKEN_BYTES)
            session = BusSession(token, heard.platform, hello.role, heard.route, self._now())
            self._sessions.open(session)
            if hello.role == CONTROLLER:
                desk.failing = False  # of this process nothing has failed yet
        # A second `Hello` on the same connection is a retry: the open session stays valid.
        session.heard_s = self._now()
        welcome = pack_fields(
            Welcome,
            session=session.token,
            life=self._life,
            beat_s=self._settings.beat_s,
            assignment=desk.assigned(),
            latest=desk.latest(),
        )
        await self._answer(session, envelope, welcome)
        self._greeted(heard.platform, hello.role)

    async def _pass(self, session: BusSession, envelope: Envelope) -> None:
        desk = self._desks[session.platform]
        match envelope.body:
            case Heartbeat():
                beaten = Beaten(published=desk.published, priced=desk.board.published)
                await self._answer(session, envelope, beaten)
            case LatestRequest():
                self._say_now(session.platform)
                await self._answer(session, envelope, desk.latest())
            case Measured() as measured:
                desk.keep(measured, self._now())
                self._publish(desk, measured)
                await self._answer(session, envelope, Stored())
            case _:
                await self._queue(desk, session, envelope)

    async def _queue(self, desk: PlatformChannel, session: BusSession, envelope: Envelope) -> None:
        if not isinstance(envelope.body, Remember) and not envelope.id:
            await self._answer(session, envelope, Refused(why="an action needs an id"))
            return
        key = envelope.id or f"{session.token}/{envelope.number}"
        asked_before = key in desk.asked
        # A repeated request waits for the answer to the first, sent to the latest session.
        desk.asked[key] = session, envelope
        if asked_before:
            return
        try:
            desk.waiting.put_nowait(key)
        except asyncio.QueueFull:
            del desk.asked[key]
            why = f"{_WAITING} requests are waiting already: wait for their answers"
            await self._answer(session, envelope, Refused(why=why))

    async def _serve(self, channel: PlatformChannel) -> None:
        """Pass one platform's requests to the action receiver, one after the other."""
        platform = channel.assignment.platform
        while True:
            key = await channel.waiting.get()
            try:
                answer = await self._done(channel, channel.asked[key][1])
                channel.failing = False
            except Exception as error:  # noqa: BLE001 - the process gets `Refused` and retries
                # `remember` raises ValueError for a memory that no retry would store.
                channel.failing = not isinstance(error, ValueError)
                _log.failure("A request of platform {platform} failed", platform=platform)
                answer = Refused(why="the request failed in the daemon; try again")
            finally:
                # Even if the answer can't be sent: the process may retry.
                asked = channel.asked.pop(key)
            await self._answer(*asked, answer)

    async def _done(self, desk: PlatformChannel, envelope: Envelope) -> Any:
        platform = desk.assignment.platform
        if isinstance(envelope.body, Remember):
            await _finished(self._attendant.remember(platform, envelope.body.memory))
            desk.assignment = replace(desk.assignment, memory=envelope.body.memory)
            return Stored()
        return await _finished(self._attendant.act(platform, envelope.id, envelope.body))

    async def _answer(self, session: BusSession, to: Envelope, body: Any) -> None:
        data = pack(Envelope(body, session.token, to.number, to.id))
        self._traffic.spend(session.platform, len(data))
        await self._door.answer(session.route, data)

    async def _refuse(
        self, heard: ReceivedMessage, envelope: Envelope, why: str, *, greet: bool = False
    ) -> None:
        self._warn(heard.platform, why)
        refused = Refused(why=why, greet=greet)
        data = pack(Envelope(refused, envelope.session, envelope.number, envelope.id))
        await self._door.answer(heard.route, data)

    def _warn(self, platform: int, why: str) -> None:
        if self._warnings.allows(_refused(platform)):
            _log.warn(
                "Refused a bus message of platform {platform}: {why}", platform=platform, why=why
            )


def _refused(platform: int) -> object:
    """Return the rate limit key for warnings about refused messages."""
    return "refused", platform


async def _finished(work: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine written for Twisted, awaited from asyncio."""
    loop = asyncio.get_running_loop()
    return await asyncio.shield(ensureDeferred(work).asFuture(loop))
