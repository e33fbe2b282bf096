"""The daemon's state of each platform, market and session on the bus."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from merkatd.protocol.bus_messages import Latest, Measured
from merkatd.protocol.curve_keys import KeyPair
from merkatd.protocol.measurement_names import KEPT, MADE, MOST
from merkatd.protocol.platform_messages import (
    Assignment,
    MarketNow,
    MonitorReading,
    PlatformStatus,
    Readings,
)
from merkatd.protocol.wire_format import Envelope, Packed, PackedOnce, pack_body, pack_fields


class StaleError(Exception):
    """A message outside any open session: its sender must send `Hello` again."""


class ReplayedError(Exception):
    """A message whose number was already used."""


@dataclass(slots=True)
class BusSession:
    """The session of one process, opened by its `Hello`."""

    token: str
    platform: int
    role: str
    route: bytes
    """The ZeroMQ identity of the process's connection."""
    heard_s: float
    last: int = 0
    """The highest message number so far."""

    def take(self, number: int) -> None:
        """Accept a message number; raise ReplayedError if it is not higher than all before."""
        if number <= self.last:
            raise ReplayedError(f"its number must be above {self.last} (got {number})")
        self.last = number


class BusSessions:
    """The open sessions: at most one for each role of a platform."""

    def __init__(self) -> None:
        self._by_token: dict[str, BusSession] = {}
        self._by_role: dict[tuple[int, str], BusSession] = {}

    def open(self, session: BusSession) -> None:
        """Add a session; it replaces the session of the previous process of this role."""
        role = (session.platform, session.role)
        before = self._by_role.pop(role, None)
        if before is not None:
            del self._by_token[before.token]
        self._by_role[role] = self._by_token[session.token] = session

    def find(self, token: str, platform: int, route: bytes) -> BusSession:
        """Return the session of a message; raise StaleError if it is not open."""
        session = self._by_token.get(token)
        # A token is valid only for its own platform and connection.
        if session is None or session.platform != platform or session.route != route:
            raise StaleError("the platform has no such session on this connection")
        return session

    def heard_s(self, platform: int, role: str) -> float | None:
        """Return when a process last sent a message; None if it has no session."""
        session = self.of(platform, role)
        return None if session is None else session.heard_s

    def of(self, platform: int, role: str) -> BusSession | None:
        """Return the session of a process; None if it has none."""
        return self._by_role.get((platform, role))

    def close(self, platform: int) -> None:
        """Close all sessions of a platform."""
        for role in [key for key in self._by_role if key[0] == platform]:
            del self._by_token[self._by_role.pop(role).token]


@dataclass
class MarketChannel:
    """The latest publication for all processes of a market."""

    now: MarketNow | None = None
    published: int = 0
    """The number of publications so far."""
    _once: PackedOnce = field(default_factory=PackedOnce, repr=False)

    def packed(self) -> Packed:
        """Return the JSON of `now`."""
        return self._once.pack(self.now)


@dataclass
class PlatformChannel:
    """The roles, the waiting requests and the latest publication of one platform."""

    assignment: Assignment
    roles: frozenset[str]
    keys: KeyPair
    waiting: "asyncio.Queue[str]"
    """Keys of the requests, oldest first."""
    board: MarketChannel
    """The channel of the platform's market."""
    standing: PlatformStatus | None = None
    published: int = 0
    """The number of publications so far."""
    asked: dict[str, tuple[BusSession, Envelope]] = field(default_factory=dict)
    """Requests that wait or are being carried out, by key, each with its latest session."""
    measured: Mapping[str, tuple[float, Mapping[str, float]]] = field(default_factory=dict)
    """By cluster: when its monitor measured last, and the values that the daemon reads."""
    failing: bool = False
    """Whether the daemon failed to carry out the latest request, through no fault of it."""
    task: "asyncio.Task[None] | None" = field(default=None, repr=False)

    _standing_once: PackedOnce = field(default_factory=PackedOnce, repr=False)
    _assigned: tuple[Assignment, PlatformStatus | None, Packed] | None = field(
        default=None, repr=False
    )

    def keep(self, measured: Measured, now_s: float) -> None:
        """Keep the values of a monitor that the daemon reads, if the cluster exists.

        Of VMs, it keeps those of the cluster's own VMs in the latest news.
        """
        if any(cluster.name == measured.cluster for cluster in self.assignment.clusters):
            vms = () if self.standing is None else self.standing.vms
            names = KEPT | {f"{MADE}{vm.vm}" for vm in vms if vm.cluster == measured.cluster}
            kept = {
                name: value
                for name, value in measured.values.items()
                if name in names and 0.0 <= value <= MOST
            }
            # A new dictionary: other threads may read the old one.
            self.measured = {**self.measured, measured.cluster: (now_s, kept)}

    def readings(self, now_s: float) -> Readings:
        """Return the kept values by cluster."""
        return {
            cluster: MonitorReading(now_s - at_s, values)
            for cluster, (at_s, values) in self.measured.items()
        }

    def packed(self) -> Packed:
        """Return the JSON of `standing`."""
        return self._standing_once.pack(self.standing)

    def latest(self) -> Packed:
        """Return the JSON of `Latest`, which for a thousand VMs is encoded once a period only."""
        return pack_fields(
            Latest,
            market=self.board.packed(),
            standing=self.packed(),
            published=self.published,
            priced=self.board.published,
        )

    def assigned(self) -> Packed:
        """Return the JSON of `assignment_now`, encoded once since its memory may be long."""
        known = self._assigned
        if known is None or known[0] is not self.assignment or known[1] is not self.standing:
            known = self.assignment, self.standing, pack_body(self.assignment_now())
            self._assigned = known
        return known[2]

    def assignment_now(self) -> Assignment:
        """Return the assignment with the tenant's changes since the platform was admitted."""
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
