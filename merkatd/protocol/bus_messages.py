"""What is said on the bus, by kind. What controllers ask for and are told stands in the ports.

`VERSION` rises whenever a message changes; who speaks another version is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from merkatd.protocol import platform_messages

VERSION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first word of a process: opens a session."""

    role: str
    """Its name among the processes of its platform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Still here; answered with `Beaten`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestRequest:
    """The latest news, please: some was missed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remember:
    """Keep this, and hand it to whoever comes after me."""

    memory: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a monitor saw; the daemon passes it on to the platform's controller."""

    cluster: str
    at_s: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beaten:
    """The daemon is here too, and these were its last publications."""

    published: int
    """For the platform,"""
    priced: int
    """and for its market."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest:
    """The answer to `Look`: what was published last, and under which numbers."""

    market: platform_messages.MarketNow | None
    standing: platform_messages.PlatformStatus | None
    published: int
    priced: int

    @property
    def news(self) -> platform_messages.News | None:
        """Both together, where both are there."""
        return news_of(self.market, self.standing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """A session is open; its messages are numbered from 1."""

    session: str
    life: str
    """Of the daemon: what is published carries it."""
    beat_s: float
    """So often a `Beat` is expected."""
    assignment: platform_messages.Assignment
    latest: Latest


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The answer to `Remember` and `Measured`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A message was not taken."""

    why: str
    greet: bool = False
    """Whether the session is unknown here: say `Hello`, and it can be said again."""


def news_of(
    market: platform_messages.MarketNow | None, standing: platform_messages.PlatformStatus | None
) -> platform_messages.News | None:
    """What both parts of a period's news say together; None while they are not of one period."""
    if market is None or standing is None or market.period != standing.period:
        return None
    return platform_messages.News.joined(standing, market)


Action = (
    platform_messages.SetBids
    | platform_messages.SetSize
    | platform_messages.Claim
    | platform_messages.SuspendPlatform
    | platform_messages.WorkDone
    | platform_messages.GiveUp
    | platform_messages.ProgressReport
)
Said = Hello | Heartbeat | LatestRequest | Remember | Measured | Action
Published = platform_messages.MarketNow | platform_messages.PlatformStatus | Measured
Heard = Welcome | Beaten | Latest | Stored | Refused | platform_messages.ActionOutcome | Published

ACTIONS: dict[str, type] = {
    "set_bids": platform_messages.SetBids,
    "set_size": platform_messages.SetSize,
    "claim": platform_messages.Claim,
    "suspend": platform_messages.SuspendPlatform,
    "done": platform_messages.WorkDone,
    "give_up": platform_messages.GiveUp,
    "report": platform_messages.ProgressReport,
}
TO_DAEMON: dict[str, type] = ACTIONS | {
    "hello": Hello,
    "beat": Heartbeat,
    "look": LatestRequest,
    "remember": Remember,
    "measured": Measured,
}
FROM_DAEMON: dict[str, type] = {
    "welcome": Welcome,
    "beaten": Beaten,
    "latest": Latest,
    "kept": Stored,
    "refused": Refused,
    "outcome": platform_messages.ActionOutcome,
    "market": platform_messages.MarketNow,
    "standing": platform_messages.PlatformStatus,
    "measured": Measured,
}
