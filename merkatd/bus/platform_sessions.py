"""What the daemon's end keeps of each platform, market and session."""

import asyncio
from dataclasses import dataclass, field, replace

from merkatd.protocol.bus_messages import Latest
from merkatd.protocol.curve_keys import KeyPair
from merkatd.protocol.platform_messages import Assignment, MarketNow, PlatformStatus
from merkatd.protocol.wire_format import Envelope, Packed, PackedOnce, pack_body, pack_fields


class StaleError(Exception):
    """A message of no session that is open here: who sent it must say `Hello` again."""


class ReplayedError(Exception):
    """A message whose number was used before."""


@dataclass(slots=True)
class BusSession:
    """One process, from its `Hello` on."""

    token: str
    platform: int
    role: str
    route: bytes
    """Of its connection."""
    heard_s: float
    last: int = 0
    """The highest number so far."""

    def take(self, number: int) -> None:
        """Count a message in; ReplayedError where it is not a new one."""
        if number <= self.last:
            raise ReplayedError(f"number {number} came after {self.last}")
        self.last = number


class BusSessions:
    """All that are open: at most one for each role of a platform."""

    def __init__(self) -> None:
        self._by_token: dict[str, BusSession] = {}
        self._by_role: dict[tuple[int, str], BusSession] = {}

    def open(self, session: BusSession) -> None:
        """The newest process of a role has it; the one before is heard no more."""
        role = (session.platform, session.role)
        before = self._by_role.pop(role, None)
        if before is not None:
            del self._by_token[before.token]
        self._by_role[role] = self._by_token[session.token] = session

    def find(self, token: str, platform: int, route: bytes) -> BusSession:
        """The session of a message that came this way; StaleError where there is none such."""
        session = self._by_token.get(token)
        # A token is worth nothing to other platforms, nor on another connection.
        if session is None or session.platform != platform or session.route != route:
            raise StaleError("no such session of yours is open here")
        return session

    def heard_s(self, platform: int, role: str) -> float | None:
        """When this process was last heard, None where it has no session."""
        session = self.of(platform, role)
        return None if session is None else session.heard_s

    def of(self, platform: int, role: str) -> BusSession | None:
        """The session of this process, None where it has none."""
        return self._by_role.get((platform, role))

    def close(self, platform: int) -> None:
        """Close all of a platform."""
        for role in [one for one in self._by_role if one[0] == platform]:
            del self._by_token[self._by_role.pop(role).token]


@dataclass
class MarketChannel:
    """Of a market: what everybody in it was told last."""

    now: MarketNow | None = None
    published: int = 0
    """Publications up to now."""
    _once: PackedOnce = field(default_factory=PackedOnce, repr=False)

    def packed(self) -> Packed:
        """Return the JSON of `now`."""
        return self._once.pack(self.now)


@dataclass
class PlatformChannel:
    """Of a platform: who may speak for it, what it waits for, what it was told last."""

    assignment: Assignment
    roles: frozenset[str]
    keys: KeyPair
    waiting: "asyncio.Queue[str]"
    """Keys of what is asked for, oldest first."""
    board: MarketChannel
    """Of its market."""
    standing: PlatformStatus | None = None
    published: int = 0
    """Publications up to now."""
    asked: dict[str, tuple[BusSession, Envelope]] = field(default_factory=dict)
    """By key: what waits, or is being done, as it was said last."""
    task: "asyncio.Task[None] | None" = field(default=None, repr=False)

    _standing_once: PackedOnce = field(default_factory=PackedOnce, repr=False)
    _assigned: tuple[Assignment, PlatformStatus | None, Packed] | None = field(
        default=None, repr=False
    )

    def packed(self) -> Packed:
        """Return the JSON of `standing`."""
        return self._standing_once.pack(self.standing)

    def latest(self) -> Packed:
        """Return the `Latest`: of a thousand VMs it is packed once a period, not at each look."""
        return pack_fields(
            Latest,
            market=self.board.packed(),
            standing=self.packed(),
            published=self.published,
            priced=self.board.published,
        )

    def assigned(self) -> Packed:
        """Return the JSON of `assignment_now`, which can hold a long memory."""
        known = self._assigned
        if known is None or known[0] is not self.assignment or known[1] is not self.standing:
            known = self.assignment, self.standing, pack_body(self.assignment_now())
            self._assigned = known
        return known[2]

    def assignment_now(self) -> Assignment:
        """With what the tenant has changed since the platform was admitted."""
        now = self.standing
        if now is None:
            return self.assignment
        return replace(
            self.assignment,
            deadline_s=now.deadline_s,
            performance=now.performance,
            budget=now.budget,
            replenishment=now.replenishment,
        )
