"""How a process receives publications: each once, in order, from its own daemon."""

from merkatd.bus.subscription import SubscriptionState
from merkatd.protocol.bus_messages import Beaten, Latest
from merkatd.protocol.platform_messages import MarketNow, News
from merkatd.protocol.wire_format import Envelope
from tests.bus.rig import market, news, parts

LIFE = "this one"


def begun(*, attends: bool) -> SubscriptionState:
    """Return the state after greeting a daemon that has published nothing yet."""
    made = SubscriptionState(attends=attends)
    nothing = Latest(market=None, standing=None, published=0, priced=0)
    assert made.begin(LIFE, nothing) == []
    return made


def priced(number: int, life: str = LIFE) -> Envelope:
    """Return a publication of a market's prices."""
    return Envelope(market(number), life, number)


def test_repeated_or_older_publications_are_dropped() -> None:
    """A replayed or overtaken publication has no effect."""
    hearing = begun(attends=False)
    (market_now,) = hearing.take(priced(3))
    assert isinstance(market_now, MarketNow)
    assert hearing.take(priced(3)) == hearing.take(priced(2)) == []
    assert hearing.market == market_now
    assert len(hearing.take(priced(4))) == 1


def test_publications_of_another_daemon_are_dropped() -> None:
    """After a greeting of that daemon the count starts again."""
    hearing = begun(attends=False)
    assert hearing.take(priced(5)) != []
    assert hearing.take(priced(6, "another")) == []
    latest = Latest(market=market(6), standing=None, published=0, priced=1)
    (market_now,) = hearing.begin("another", latest)
    assert isinstance(market_now, MarketNow)
    assert market_now.period == 6
    assert hearing.take(priced(2, "another")) != []


def test_news_are_delivered_once_both_parts_have_arrived() -> None:
    """The order of the parts does not matter, and prices of another period do not count."""
    for first in (0, 1):
        hearing = begun(attends=True)
        (of_all,), (own,) = parts(news(1, 7))
        both = [Envelope(of_all, LIFE, 1), Envelope(own, LIFE, 1)]
        assert hearing.take(Envelope(market(6), LIFE, 0)) == []
        assert hearing.take(both[first]) == []
        (latest,) = hearing.take(both[1 - first])
        assert isinstance(latest, News)
        assert latest == news(1, 7)
        assert hearing.take(both[0]) == hearing.take(both[1]) == []


def test_missed_publications_show_in_the_daemons_count() -> None:
    """A monitor misses prices only; the answer to the next request counts as received."""
    hearing = begun(attends=False)
    assert not hearing.misses(Beaten(published=9, priced=0))
    assert hearing.misses(Beaten(published=9, priced=1))
    assert begun(attends=True).misses(Beaten(published=1, priced=0))
    latest = Latest(market=market(1), standing=None, published=9, priced=1)
    assert len(hearing.catch_up(latest)) == 1
    assert not hearing.misses(Beaten(published=9, priced=1))
