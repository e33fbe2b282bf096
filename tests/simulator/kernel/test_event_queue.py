"""Events come in order of time and kind, together with those of the same moment."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from merkatd.cluster import Ints
from simulator.kernel.event_queue import EventKind, EventQueue

moments = st.lists(st.tuples(st.sampled_from([0.0, 1.0, 1.5, 2.0, 7.0]), st.integers(0, 9)))


def columns(pairs: list[tuple[float, int]]) -> tuple[np.ndarray[tuple[int]], Ints]:
    """Return times and rows."""
    return (
        np.array([at for at, _ in pairs], dtype=float),
        np.array([row for _, row in pairs], dtype=np.int64),
    )


@given(prepared=moments, pushed=st.lists(moments, max_size=3))
def test_each_event_comes_once_in_order(
    prepared: list[tuple[float, int]], pushed: list[list[tuple[float, int]]]
) -> None:
    """Batches have ascending times and kinds; within a batch, rows come as they were added."""
    queue = EventQueue()
    queue.prepare(EventKind.VM_ARRIVES, *columns(prepared))
    for pairs in pushed:
        times, rows = columns(pairs)
        queue.push(EventKind.VM_ENDS, times, rows, rows + 100)
    seen: dict[EventKind, list[tuple[float, int]]] = {kind: [] for kind in EventKind}
    keys = []
    while queue:
        next_s = queue.next_s
        batch = queue.pop()
        assert batch.at_s == next_s
        keys.append((batch.at_s, batch.kind))
        seen[batch.kind] += [(batch.at_s, row) for row in batch.rows.tolist()]
        if batch.kind is EventKind.VM_ENDS:
            assert (batch.turns == batch.rows + 100).all()
    assert keys == sorted(set(keys))
    ends = [pair for pairs in pushed for pair in pairs]
    assert seen[EventKind.VM_ARRIVES] == sorted(prepared, key=lambda pair: pair[0])
    assert seen[EventKind.VM_ENDS] == sorted(ends, key=lambda pair: pair[0])


def test_an_event_at_no_time_never_comes() -> None:
    """Services without an end need no event."""
    queue = EventQueue()
    rows = np.arange(2)
    queue.push(EventKind.VM_ENDS, np.array([np.inf, np.inf]), rows, rows)
    queue.push(EventKind.VM_ENDS, np.array([np.inf, 3.0]), rows, rows)
    assert queue.pop().rows.tolist() == [1]
    assert not queue
    assert queue.next_s == np.inf


@given(prepared=moments, pushed=st.lists(moments, max_size=3), single=moments)
def test_events_come_in_the_same_order_one_by_one(
    prepared: list[tuple[float, int]],
    pushed: list[list[tuple[float, int]]],
    single: list[tuple[float, int]],
) -> None:
    """Taken one by one, the events of a moment come as in their batch."""

    def filled() -> EventQueue:
        queue = EventQueue()
        queue.prepare(EventKind.VM_ARRIVES, *columns(prepared))
        for pairs in pushed:
            times, rows = columns(pairs)
            queue.push(EventKind.VM_ENDS, times, rows, rows + 100)
        for at_s, row in single:
            queue.add(EventKind.CALL, at_s, row, row + 7)
        return queue

    batches, singles, loop = filled(), filled(), filled()
    expected = list[tuple[float, int, int, int]]()
    while batches:
        batch = batches.pop()
        expected += [
            (batch.at_s, int(batch.kind), row, turn)
            for row, turn in zip(batch.rows.tolist(), batch.turns.tolist(), strict=True)
        ]
    taken = list[tuple[float, int, int, int]]()
    while singles:
        event = singles.take_one()
        taken.append((event.at_s, int(event.kind), event.row, event.turn))
    assert taken == expected
    assert list(loop.one_by_one()) == expected


def test_events_are_added_while_they_are_taken_one_by_one() -> None:
    """An event that is added for the present moment comes in it, and later ones in their order."""
    queue = EventQueue()
    queue.prepare(EventKind.VM_ARRIVES, np.array([0.0, 2.0]), np.array([5, 6]))
    taken = []
    for at_s, kind, row, turn in queue.one_by_one():
        taken.append((at_s, kind, row, turn))
        if kind == EventKind.VM_ARRIVES:
            queue.add(EventKind.VM_ENDS, at_s, row, 1)
            queue.add(EventKind.VM_ENDS, at_s + 3.0, row, 2)
    arrives, ends = int(EventKind.VM_ARRIVES), int(EventKind.VM_ENDS)
    assert taken == [
        *((0.0, arrives, 5, 0), (0.0, ends, 5, 1), (2.0, arrives, 6, 0)),
        *((2.0, ends, 6, 1), (3.0, ends, 5, 2), (5.0, ends, 6, 2)),
    ]


def test_known_events_come_first_in_their_moment() -> None:
    """Also if they were made known later."""
    for take in (lambda queue: queue.pop().rows.tolist(), lambda queue: [queue.take_one().row]):
        queue = EventQueue()
        queue.add(EventKind.VM_ARRIVES, 1.0, 8)
        queue.prepare(EventKind.VM_ARRIVES, np.array([1.0]), np.array([5]))
        assert take(queue)[0] == 5
