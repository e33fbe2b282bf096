"""Garbage collections in a large cloud are short, and memory use stays flat."""

import errno
import gc
import weakref
from collections.abc import Iterator

import pytest

from merkatd.daemon.interpreter import GROWTH, SHORT_S, WHOLE_EVERY_S, GarbageCollections


class Times:
    """Clocks that the test moves; a collection takes `each_s` of CPU time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.each_s = 0.0
        self.size = 1_000
        self.readable = True
        """Whether the file with the size can be opened."""
        self._cpu_s = 0.0

    def seconds(self) -> float:
        """Return the time."""
        return self.now_s

    def cpu_s(self) -> float:
        """Return the CPU time, at the start and at the end of a collection."""
        self._cpu_s += self.each_s
        return self._cpu_s

    def resident(self) -> int:
        """Return the size of the process."""
        if not self.readable:
            raise OSError(errno.EMFILE, "Too many open files")
        return self.size


class Circle:
    """An object that refers to itself, so no reference count frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def times() -> Times:
    """Return clocks for collections that take no time."""
    return Times()


@pytest.fixture
def garbage(times: Times) -> Iterator[GarbageCollections]:
    """Keep collections short during the test."""
    made = GarbageCollections(times.seconds, times.cpu_s, times.resident)
    made.start()
    yield made
    made.stop()
    gc.unfreeze()


def test_survivors_of_a_long_collection_are_frozen(
    times: Times, garbage: GarbageCollections
) -> None:
    """The next collection examines new objects only."""
    kept: list[list[int]] = [[] for _ in range(100_000)]
    gc.collect()
    assert len(gc.get_objects(generation=2)) >= len(kept), garbage
    times.each_s = 2 * SHORT_S
    gc.collect()
    assert len(gc.get_objects(generation=2)) < 1_000
    assert gc.get_freeze_count() >= len(kept)


def test_short_collections_and_young_generations_freeze_nothing(
    times: Times, garbage: GarbageCollections
) -> None:
    """In a small cloud Python collects garbage as usual."""
    frozen = gc.get_freeze_count()
    times.each_s = SHORT_S / 2
    gc.collect()
    times.each_s = 2 * SHORT_S
    gc.collect(0)
    gc.collect(1)
    assert gc.get_freeze_count() <= frozen
    circle = weakref.ref(Circle())
    times.now_s, times.size = 2 * WHOLE_EVERY_S, 10 * times.size
    garbage.after_period()
    assert circle() is not None, "nothing is frozen, so no whole collection is due"


@pytest.mark.parametrize("why", ["day", "growth"])
def test_frozen_cycles_are_freed_after_a_day_or_after_growth(
    times: Times, garbage: GarbageCollections, why: str
) -> None:
    """They are not freed earlier, because a full collection holds the reactor."""
    garbage.after_period()
    circle = Circle()
    ended = weakref.ref(circle)
    times.each_s = 2 * SHORT_S
    gc.collect()
    del circle
    gc.collect()
    times.now_s, times.size = WHOLE_EVERY_S - 1, int(GROWTH * times.size)
    garbage.after_period()
    assert ended() is not None
    if why == "day":
        times.now_s += 1
    else:
        times.size += 1
    garbage.after_period()
    assert ended() is None


def test_memory_stays_flat_over_many_periods(times: Times, garbage: GarbageCollections) -> None:
    """Each period leaves one frozen cycle, and at most the cycles of one day remain."""
    times.each_s = 2 * SHORT_S
    alive: weakref.WeakSet[Circle] = weakref.WeakSet()
    most = 0
    per_day = 4
    for _ in range(3 * per_day):
        circle = Circle()
        alive.add(circle)
        gc.collect()
        del circle
        times.now_s += WHOLE_EVERY_S / per_day
        garbage.after_period()
        most = max(most, len(alive))
    assert 1 < most <= per_day + 1


def test_the_end_restores_the_collector(times: Times) -> None:
    """A process may run several daemons in turn, as tests do."""
    made = GarbageCollections(times.seconds, times.cpu_s, times.resident)
    before, thresholds = list(gc.callbacks), gc.get_threshold()
    made.start()
    assert gc.get_threshold() < thresholds
    made.stop()
    made.stop()
    assert gc.callbacks == before
    assert gc.get_threshold() == thresholds


def test_without_free_files_collections_depend_on_the_clock(
    times: Times, garbage: GarbageCollections
) -> None:
    """A process at its limit of open files does not fail; later its size counts again."""
    times.each_s = 2 * SHORT_S

    def frozen() -> "weakref.ref[Circle]":
        circle = Circle()
        gc.collect()
        return weakref.ref(circle)

    times.readable = False
    first = frozen()
    garbage.after_period()
    assert first() is not None
    times.now_s = WHOLE_EVERY_S
    garbage.after_period()
    assert first() is None
    second = frozen()
    times.readable = True
    garbage.after_period()
    assert second() is not None
    times.size = int(GROWTH * 1_000) + 1
    garbage.after_period()
    assert second() is None
