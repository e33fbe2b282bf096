"""What the daemon's end keeps for each platform, and for each market."""

import asyncio
from dataclasses import dataclass, field, replace

from merkatd.bus.keys import KeyPair
from merkatd.bus.messages import Latest
from merkatd.bus.sessions import Session
from merkatd.bus.wire import Envelope, Once, Packed, pack_body, pack_fields
from merkatd.platforms.ports import Assignment, MarketNow, Standing


@dataclass
class Board:
    """Of a market: what everybody in it was told last."""

    now: MarketNow | None = None
    published: int = 0
    """Publications up to now."""
    _once: Once = field(default_factory=Once, repr=False)

    def packed(self) -> Packed:
        """Return the JSON of `now`."""
        return self._once.pack(self.now)


@dataclass
class Desk:
    """Of a platform: who may speak for it, what it waits for, what it was told last."""

    assignment: Assignment
    roles: frozenset[str]
    keys: KeyPair
    waiting: "asyncio.Queue[str]"
    """Keys of what is asked for, oldest first."""
    board: Board
    """Of its market."""
    standing: Standing | None = None
    published: int = 0
    """Publications up to now."""
    asked: dict[str, tuple[Session, Envelope]] = field(default_factory=dict)
    """By key: what waits, or is being done, as it was said last."""
    task: "asyncio.Task[None] | None" = field(default=None, repr=False)

    _standing_once: Once = field(default_factory=Once, repr=False)
    _assigned: tuple[Assignment, Standing | None, Packed] | None = field(default=None, repr=False)

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
