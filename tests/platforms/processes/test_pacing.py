"""Concurrent starts are limited and in order, and none waits for ever."""

import os
import signal
from pathlib import Path

from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from merkatd.platforms.processes.supervisor import AT_ONCE, LIMIT_S, StartPacer
from tests.bus.rig import until
from tests.platforms.processes.nursery import SLEEPS, Nursery, in_nursery


def make_pacer(most: int, *names: str) -> tuple[Clock, StartPacer, list[str]]:
    """Return a pacer with these requests, and the list of started names."""
    clock, started = Clock(), list[str]()
    pace = StartPacer(clock, started.append, most)
    for name in names:
        pace.ask(name)
    return clock, pace, started


def test_the_next_starts_when_one_has_settled() -> None:
    """Starts follow the order of the requests."""
    _, pace, started = make_pacer(2, "a", "b", "c", "d")
    assert started == ["a", "b"]
    pace.settled("b")
    assert started == ["a", "b", "c"]
    pace.settled("b")
    pace.settled("nobody")
    assert started == ["a", "b", "c"]


def test_a_silent_process_delays_others_only_briefly() -> None:
    """A process that was removed before its turn delays none."""
    clock, pace, started = make_pacer(1, "a", "b", "c")
    pace.settled("b")
    clock.advance(LIMIT_S)
    assert started == ["a", "c"]
    clock.advance(LIMIT_S)
    assert not clock.getDelayedCalls()


def test_a_closed_pacer_starts_nothing() -> None:
    """No timer remains."""
    clock, pace, started = make_pacer(1, "a", "b")
    pace.close()
    assert started == ["a"]
    assert not clock.getDelayedCalls()


def test_processes_start_a_few_at_a_time(tmp_path: Path) -> None:
    """Each runs once, also if the warden is killed meanwhile."""
    names = {f"{number}" for number in range(AT_ONCE + 3)}

    async def story(nursery: Nursery) -> None:
        kept = nursery.supervisor
        for name in sorted(names):
            kept.start(name, nursery.program(SLEEPS))
        await until(lambda: len(kept.pids) == AT_ONCE, "the first")
        kept.heard(min(kept.pids))
        await until(lambda: len(kept.pids) == AT_ONCE + 1, "one more")
        assert len(nursery.processes) == AT_ONCE + 1
        with capturedLogs():
            os.kill(kept.warden_pid or 0, signal.SIGKILL)
            await until(lambda: len(nursery.ends) == AT_ONCE + 1, "they are gone")
        assert {process.name for process in nursery.ends} | kept.since.keys() == names
        nursery.clock.advance(LIMIT_S)
        nursery.clock.advance(LIMIT_S)
        await until(lambda: kept.pids.keys() == names, "all")
        await until(lambda: len(nursery.processes) == len(names), "each process once")

    in_nursery(tmp_path, story)
