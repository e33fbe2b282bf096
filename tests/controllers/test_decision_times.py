"""A controller decides once in an interval, however many periods the daemon announces."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from controllers.applications.decision_counts import intervals_in_a_row, note_rest, rested_s
from controllers.decision_times import DecisionTimes
from merkatd.protocol.bus_messages import Measured
from merkatd.protocol.platform_messages import News
from tests.bus.rig import assignment, news

INTERVAL_S = 60.0


def given_to(told: list[News]) -> list[float]:
    """Return the times of the news that a controller gets."""
    times = DecisionTimes(INTERVAL_S)
    return [each.at_s for each in told if times.select(each, each.at_s) is not None]


def at(at_s: float, **others: object) -> News:
    """Return news of this time."""
    return replace(news(), at_s=at_s, **others)  # type: ignore[arg-type]


def test_periods_in_each_second_decide_once_in_an_interval() -> None:
    """Regular periods decide each time, a little early or late too."""
    assert given_to([at(float(second)) for second in range(200)]) == [0.0, 54.0, 108.0, 162.0]
    regular = [0.0, 60.0, 119.0, 180.5, 236.0]
    assert given_to([at(at_s) for at_s in regular]) == regular


@pytest.mark.parametrize(
    "change",
    [
        {"state": "suspending"},
        {"deadline_s": 5.0},
        {"performance": 2.0},
        {"budget": 7.0},
        {"replenishment": 1.0},
    ],
)
def test_changes_that_matter_are_told_at_once(change: dict[str, object]) -> None:
    """Each is told once; changes of VMs and sizes wait."""
    told = [at(0.0), at(1.0, sizes={"workers": 9}), at(2.0, **change), at(3.0, **change)]
    assert given_to(told) == [0.0, 2.0]


def test_the_first_vms_are_told_at_once() -> None:
    """Further VMs wait."""
    more = (*news().vms, *news(2).vms)
    assert given_to([at(0.0, vms=()), at(1.0), at(2.0, vms=more)]) == [0.0, 1.0]


def test_a_clock_that_was_set_back_delays_no_decision() -> None:
    """Nor does one that stands still."""
    assert given_to([at(9000.0), at(100.0), at(100.0), at(130.0)]) == [9000.0, 100.0, 100.0]


def test_the_last_news_come_after_an_interval() -> None:
    """Measurements pass at once; of the news that came too early the newest is kept."""

    async def events() -> AsyncIterator[News | Measured]:
        yield at(0.0)
        yield at(0.01)
        yield Measured(cluster="workers", at_s=0.0, values={})
        yield at(0.02)
        await asyncio.sleep(0.4)
        yield at(0.3)

    async def played() -> list[News | Measured]:
        return [event async for event in DecisionTimes(0.2).paced(events())]

    got = asyncio.run(played())
    assert [event.at_s for event in got if isinstance(event, News)] == [0.0, 0.02, 0.3]
    assert isinstance(got[1], Measured)


def test_a_condition_is_counted_by_time() -> None:
    """A hundred news within a minute count as one interval more."""
    memory: dict[str, object] = {}
    given = assignment()

    def counted(at_s: float, *, holds: bool = True) -> float:
        return intervals_in_a_row(given, memory, "dear", at(at_s), holds=holds)

    assert counted(0.0) == 1.0
    for second in range(1, 31):
        count = counted(float(second))
    assert count == pytest.approx(1.0 + 30.0 / given.interval_s)
    assert counted(30.0) == count
    assert counted(31.0, holds=False) == 0.0
    assert counted(4000.0) == 1.0
    assert counted(9000.0) == 2.0


def test_a_rest_is_counted_by_time() -> None:
    """Neither many periods nor a jump of the clock end it."""
    memory: dict[str, float] = {}
    given = assignment()
    note_rest(given, memory, "heard", at(0.0, state="resuming"), new=False)
    for second in range(1, 61):
        note_rest(given, memory, "heard", at(float(second)), new=False)
    assert rested_s(given, memory) == pytest.approx(60.0 + 0.25 * given.interval_s)
    note_rest(given, memory, "heard", at(90_000.0), new=False)
    assert rested_s(given, memory) <= 60.0 + 1.5 * given.interval_s
