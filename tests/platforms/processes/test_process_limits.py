"""A process gets its secret, its limits and its share of the disk."""

import asyncio
import os
from pathlib import Path

from twisted.logger import capturedLogs

from merkatd.protocol.controller_kinds import SECRET_FD
from tests.bus.rig import until
from tests.platforms.processes.nursery import (
    SLEEPS,
    Nursery,
    in_nursery,
)


def test_a_secret_can_be_read_once_and_appears_nowhere(tmp_path: Path) -> None:
    """It is neither in the arguments nor in the environment."""

    async def story(nursery: Nursery) -> None:
        code = f"import os; fd = int(os.environ['{SECRET_FD}']); print(os.read(fd, 99)); "
        pid = await nursery.started(code + "print(os.read(fd, 99)); " + SLEEPS)
        await until(lambda: "here" in nursery.output(), "all said")
        assert nursery.output().split("\n")[:2] == ["b'the secret'", "b''"]
        for name in ("cmdline", "environ"):
            assert b"the secret" not in Path(f"/proc/{pid}/{name}").read_bytes()

    in_nursery(tmp_path, story)


def test_memory_cpu_time_and_files_are_limited(tmp_path: Path) -> None:
    """Each limit has its configured value."""

    async def story(nursery: Nursery) -> None:
        pid = await nursery.started(SLEEPS, memory_bytes=2**28, cpu_s=7, files=33)
        limits = Path(f"/proc/{pid}/limits").read_text()
        for name, most in (("address space", 2**28), ("cpu time", 7), ("open files", 33)):
            (line,) = (line for line in limits.splitlines() if line.startswith(f"Max {name}"))
            assert line.split()[len(name.split()) + 1] == str(most)
        assert os.getpriority(os.PRIO_PROCESS, pid) >= 5

    in_nursery(tmp_path, story)


def test_a_process_with_too_much_memory_fails_by_itself(tmp_path: Path) -> None:
    """Its own output has the reason."""

    async def story(nursery: Nursery) -> None:
        with capturedLogs():
            greedy = nursery.program("x = bytearray(2**30)", memory_bytes=2**28)
            nursery.supervisor.start("one", greedy)
            await until(lambda: nursery.ends, "its end")
        assert "MemoryError" in nursery.output()

    in_nursery(tmp_path, story)


def test_endless_output_does_not_fill_the_disk(tmp_path: Path) -> None:
    """Two files of ten thousand bytes keep the newest output."""

    async def story(nursery: Nursery) -> None:
        talks = "import itertools\nfor row in itertools.count(): print(row)"
        await nursery.started(talks)
        await until((nursery.home / "one.log.1").exists, "a full file")
        await asyncio.sleep(0.1)
        stopped = nursery.supervisor.stop(["one"], 0.0)
        await asyncio.wait_for(stopped.asFuture(asyncio.get_running_loop()), 10)
        sizes = [file.stat().st_size for file in nursery.home.glob("one.log*")]
        assert len(sizes) == 2
        assert max(sizes) <= 10_000

    in_nursery(tmp_path, story)
