"""Tests in several processes, forked after one collection.

Each process takes the next unit when it runs the last test of its unit. Its reports go to the
first process, which prints them.
"""

import itertools
import multiprocessing
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, Protocol

import pytest

Unit = Sequence[pytest.Item]

_NUMBER = struct.Struct("H")


class _Capture(Protocol):
    """The part of pytest's capture manager that a new process needs."""

    def stop_global_capturing(self) -> None: ...
    def start_global_capturing(self) -> None: ...
    def suspend_global_capture(self, in_: bool = False) -> None: ...


def run_units(
    session: pytest.Session,
    units: Sequence[Unit],
    processes: int,
    begin: Callable[[], None] = lambda: None,
) -> None:
    """Run all tests in this many processes, each of which begins so, and report them here."""
    numbers = _numbers_below(len(units))
    readers: list[Connection] = []
    workers: list[ForkProcess] = []
    for number in range(min(processes, len(units))):
        reader, writer = multiprocessing.Pipe(duplex=False)
        readers.append(reader)
        arguments = (session, units, numbers, tuple(readers), writer, number, begin)
        worker = multiprocessing.get_context("fork").Process(target=_work, args=arguments)
        worker.start()
        writer.close()
        workers.append(worker)
    os.close(numbers)
    try:
        _report(session, readers, {item.nodeid for unit in units for item in unit})
    finally:
        # Without a reader, the others end after their test.
        for reader in readers:
            reader.close()
        for worker in workers:
            worker.join()


def _numbers_below(count: int) -> int:
    """Return a pipe from which all processes read numbers of units."""
    reading, writing = os.pipe()
    os.write(writing, b"".join(map(_NUMBER.pack, range(count))))
    os.close(writing)
    return reading


def _report(session: pytest.Session, readers: Sequence[Connection], unfinished: set[str]) -> None:
    """Pass what the processes send to pytest, until all have ended."""
    hook = session.config.hook
    running: dict[Any, str] = {}
    open_ = list(readers)
    while open_:
        for reader in wait(open_):
            assert isinstance(reader, Connection)
            try:
                name, arguments = reader.recv()
            except EOFError:
                open_.remove(reader)
                continue
            if name == "pytest_runtest_logstart":
                running[reader] = arguments["nodeid"]
            elif name == "pytest_runtest_logfinish":
                unfinished.discard(running.pop(reader))
            elif name == "pytest_runtest_logreport":
                report = hook.pytest_report_from_serializable(config=session.config, data=arguments)
                arguments = {"report": report}
            getattr(hook, name)(**arguments)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
    crashed = set(running.values())
    for nodeid in sorted(unfinished):
        hook.pytest_runtest_logreport(report=_lost_test(nodeid, crashed=nodeid in crashed))


def _lost_test(nodeid: str, *, crashed: bool) -> pytest.TestReport:
    """Return the report of a test that ended with its process, or was never begun."""
    message = "its process ended during this test" if crashed else "its process ended before it"
    place = (nodeid.partition("::")[0], None, nodeid)
    return pytest.TestReport(nodeid, place, {}, "failed", f"{nodeid}: {message}", "call")


class _Sender:
    """A plugin that sends what a process reports."""

    def __init__(self, session: pytest.Session, writer: Connection) -> None:
        self._session = session
        self._writer = writer

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self._send("pytest_runtest_logstart", {"nodeid": nodeid, "location": location})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        config = self._session.config
        data = config.hook.pytest_report_to_serializable(config=config, report=report)
        self._send("pytest_runtest_logreport", data)

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        self._send("pytest_runtest_logfinish", {"nodeid": nodeid, "location": location})

    def pytest_warning_recorded(
        self, warning_message: Any, when: str, nodeid: str, location: Any
    ) -> None:
        arguments = {"when": when, "nodeid": nodeid, "location": location}
        self._send("pytest_warning_recorded", {"warning_message": warning_message} | arguments)

    def _send(self, name: str, arguments: dict[str, Any]) -> None:
        try:
            self._writer.send((name, arguments))
        except BrokenPipeError:
            self._session.shouldstop = "the first process has ended"


def _work(
    session: pytest.Session,
    units: Sequence[Unit],
    numbers: int,
    readers: Sequence[Connection],
    writer: Connection,
    number: int,
    begin: Callable[[], None],
) -> None:
    """Run tests in this process until no unit is left."""
    for reader in readers:
        reader.close()
    begin()
    _separate(session.config, number)
    session.config.pluginmanager.register(_Sender(session, writer))
    try:
        for item, following in _pairs(units, numbers):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail or session.shouldstop:
                break
    except KeyboardInterrupt:
        # The first process was interrupted, too, and says so.
        pass
    finally:
        session._setupstate.teardown_exact(None)


def _separate(config: pytest.Config, number: int) -> None:
    """Give this process its own capture and temporary folder, and let it print nothing."""
    config.pluginmanager.unregister(name="terminalreporter")
    capture: _Capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture(in_=False)
    folders: Any = config
    folders._tmp_path_factory._basetemp = folders._tmp_path_factory.mktemp(f"p{number}", False)


def _pairs(units: Sequence[Unit], numbers: int) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Return each test of this process with the one that follows it."""

    def next_unit() -> Unit:
        packed = os.read(numbers, _NUMBER.size)
        return units[_NUMBER.unpack(packed)[0]] if packed else ()

    unit = next_unit()
    while unit:
        yield from itertools.pairwise(unit)
        following = next_unit()
        yield unit[-1], following[0] if following else None
        unit = following


def units_by(name_of: Callable[[str], str], items: Sequence[pytest.Item]) -> list[Unit]:
    """Return the tests of each unit, in the order of their first ones."""
    units: dict[str, list[pytest.Item]] = {}
    for item in items:
        units.setdefault(name_of(item.nodeid.partition("::")[0]), []).append(item)
    return list(units.values())
