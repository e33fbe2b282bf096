"""The files on the page about controllers run unchanged, on a real bus."""

import asyncio
import re
from pathlib import Path
from typing import Any

import numpy as np
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock

from controllers.controller import Controller
from controllers.monitors.monitor import Monitor
from merkatd.bus.platform_processes import PlatformProcesses
from merkatd.bus.settings import BusSettings
from merkatd.protocol.platform_messages import (
    ActionOutcome,
    ProgressReport,
    SetBids,
    SetSize,
    WorkDone,
)
from tests.bus.rig import Notes, assignment, news, parts, until, watched

PAGE = (Path(__file__).parents[2] / "docs/controllers.md").read_text()
PERIOD_S = 0.02


def files() -> dict[str, str]:
    """Return the files on the page by name."""
    code = re.findall(r"`([a-z-]+\.py)`:\n\n```python\n(.*?)```", PAGE, re.DOTALL)
    return dict(code)


def test_the_pages_controller_has_at_most_forty_lines() -> None:
    """The page promises this."""
    assert set(files()) == {"queue-keeper.py", "queue-length.py"}
    assert len(files()["queue-keeper.py"].splitlines()) <= 40


def test_the_page_names_all_methods_to_override_or_call() -> None:
    """No reader has to search the code."""
    words = {name for kind in (Controller, Monitor) for name in vars(kind) if name[0] != "_"}
    for word in words - {"take", "watch"}:
        assert word in PAGE


def test_the_pages_controller_works_as_described(tmp_path: Path) -> None:
    """In processes of a daemon it bids, grows, shrinks and ends."""
    folder, queue = tmp_path / "controllers", tmp_path / "queue"
    folder.mkdir()
    queue.mkdir()
    for name, text in files().items():
        (folder / name).write_text(text)

    async def story() -> None:
        loop = asyncio.get_running_loop()
        clock: Any = Clock()
        notes = Notes()
        # The clock runs faster than processes start, so no process may count as silent.
        settings = BusSettings(silence_s=1e9)
        processes = PlatformProcesses(tmp_path, clock, np.random.default_rng(1), settings)
        processes.attend(notes)
        assigned = watched(
            assignment(1, "queue-keeper"), "queue-length", folder=str(queue), every_s=0.02
        )
        periods = iter(range(1, 10_000))

        def asked() -> list[Any]:
            """Another period; what was asked for until now."""
            clock.advance(1)
            processes.announce(*parts(news(1, next(periods), sizes={"workers": 2})))
            return [action for _, _, action in notes.actions]

        async def until_asked(wish: Any, what: str) -> None:
            while wish not in asked():
                await asyncio.sleep(PERIOD_S)
            assert isinstance(notes.taken[notes.actions[-1][1]], ActionOutcome), what

        try:
            for row in range(12):
                (queue / str(row)).touch()
            await ensureDeferred(processes.start(assigned)).asFuture(loop)
            bids = SetBids(bids={101: {"cpu": 5.0, "memory": 5.0}}, reason="a tenth of the balance")
            await until_asked(bids, "bids")
            grown = SetSize(cluster="workers", count=3, reason="12 wait")
            await until_asked(grown, "one more")
            await until_asked(ProgressReport(on_track=False, text="12 wait"), "a report")
            for row in range(12):
                (queue / str(row)).unlink()
            await until_asked(SetSize(cluster="workers", count=1, reason="0 wait"), "one less")
            await until_asked(WorkDone(reason="nothing has come for a while"), "done")
            log = tmp_path / "platforms" / "1" / "controller.log"
            assert log.read_text() == ""
            stopping = ensureDeferred(processes.stop(1, 10.0)).asFuture(loop)
            await asyncio.wait_for(stopping, 15)
            await until(lambda: not processes.supervisor.pids, "nobody")
            assert log.read_text() == ""
            assert not notes.ends
        finally:
            await ensureDeferred(processes.close()).asFuture(loop)

    async def in_time() -> None:
        await asyncio.wait_for(story(), 180)

    asyncio.run(in_time())
