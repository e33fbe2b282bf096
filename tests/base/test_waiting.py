"""A wait on a clock ends at its time or is cancelled by its caller; many items begin in parts."""

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from merkatd.base.clock import Inline
from merkatd.base.deferreds import begun_in_parts, wait_seconds


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


def test_items_begin_in_parts_and_in_order() -> None:
    """The reactor has its turn between the parts; the end of a part is that of all its items."""
    begun: list[int] = []
    pauses: list[Deferred[None]] = []
    running: list[Deferred[None]] = []

    class Pausing(Inline):
        def run(self, call: Callable[[], Any]) -> Deferred[Any]:  # noqa: ARG002 - it does nothing
            pauses.append(Deferred())
            return pauses[-1]

    def begin(item: int) -> Deferred[None]:
        begun.append(item)
        running.append(Deferred())
        return running[-1]

    waiting = ensureDeferred(begun_in_parts(range(7), begin, Pausing(), size=3))
    assert begun == [0, 1, 2]
    pauses[0].callback(None)
    assert begun == [0, 1, 2, 3, 4, 5]
    pauses[1].callback(None)
    assert begun == list(range(7))
    assert len(pauses) == 2
    parts: list[list[Deferred[Any]]] = []
    waiting.addCallback(parts.append)
    running[3].callback(None)
    running[4].errback(RuntimeError("one item fails"))
    assert not parts[0][1].called
    running[5].callback(None)
    assert [part.called for part in parts[0]] == [False, True, False]
