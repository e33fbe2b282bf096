"""Platforms' processes run by a daemon: hanging ones are replaced, failing ones are given up."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from merkatd.bus.platform_processes import PlatformProcesses
from merkatd.bus.settings import BusSettings
from merkatd.platforms.processes import program
from merkatd.protocol.platform_messages import SetBids, SetSize
from tests.bus.rig import Notes, assignment, news, parts, until, watched

HANGING = """
import time
from controllers.controller import Controller

class Hanging(Controller):
    async def on_start(self):
        self.memory.setdefault("lives", 0)

    async def on_price(self, news):
        await self.set_size("workers", 2)
        time.sleep(600)
"""
FAILING = """
from controllers.controller import Controller

class Failing(Controller):
    async def on_start(self):
        raise RuntimeError("a bug of mine")
"""


ASKING = """
from controllers.controller import Controller

class Asking(Controller):
    async def on_start(self):
        await self.set_size("workers", 2)
"""


MONITOR = """
from controllers.monitors.monitor import Monitor

class Blind(Monitor):
    async def watch(self):
        raise RuntimeError("there is nothing to see")
"""


COUNTING = """
from controllers.monitors.monitor import Monitor

class Counting(Monitor):
    async def look(self):
        return 1.0, {"arrivals_per_s": 3.0}
"""


class House:
    """Processes whose clock the test advances."""

    def __init__(self, home: Path) -> None:
        self.notes = Notes()
        self.clock: Any = Clock()
        self.processes = PlatformProcesses(
            home, self.clock, np.random.default_rng(1), BusSettings(restart_tries=2)
        )
        self.processes.attend(self.notes)

    async def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine of the ports."""
        await ensureDeferred(work).asFuture(asyncio.get_running_loop())


def in_house(home: Path, story: Callable[[House], Coroutine[Any, Any, None]], **files: str) -> None:
    """Run a story with a site's own controllers; check that no process remains."""
    (home / "controllers").mkdir()
    for name, text in files.items():
        (home / "controllers" / f"{name}.py").write_text(text)

    async def played() -> None:
        house = House(home)
        try:
            with capturedLogs():
                await story(house)
        finally:
            await house.do(house.processes.close())
            assert not program.marked(str(home))
            assert not house.clock.getDelayedCalls()

    asyncio.run(played())


def test_a_hanging_controller_is_ended_and_replaced(tmp_path: Path) -> None:
    """A controller without a sign of life for a minute is ended, and another continues."""

    async def story(house: House) -> None:
        await house.do(house.processes.start(assignment(1, "hanging")))

        def acted(times: int) -> bool:
            house.processes.announce(*parts(news(1)))
            wishes = [action for *_, action in house.notes.actions if isinstance(action, SetSize)]
            return len(wishes) >= times

        await until(lambda: acted(1), "an action")
        (first,) = house.processes.supervisor.pids.values()
        house.clock.pump([15.0] * 3)
        assert not house.notes.ends
        house.clock.pump([15.0] * 2)
        await until(lambda: house.notes.ends, "its end")
        assert house.notes.ends[0][::2] == (1, False)
        house.clock.advance(1.0)
        await until(lambda: acted(2), "an action of the next")
        assert list(house.processes.supervisor.pids.values()) != [first]

    in_house(tmp_path, story, hanging=HANGING)


def test_a_controller_that_always_fails_is_given_up(tmp_path: Path) -> None:
    """The manager receives each end and the last one; the output has the reason."""

    async def story(house: House) -> None:
        await house.do(house.processes.start(assignment(1, "failing")))
        for number in (1, 2, 3):
            await until(lambda: len(house.notes.ends) == number, "an end")  # noqa: B023
            house.clock.advance(2.0)
        assert [final for *_, final in house.notes.ends] == [False, False, True]
        log = tmp_path / "platforms" / "1" / "controller.log"
        wanted = f"ended with code 1: RuntimeError: a bug of mine (log: {log})"
        assert {why for _, why, _ in house.notes.ends} == {wanted}
        text = log.read_text()
        assert text.count("RuntimeError: a bug of mine") == 3

    in_house(tmp_path, story, failing=FAILING)


def test_without_a_controller_only_monitors_run(tmp_path: Path) -> None:
    """They measure a declared application, and the daemon keeps what they measure."""

    async def story(house: House) -> None:
        assert house.processes.readings(1) == {}
        await house.do(house.processes.start(watched(assignment(1, "none"), "counting")))
        await until(lambda: house.processes.readings(1), "a measurement")
        assert list(house.processes.supervisor.pids) == ["1/monitor-0"]
        (reading,) = house.processes.readings(1).values()
        assert reading.values == {"arrivals_per_s": 3.0}
        await house.do(house.processes.stop(1, 5.0))
        assert not house.processes.readings(1)

    in_house(tmp_path, story, counting=COUNTING)


def away(*_: object) -> None:
    """What a database says that can't be reached."""
    raise sa.exc.OperationalError("INSERT", {}, OSError("no server"))


def test_a_controller_is_not_given_up_for_a_failure_of_the_daemon(tmp_path: Path) -> None:
    """The database does not answer for longer than all its tries take."""

    async def story(house: House) -> None:
        async def before(_: int) -> None:
            away()

        house.notes.before = before
        await house.do(house.processes.start(assignment(1, "asking")))
        for number in range(1, 6):
            await until(lambda: len(house.notes.ends) == number, "an end")  # noqa: B023
            if number == 5:
                house.notes.before = None
            house.clock.advance(400.0)
        assert [final for *_, final in house.notes.ends] == [False] * 5
        await until(lambda: house.notes.actions, "an action")

    in_house(tmp_path, story, asking=ASKING)


def test_a_controller_whose_last_end_is_not_stored_is_started_again(tmp_path: Path) -> None:
    """Its platform would go on without one for ever."""

    async def story(house: House) -> None:
        ended, times = house.notes.ended, [0]

        async def count_end(platform: int, why: str, *, final: bool) -> None:
            times[0] += 1
            if final and times[0] == 3:
                away()
            await ended(platform, why, final=final)

        house.notes.ended = count_end  # type: ignore[method-assign]
        await house.do(house.processes.start(assignment(1, "failing")))
        for number in range(1, 7):
            await until(lambda: times[0] == number, "an end")  # noqa: B023
            house.clock.advance(2.0)
        assert [final for *_, final in house.notes.ends] == [False, False, False, False, True]

    in_house(tmp_path, story, failing=FAILING)


def test_a_failing_monitor_is_reported_and_restarted(tmp_path: Path) -> None:
    """The monitor restarts after each failure, and its output has the reason."""

    async def story(house: House) -> None:
        await house.do(house.processes.start(watched(assignment(1, "hanging"), "blind")))
        for number in range(1, 5):
            await until(lambda: len(house.notes.monitor_ends) == number, "an end")  # noqa: B023
            house.clock.advance(400.0)
        log = tmp_path / "platforms" / "1" / "monitor-0.log"
        why = f"ended with code 1: RuntimeError: there is nothing to see (log: {log})"
        assert set(house.notes.monitor_ends) == {(1, 0, why)}

    in_house(tmp_path, story, hanging=HANGING, blind=MONITOR)


def test_an_unknown_kind_of_controller_is_reported(tmp_path: Path) -> None:
    """The output lists the known kinds."""

    async def story(house: House) -> None:
        await house.do(house.processes.start(assignment(1, "no-such")))
        await until(lambda: house.notes.ends, "an end")
        text = (tmp_path / "platforms" / "1" / "controller.log").read_text()
        assert "the kind of a controller must be one of best_effort" in text
        assert "(got 'no-such')" in text

    in_house(tmp_path, story, failing=FAILING)


def test_best_effort_bids_as_a_process(tmp_path: Path) -> None:
    """The controller of Merkat's own package runs as a process and bids."""

    async def story(house: House) -> None:
        await house.do(house.processes.start(assignment(1)))

        def acted() -> bool:
            house.processes.announce(*parts(news(1)))
            return bool(house.notes.actions)

        await until(acted, "an action")
        await until(lambda: house.notes.memories, "its memory")
        assert {type(action) for _, _, action in house.notes.actions} == {SetBids}

    in_house(tmp_path, story)


def test_nothing_is_started_without_platforms(tmp_path: Path) -> None:
    """There is no socket, no key and no process."""

    async def story(house: House) -> None:
        house.processes.announce([], [])
        await house.do(house.processes.stop(7, 1.0))
        assert [path.name for path in tmp_path.iterdir()] == ["controllers"]

    in_house(tmp_path, story)
