"""The kinds of messages on the bus. `platform_messages` has the controllers' actions and news.

`VERSION` rises whenever a message changes; messages of another version are refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from merkatd.protocol import platform_messages

VERSION = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first message of a process: opens a session."""

    role: str
    """The name of the process within its platform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A sign of life of a process; the daemon answers with `Beaten`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestRequest:
    """A request for the latest news, after some were missed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remember:
    """A request to store the controller's memory for its next process."""

    memory: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A monitor's measurements; the daemon forwards them to the platform's controller."""

    cluster: str
    at_s: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beaten:
    """The daemon's answer to `Heartbeat`, with the numbers of its latest publications."""

    published: int
    """The number of the platform's latest publication."""
    priced: int
    """The number of the market's latest publication."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest:
    """The answer to `LatestRequest`: the latest publications and their numbers."""

    market: platform_messages.MarketNow | None
    standing: platform_messages.PlatformStatus | None
    published: int
    priced: int

    @property
    def news(self) -> platform_messages.News | None:
        """Return market and standing joined; None unless both are of the same period."""
        return news_of(self.market, self.standing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """The answer to `Hello`: a session is open, and its messages are numbered from 1."""

    session: str
    life: str
    """The id of the daemon's run, which all its publications carry."""
    beat_s: float
    """The time between heartbeats that the daemon expects."""
    assignment: platform_messages.Assignment
    latest: Latest


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The answer to `Remember` and `Measured`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The answer to a message that the daemon refuses."""

    why: str
    greet: bool = False
    """Whether the session is unknown: the process must send `Hello`, then may retry."""


def news_of(
    market: platform_messages.MarketNow | None, standing: platform_messages.PlatformStatus | None
) -> platform_messages.News | None:
    """Return both parts of a period's news joined; None unless both are of the same period."""
    if market is None or standing is None or market.period != standing.period:
        return None
    return platform_messages.News.joined(standing, market)


Action = (
    platform_messages.SetBids
    | platform_messages.SetSize
    | platform_messages.SetLimit
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
    "set_limit": platform_messages.SetLimit,
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
