"""All parts of the daemon are closed, even if earlier ones fail."""

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.task import Clock

from merkatd.daemon.shutdown import PART_LIMIT_S, OpenParts


def test_every_part_is_closed_even_if_one_fails_and_one_hangs() -> None:
    """The last part is closed first; a hanging part takes its time limit and no more."""
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
        """Go on waiting after the cancellation."""
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


def test_cancelled_work_may_finish() -> None:
    """A part cancelled at its limit ends before the next part is closed."""
    clock = Clock()
    closing = OpenParts(clock)
    ended: list[str] = []

    async def polite() -> None:
        try:
            await Deferred()
        finally:
            ended.append("polite")

    closing.add("next", lambda: ended.append("next"))
    closing.add("polite", lambda: ensureDeferred(polite()))
    over = ensureDeferred(closing.close())
    clock.advance(PART_LIMIT_S - 0.1)
    assert ended == []
    clock.advance(0.2)
    assert ended == ["polite", "next"]
    assert over.called
    assert not clock.getDelayedCalls()
