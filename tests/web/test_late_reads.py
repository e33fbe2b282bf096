"""Late reads continue, and one visitor's late reads take no places of other visitors."""

from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from merkatd.api.http.admission import Admission
from merkatd.api.http.settings import ApiSettings
from merkatd.service.base.errors import NotPermittedError, TryAgainError
from merkatd.service.base.identity import Identity
from merkatd.service.base.turns import FairTurns
from merkatd.web.base.live_updates import Listeners
from merkatd.web.base.stored_answers import PATIENCE_S, StoredAnswers
from merkatd.web.browser_sessions import BrowserSessions
from merkatd.web.site import WebSite
from tests.web.visits import HOST, Visits

_MANY = 40


class Late:
    """A database that answers when the test says so, with a record of its reads."""

    def __init__(self) -> None:
        self.reads: list[Deferred[Any]] = []

    def read(self, *_: Any) -> Deferred[Any]:
        """Record a read."""
        self.reads.append(Deferred())
        return self.reads[-1]


class TestRecall:
    """The store of answers without pages."""

    def setup_method(self) -> None:
        """Start without earlier reads."""
        self.clock = Clock()
        self.recall = StoredAnswers(self.clock, self.clock.seconds)
        self.database = Late()

    def _visit(self, visitor: int, page: int) -> list[Any]:
        """Let a page read for as long as pages wait; return its result."""
        results: list[Any] = []

        async def read() -> Any:
            return await self.database.read()

        reading = self.recall.reading(visitor=visitor)
        ensureDeferred(reading.get((visitor, page), read, "left out")).addBoth(results.append)
        return results

    def test_a_visitor_has_a_limited_number_of_late_reads(self) -> None:
        """Other visitors' pages are read as usual."""
        for page in range(_MANY):
            self._visit(2, page)
            self.clock.advance(PATIENCE_S)
        assert len(self.database.reads) == 8
        results = self._visit(3, 0)
        assert results == []
        self.database.reads[-1].callback("new")
        assert results == ["new"]

    def test_a_visitor_who_opens_many_pages_drops_only_its_own_answers(self) -> None:
        """As the database hangs then, others' pages still show what they read before."""
        self._visit(3, 0)
        self.database.reads[-1].callback("of 3")
        for page in range(1_000):
            self._visit(2, page)
            self.database.reads[-1].callback("of 2")
        assert len(self.recall._kept) == 256
        visits_made = [self._visit(visitor, page) for visitor, page in ((3, 0), (2, 0), (2, 999))]
        self.clock.advance(PATIENCE_S)
        assert visits_made == [["of 3"], ["left out"], ["of 2"]]

    def test_reads_that_become_late_together_have_the_same_limit(self) -> None:
        """It applies although none was late when they started."""
        for page in range(_MANY):
            self._visit(2, page)
        self.clock.advance(PATIENCE_S)
        assert self._visit(2, _MANY) == ["left out"]
        assert self._visit(3, 0) == []

    def test_all_visitors_together_have_a_limit(self) -> None:
        """A recovering database does not get a burst of reads."""
        for visitor in range(_MANY):
            for page in range(2):
                self._visit(visitor, page)
                self.clock.advance(PATIENCE_S / 100)
        self.clock.advance(PATIENCE_S)
        begun = len(self.database.reads)
        assert self._visit(_MANY, 0) == ["left out"]
        assert len(self.database.reads) == begun

    def test_late_reads_of_some_visitors_stop_no_others(self) -> None:
        """They may wait behind other reads of their visitors: the database answers the others."""
        for visitor in range(5):
            for page in range(8):
                self._visit(visitor, page)
        self.clock.advance(PATIENCE_S)
        assert self._visit(5, 0) == ["left out"]
        self.database.reads[0].callback("new")
        results = self._visit(5, 0)
        assert results == []
        self.database.reads[-1].callback("new")
        assert results == ["new"]

    def test_an_ended_read_frees_its_place(self) -> None:
        """Its answer appears on the next page, and another read starts."""
        for page in range(8):
            self._visit(2, page)
        self.clock.advance(PATIENCE_S)
        assert self._visit(2, 8) == ["left out"]
        self.database.reads[0].callback("new")
        assert self._visit(2, 8) == []
        assert len(self.database.reads) == 9


class SignIns:
    """Logins that are all known, each by a number."""

    def is_known(self, _login: str) -> bool:
        """Return True without a call."""
        return True

    is_good = is_familiar = is_known

    async def identify(self, login: str) -> Identity:
        """Return the user of that number."""
        return Identity(int(login), f"user-{login}", frozenset({1}), 1)


def test_late_pages_of_a_visitor_take_no_places_of_others() -> None:
    """This holds for any number of pages that a tenant opens."""

    async def visit(asked: Any) -> Any:
        return await site.visit(asked)

    async def none_yet() -> Any:
        raise TryAgainError("there was no period yet")

    async def require_managed(caller: Any, platform: int) -> None:
        if caller.uid != platform // 100:
            raise NotPermittedError("it belongs to another tenant")

    async def read_slowly(*_: Any) -> Any:
        return await database.read(None)

    async def mode() -> Any:
        return SimpleNamespace(waiting_plan=None)

    visits, database, sign_ins = Visits(visit), Late(), SignIns()
    clock = visits.clock
    how = SimpleNamespace(mode="control", paused=False, standby=None, failures=0, clock_ahead_s=0.0)
    house = SimpleNamespace(
        world=SimpleNamespace(database=database, now=clock.seconds),
        views=SimpleNamespace(prepared=none_yet),
        modes=SimpleNamespace(mode=mode),
        daemon=SimpleNamespace(state=lambda: how),
        require_platforms=lambda: SimpleNamespace(
            require_managed=require_managed, platform=read_slowly
        ),
        sign_ins=sign_ins,
        long_reads=FairTurns(2, per_key=1),
    )
    known: Any = sign_ins
    admission = Admission(known, ApiSettings(address_calls=1e6, user_calls=1e6), clock)
    dispatch: Any = SimpleNamespace(house=house, admission=admission)
    sessions = BrowserSessions(clock.seconds, longest_s=1e6, idle_s=1e6, most_per_user=3)
    listeners = Listeners(clock, most=1, most_per_user=1)
    recall = StoredAnswers(clock, clock.seconds)
    site = WebSite(dispatch, sessions, listeners, recall=recall, cookie="merkat", secure=False)
    tokens = {uid: sessions.begin(str(uid), uid) for uid in (2, 3)}

    def look(uid: int, platform: int) -> bytes:
        """Return the immediate answer to a visitor of a platform's page."""
        cookie = f"Cookie: merkat={tokens[uid]}\r\n"
        return visits.say(
            f"GET /platforms/{platform} HTTP/1.1\r\n{cookie}".encode() + HOST + b"\r\n"
        )

    for platform in range(200, 200 + _MANY):
        look(2, platform)
        clock.advance(PATIENCE_S)
    assert len(database.reads) == 1
    assert b" 503 " in look(2, 299)
    assert look(3, 300) == b""
    assert len(database.reads) == 2
