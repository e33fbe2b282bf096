"""Closing the daemon's parts: each gets its turn, whatever became of those before it."""

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.task import Clock

from merkatd.daemon.shutdown import PART_LIMIT_S, OpenParts


def test_every_part_is_closed_though_one_fails_and_one_hangs() -> None:
    """The last one first; a part that hangs costs its limit and no more."""
    clock = Clock()
    closing = OpenParts(clock)
    closed: list[str] = []

    def fail() -> None:
        raise OSError("the socket is gone")

    def refuse() -> Deferred[None]:
        refused: Deferred[None] = Deferred()
        refused.errback(OSError("the server is gone"))
        return refused

    async def stubborn() -> None:
        """Goes on waiting after it was cancelled."""
        try:
            await Deferred()
        except CancelledError:
            await Deferred()

    closing.add("first", lambda: closed.append("first"))
    closing.add("stubborn", lambda: ensureDeferred(stubborn()))
    closing.add("refusing", refuse)
    closing.add("failing", fail)
    closing.add("last", lambda: closed.append("last"))
    over = ensureDeferred(closing.close())
    assert closed == ["last"]
    clock.pump([0.1] * round((PART_LIMIT_S + 2) * 10))
    assert closed == ["last", "first"]
    assert over.called
    assert not clock.getDelayedCalls()


def test_work_that_ends_when_it_is_cancelled_is_waited_for() -> None:
    """A part that gives up at its limit has its last word before the next one is closed."""
    clock = Clock()
    closing = OpenParts(clock)
    said: list[str] = []

    async def polite() -> None:
        try:
            await Deferred()
        finally:
            said.append("polite")

    closing.add("next", lambda: said.append("next"))
    closing.add("polite", lambda: ensureDeferred(polite()))
    over = ensureDeferred(closing.close())
    clock.advance(PART_LIMIT_S - 0.1)
    assert said == []
    clock.advance(0.2)
    assert said == ["polite", "next"]
    assert over.called
    assert not clock.getDelayedCalls()
