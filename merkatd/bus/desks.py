"""What the daemon's end keeps for each platform, and for each market."""

import asyncio
from dataclasses import dataclass, field, replace

from merkatd.bus.keys import KeyPair
from merkatd.bus.messages import Latest
from merkatd.bus.sessions import Session
from merkatd.bus.wire import Envelope
from merkatd.platforms.ports import Assignment, MarketNow, Standing


@dataclass
class Board:
    """Of a market: what everybody in it was told last."""

    now: MarketNow | None = None
    published: int = 0
    """Publications up to now."""


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

    def latest(self) -> Latest:
        """What was published last, for who missed it."""
        return Latest(
            market=self.board.now,
            standing=self.standing,
            published=self.published,
            priced=self.board.published,
        )

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
