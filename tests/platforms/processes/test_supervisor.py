"""Processes run while they are needed, and none remains afterwards."""

import asyncio
import errno
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import capturedLogs

from merkatd.platforms.processes import program, supervisor, warden_link
from merkatd.platforms.processes.program import Program
from tests.bus.rig import until
from tests.platforms.processes.nursery import (
    BACKOFF_TRIES,
    BRANCHED,
    FEW,
    SLEEPS,
    STUBBORN,
    Nursery,
    in_nursery,
)


def test_an_ending_process_is_restarted_with_growing_waits_and_then_given_up(
    tmp_path: Path,
) -> None:
    """Each end is reported with its reason."""

    async def story(nursery: Nursery) -> None:
        with capturedLogs():
            nursery.supervisor.start("one", nursery.program("raise SystemExit(3)"))
            for number in range(1, 5):
                await until(lambda: len(nursery.ends) == number, "an end")  # noqa: B023
                last = nursery.ends[-1]
                assert last.why == "ended with code 3"
                if last.wait_s is not None:
                    assert 2 ** (number - 2) <= last.wait_s <= 2 ** (number - 1)
                    nursery.clock.advance(last.wait_s)
        assert nursery.ends[-1].wait_s is None
        assert not nursery.clock.getDelayedCalls()

    in_nursery(tmp_path, story)


def test_a_process_that_is_never_given_up_is_retried_at_the_longest_wait(tmp_path: Path) -> None:
    """A monitor's source may be available again in an hour."""

    async def story(nursery: Nursery) -> None:
        with capturedLogs():
            program = replace(nursery.program("raise SystemExit(3)"), given_up=False)
            nursery.supervisor.start("one", program)
            for number in range(1, 7):
                await until(lambda: len(nursery.ends) == number, "an end")  # noqa: B023
                wait_s = nursery.ends[-1].wait_s
                assert wait_s is not None
                nursery.clock.advance(wait_s)

    in_nursery(tmp_path, story)


def test_one_that_the_system_cannot_start_is_never_given_up(tmp_path: Path) -> None:
    """Its log can't be opened for longer than all its tries take: it is not to blame."""

    async def story(nursery: Nursery) -> None:
        (nursery.home / "one.log").mkdir()
        nursery.supervisor.start("one", nursery.program(SLEEPS))
        with capturedLogs():
            for number in range(1, BACKOFF_TRIES + 3):
                await until(lambda: len(nursery.ends) == number, "an end")  # noqa: B023
                last = nursery.ends[-1]
                assert last.why.startswith("could not be started")
                assert last.wait_s is not None
                nursery.clock.advance(last.wait_s)

    in_nursery(tmp_path, story)


def test_a_process_that_cannot_start_now_is_started_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the system has no descriptors or processes left, all starts are retried."""
    real, tries = warden_link.WardenLink, 0

    def failing(*arguments: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries <= FEW:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(*arguments)

    monkeypatch.setattr(supervisor, "WardenLink", failing)

    async def story(nursery: Nursery) -> None:
        names = [str(number) for number in range(FEW)]
        with capturedLogs():
            for name in names:
                nursery.supervisor.start(name, nursery.program(SLEEPS))
            await nursery.supervisor.stop(names[:1], 1.0)
            nursery.clock.pump([0] * FEW)
            assert {process.name for process in nursery.ends} == set(names[1:])
            assert {process.why for process in nursery.ends} == {
                "could not be started: Too many open files"
            }
            nursery.clock.pump([1.0] * 3)
            await until(lambda: set(nursery.supervisor.pids) == set(names[1:]), "all run")

    in_nursery(tmp_path, story)


def test_a_killed_process_is_replaced(tmp_path: Path) -> None:
    """Its children end with it, also those that left its session."""

    async def story(nursery: Nursery) -> None:
        pid = await nursery.started(BRANCHED)
        await until(lambda: len(nursery.processes) == 3, "three processes")
        with capturedLogs():
            os.kill(pid, signal.SIGKILL)
            await until(lambda: nursery.ends, "its end")
        assert nursery.ends[0].why == "was killed by signal 9"
        await until(lambda: not nursery.processes, "no process")
        nursery.clock.advance(8.0)
        await until(lambda: nursery.supervisor.pids, "another")
        assert nursery.supervisor.pids["one"] != pid

    in_nursery(tmp_path, story)


def test_a_stopped_process_may_end_in_order(tmp_path: Path) -> None:
    """It gets SIGTERM, has time to end, and is not restarted."""

    async def story(nursery: Nursery) -> None:
        good = (
            "import os, signal, sys\n"
            # Not print: the signal may arrive while the first line is still being printed.
            "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'bye'), sys.exit()))\n"
        )
        await nursery.started(good + SLEEPS)
        stopped = nursery.supervisor.stop(["one"], 10.0)
        await asyncio.wait_for(stopped.asFuture(asyncio.get_running_loop()), 10)
        assert nursery.output().split() == ["here", "bye"]
        assert not nursery.processes
        assert not nursery.ends
        assert not nursery.clock.getDelayedCalls()

    in_nursery(tmp_path, story)


def test_a_process_that_does_not_end_is_killed_after_its_grace(tmp_path: Path) -> None:
    """It is killed even if it ignores SIGTERM."""

    async def story(nursery: Nursery) -> None:
        await nursery.started(STUBBORN)
        stopped = nursery.supervisor.stop(["one"], 0.1)
        await asyncio.wait_for(stopped.asFuture(asyncio.get_running_loop()), 10)
        assert not nursery.processes

    in_nursery(tmp_path, story)


def test_a_process_requested_while_the_old_one_ends_follows_it(tmp_path: Path) -> None:
    """The two never run at the same time."""

    async def story(nursery: Nursery) -> None:
        pid = await nursery.started(STUBBORN)
        stopped = nursery.supervisor.stop(["one"], 0.1)
        nursery.supervisor.start("one", nursery.program(SLEEPS))
        await asyncio.wait_for(stopped.asFuture(asyncio.get_running_loop()), 10)
        await until(lambda: nursery.supervisor.pids, "the next")
        assert nursery.supervisor.pids["one"] != pid
        assert not nursery.ends

    in_nursery(tmp_path, story)


def test_a_killed_warden_leaves_no_process_unsupervised(tmp_path: Path) -> None:
    """All processes end, and start again under a new warden."""

    async def story(nursery: Nursery) -> None:
        pid = await nursery.started(BRANCHED)
        await until(lambda: len(nursery.processes) == 3, "three processes")
        warden = nursery.supervisor.warden_pid
        assert warden is not None
        with capturedLogs():
            os.kill(warden, signal.SIGKILL)
            await until(lambda: nursery.ends, "its end")
        assert not program.marked(str(nursery.home))
        nursery.clock.advance(8.0)
        await until(lambda: nursery.supervisor.pids, "another")
        assert nursery.supervisor.pids["one"] != pid
        assert nursery.supervisor.warden_pid != warden

    in_nursery(tmp_path, story)


def test_an_earlier_end_is_not_reported_again_with_the_wardens(tmp_path: Path) -> None:
    """That process still waits for its next start; only running ones ended with the warden."""

    async def story(nursery: Nursery) -> None:
        await nursery.started(SLEEPS)
        with capturedLogs():
            nursery.supervisor.start("two", nursery.program("raise SystemExit(3)"))
            await until(lambda: nursery.ends, "its end")
            os.kill(nursery.supervisor.warden_pid or 0, signal.SIGKILL)
            await until(lambda: len(nursery.ends) > 1, "the other's end")
        assert [(process.name, process.why) for process in nursery.ends] == [
            ("two", "ended with code 3"),
            ("one", "ended with its warden"),
        ]

    in_nursery(tmp_path, story)


def test_stopping_no_running_process_returns_at_once(tmp_path: Path) -> None:
    """Unknown processes and those that wait for a start need no waiting."""

    async def story(nursery: Nursery) -> None:
        with capturedLogs():
            nursery.supervisor.start("one", nursery.program("raise SystemExit(3)"))
            await until(lambda: nursery.ends, "its end")
        for names in ([], ["nobody"], ["one"]):
            stopped = nursery.supervisor.stop(names, 1.0)
            await asyncio.wait_for(stopped.asFuture(asyncio.get_running_loop()), 10)
        assert not nursery.clock.getDelayedCalls()

    in_nursery(tmp_path, story)


def test_an_unresponsive_warden_is_replaced(tmp_path: Path) -> None:
    """Stopping does not wait for it beyond the limit."""

    async def story(nursery: Nursery) -> None:
        await nursery.started(SLEEPS)
        warden = nursery.supervisor.warden_pid
        assert warden is not None
        os.kill(warden, signal.SIGSTOP)
        stopped = nursery.supervisor.stop(["one"], 1.0)
        with capturedLogs():
            nursery.clock.advance(20.0)
            await asyncio.wait_for(stopped.asFuture(asyncio.get_running_loop()), 10)
        assert not program.marked(str(nursery.home))

    in_nursery(tmp_path, story)


def test_a_hanging_process_is_restarted(tmp_path: Path) -> None:
    """Its owner reports that it hangs."""

    async def story(nursery: Nursery) -> None:
        await nursery.started(STUBBORN)
        with capturedLogs():
            nursery.supervisor.again("one", 0.05)
            await until(lambda: nursery.ends, "its end")
        nursery.clock.advance(1.0)
        await until(lambda: nursery.supervisor.pids, "another")

    in_nursery(tmp_path, story)


def test_a_process_that_cannot_be_executed_is_reported(tmp_path: Path) -> None:
    """The report is like that of any other end."""

    async def story(nursery: Nursery) -> None:
        program = nursery.program(SLEEPS)
        missing = Program(
            **{name: getattr(program, name) for name in program.__slots__}
            | {"arguments": ("/no/such/program",)}
        )
        with capturedLogs():
            nursery.supervisor.start("one", missing)
            await until(lambda: nursery.ends, "its end")
        assert "could not be started" in nursery.ends[0].why

    in_nursery(tmp_path, story)


def test_processes_of_an_earlier_daemon_are_ended_at_the_start(tmp_path: Path) -> None:
    """Only those of the same state directory are ended."""

    async def story(nursery: Nursery) -> None:
        await nursery.started(BRANCHED)
        elsewhere = Nursery(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").mkdir()
        other = await elsewhere.started(SLEEPS)
        await until(lambda: len(nursery.processes) == 3, "three processes")
        with capturedLogs():
            second = nursery.another()
            assert not program.marked(str(nursery.home))
            assert program.parent_of(other) is not None
            second.close()
            await until(lambda: nursery.ends, "the first has noticed")
        elsewhere.supervisor.close()

    in_nursery(tmp_path, story)
