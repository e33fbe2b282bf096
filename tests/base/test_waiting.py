"""A wait on a clock ends at its time or is cancelled by its caller."""

from twisted.internet.task import Clock

from merkatd.base.deferreds import wait_seconds


def test_a_wait_ends_at_its_time() -> None:
    """A wait of two seconds is pending after 1.9 s and over after 2.1 s."""
    clock, over = Clock(), list[object]()
    wait_seconds(clock, 2.0).addCallback(over.append)
    clock.advance(1.9)
    assert over == []
    clock.advance(0.2)
    assert over == [None]


def test_a_cancelled_wait_leaves_no_timer() -> None:
    """Cancelling a wait removes its timer."""
    clock = Clock()
    wait = wait_seconds(clock, 2.0).addErrback(lambda _: None)
    wait.cancel()
    assert clock.getDelayedCalls() == []
