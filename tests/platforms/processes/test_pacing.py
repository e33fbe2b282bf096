"""Starts at once: no more than so many, each in its turn, and nobody waits for ever."""

import os
import signal
from pathlib import Path

from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from merkatd.platforms.processes.supervisor import AT_ONCE, LIMIT_S, StartPacer
from tests.bus.rig import until
from tests.platforms.processes.test_supervisor import SLEEPS, Nursery, in_nursery


def begun(most: int, *names: str) -> tuple[Clock, StartPacer, list[str]]:
    """A pace that these have asked for their turn, and who has begun."""
    clock, found = Clock(), list[str]()
    pace = StartPacer(clock, found.append, most)
    for name in names:
        pace.ask(name)
    return clock, pace, found


def test_the_next_begins_when_one_is_there() -> None:
    """In the order in which they asked."""
    _, pace, found = begun(2, "a", "b", "c", "d")
    assert found == ["a", "b"]
    pace.settled("b")
    assert found == ["a", "b", "c"]
    pace.settled("b")
    pace.settled("nobody")
    assert found == ["a", "b", "c"]


def test_one_that_is_never_heard_holds_up_nobody_for_long() -> None:
    """Nor does one that was given up before its turn."""
    clock, pace, found = begun(1, "a", "b", "c")
    pace.settled("b")
    clock.advance(LIMIT_S)
    assert found == ["a", "c"]
    clock.advance(LIMIT_S)
    assert not clock.getDelayedCalls()


def test_after_its_end_nobody_begins() -> None:
    """And nothing is left of it."""
    clock, pace, found = begun(1, "a", "b")
    pace.close()
    assert found == ["a"]
    assert not clock.getDelayedCalls()


def test_processes_are_started_few_by_few(tmp_path: Path) -> None:
    """Also where their warden is killed meanwhile: each runs once."""
    names = {f"{number}" for number in range(AT_ONCE + 3)}

    async def story(nursery: Nursery) -> None:
        kept = nursery.supervisor
        for name in sorted(names):
            kept.start(name, nursery.program(SLEEPS))
        await until(lambda: len(kept.pids) == AT_ONCE, "the first")
        kept.heard(min(kept.pids))
        await until(lambda: len(kept.pids) == AT_ONCE + 1, "one more")
        assert len(nursery.everybody) == AT_ONCE + 1
        with capturedLogs():
            os.kill(kept.warden_pid or 0, signal.SIGKILL)
            await until(lambda: len(nursery.ends) == AT_ONCE + 1, "they are gone")
        assert {one.name for one in nursery.ends} | kept.since.keys() == names
        nursery.clock.advance(LIMIT_S)
        nursery.clock.advance(LIMIT_S)
        await until(lambda: kept.pids.keys() == names, "all")
        await until(lambda: len(nursery.everybody) == len(names), "each once")

    in_nursery(tmp_path, story)
