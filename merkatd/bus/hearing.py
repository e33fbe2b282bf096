"""What one process has heard so far of what is published: each thing once, whatever was lost."""

from merkatd.bus.messages import Beaten, Latest, Measured, joined
from merkatd.bus.wire import Envelope
from merkatd.platforms.ports import MarketNow, News, Standing

Event = News | Measured | MarketNow
"""What a controller is told (news, measurements), and what a monitor is (its market)."""


class Hearing:
    """Puts together what a period's news bring in two parts."""

    def __init__(self, *, attends: bool) -> None:
        """`attends`: whether this is a controller, who is told all; a monitor hears prices."""
        self._attends = attends
        self._life = ""
        self._published = 0
        self._priced = 0
        self.market: MarketNow | None = None
        """As it was announced last."""
        self._standing: Standing | None = None
        self._told = False
        """Whether what is known of the last period was told."""

    def begin(self, life: str, latest: Latest) -> list[Event]:
        """A daemon's life begins, or goes on; what is new since the last one."""
        anew = self._life == ""
        if life != self._life:
            # Another daemon counts from the beginning.
            self._life, self._published, self._priced = life, 0, 0
        events = self.catch_up(latest)
        return [] if anew else events

    def catch_up(self, latest: Latest) -> list[Event]:
        """Take what was published last, where it was missed."""
        events: list[Event] = []
        if latest.priced > self._priced and latest.market is not None:
            events += self._market_is(latest.market)
        if latest.published > self._published and latest.standing is not None:
            events += self._standing_is(latest.standing)
        self._priced, self._published = latest.priced, latest.published
        return events

    def misses(self, beaten: Beaten) -> bool:
        """Whether more was published than came here."""
        own = self._attends and beaten.published > self._published
        return own or beaten.priced > self._priced

    def take(self, envelope: Envelope) -> list[Event]:
        """What a publication brings."""
        if envelope.session != self._life:
            return []
        body, number = envelope.body, envelope.number
        if isinstance(body, MarketNow):
            if number <= self._priced:
                return []
            self._priced = number
            return self._market_is(body)
        if number <= self._published:
            return []
        self._published = number
        if isinstance(body, Standing):
            return self._standing_is(body)
        return [body] if isinstance(body, Measured) else []

    def _market_is(self, market: MarketNow) -> list[Event]:
        self.market = market
        return self._news() if self._attends else [market]

    def _standing_is(self, standing: Standing) -> list[Event]:
        if standing != self._standing:
            self._standing, self._told = standing, False
        return self._news()

    def _news(self) -> list[Event]:
        news = None if self._told else joined(self.market, self._standing)
        self._told = self._told or news is not None
        return [] if news is None else [news]
