"""Collections of garbage are short in a large cloud, and memory stays flat all the same."""

import errno
import gc
import weakref
from collections.abc import Iterator

import pytest

from merkatd.daemon.interpreter import GROWTH, SHORT_S, WHOLE_EVERY_S, GarbageCollections


class Times:
    """Clocks that the test moves: a collection takes `each_s` of CPU time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.each_s = 0.0
        self.size = 1_000
        self.told = True
        """Whether the file that tells it can be opened."""
        self._cpu_s = 0.0

    def seconds(self) -> float:
        """The time."""
        return self.now_s

    def cpu_s(self) -> float:
        """The CPU time, at the start and at the end of a collection."""
        self._cpu_s += self.each_s
        return self._cpu_s

    def resident(self) -> int:
        """The size of the process."""
        if not self.told:
            raise OSError(errno.EMFILE, "Too many open files")
        return self.size


class Circle:
    """Refers to itself: no reference count frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def times() -> Times:
    """Collections that take no time."""
    return Times()


@pytest.fixture
def garbage(times: Times) -> Iterator[GarbageCollections]:
    """Collections are kept short while the test runs."""
    made = GarbageCollections(times.seconds, times.cpu_s, times.resident)
    made.start()
    yield made
    made.stop()
    gc.unfreeze()


def test_survivors_of_a_long_collection_are_not_looked_at_again(
    times: Times, garbage: GarbageCollections
) -> None:
    """So that the next one looks at new objects alone."""
    kept: list[list[int]] = [[] for _ in range(100_000)]
    gc.collect()
    assert len(gc.get_objects(generation=2)) >= len(kept), garbage
    times.each_s = 2 * SHORT_S
    gc.collect()
    assert len(gc.get_objects(generation=2)) < 1_000
    assert gc.get_freeze_count() >= len(kept)


def test_a_short_collection_and_those_of_young_objects_freeze_nothing(
    times: Times, garbage: GarbageCollections
) -> None:
    """In a small cloud Python collects garbage as it always does."""
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
def test_circles_that_were_frozen_are_freed_when_a_day_is_over_or_memory_grew(
    times: Times, garbage: GarbageCollections, why: str
) -> None:
    """And not before: a whole collection of a large cloud holds the reactor."""
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
    """Each period leaves a circle that was frozen while it was alive; no more than a day's stay."""
    times.each_s = 2 * SHORT_S
    alive: weakref.WeakSet[Circle] = weakref.WeakSet()
    most = 0
    per_day = 20
    for _ in range(300):
        circle = Circle()
        alive.add(circle)
        gc.collect()
        del circle
        times.now_s += WHOLE_EVERY_S / per_day
        garbage.after_period()
        most = max(most, len(alive))
    assert 1 < most <= per_day + 1


def test_nothing_stays_behind_after_the_end(times: Times) -> None:
    """A process may run several daemons one after another, as tests do."""
    made = GarbageCollections(times.seconds, times.cpu_s, times.resident)
    before, thresholds = list(gc.callbacks), gc.get_threshold()
    made.start()
    assert gc.get_threshold() < thresholds
    made.stop()
    made.stop()
    assert gc.callbacks == before
    assert gc.get_threshold() == thresholds


def test_without_a_file_to_open_collections_go_by_the_clock(
    times: Times, garbage: GarbageCollections
) -> None:
    """A process that has all its files open does not fail; its size counts again later."""
    times.each_s = 2 * SHORT_S

    def frozen() -> "weakref.ref[Circle]":
        circle = Circle()
        gc.collect()
        return weakref.ref(circle)

    times.told = False
    first = frozen()
    garbage.after_period()
    assert first() is not None
    times.now_s = WHOLE_EVERY_S
    garbage.after_period()
    assert first() is None
    second = frozen()
    times.told = True
    garbage.after_period()
    assert second() is not None
    times.size = int(GROWTH * 1_000) + 1
    garbage.after_period()
    assert second() is None
