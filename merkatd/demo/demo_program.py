"""The demo as a program: what is shown where, signals, and the exit code."""

import os
import shutil
import signal
import sys
from contextlib import ExitStack
from typing import Any, TextIO

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.python.failure import Failure

from merkatd.api.control.control_client import ControlError
from merkatd.daemon.assembly import StartError
from merkatd.demo.coloured_text import bare, painted
from merkatd.demo.demo_run import Demo
from merkatd.demo.demo_site import DemoOptions, DemoSite
from merkatd.demo.display_state import DisplayedDecision, DisplayState
from merkatd.demo.real_guests import GuestsError
from merkatd.demo.terminal_frame import frame
from merkatd.demo.terminal_screen import Log, Terminal


class LiveScreen:
    """Draws frames on a terminal."""

    def __init__(self, terminal: Terminal, *, colours: bool) -> None:
        self._terminal = terminal
        self._drawn = painted if colours else bare

    def show(self, state: DisplayState, _decisions: list[DisplayedDecision]) -> None:
        """Draw it at the terminal's size."""
        lines = frame(state, *self._terminal.size())
        self._terminal.draw([self._drawn(line) for line in lines])


def show(reactor: Any, options: DemoOptions, output: TextIO, *, plain: bool) -> int:
    """Run a demo; the exit code is 0 where it ended by itself or was told to."""
    with ExitStack() as stack:
        site = stack.enter_context(DemoSite(options))
        command = f"{_program()} status --config {site.configuration}"
        if plain:
            log = Log(output)
            log.begin(command)
            demo = Demo(reactor, site, options, log, command)
        else:
            terminal = stack.enter_context(Terminal(output, sys.stdin))
            live = LiveScreen(terminal, colours="NO_COLOR" not in os.environ)
            demo = Demo(reactor, site, options, live, command)
        ending = _run(reactor, demo)
    if ending.failure is None:
        output.write("\n".join(ending.lines) + "\n")
        return 0
    _complain(ending.failure)
    return 1


class _Ending:
    """What became of a demo."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.failure: Failure | None = None

    def well(self, lines: list[str]) -> None:
        """It has a summary."""
        self.lines = lines

    def badly(self, failure: Failure) -> None:
        """It has none."""
        self.failure = failure


def _run(reactor: Any, demo: Demo) -> _Ending:
    ending, over = _Ending(), Deferred[None]()

    def begin() -> None:
        playing = ensureDeferred(demo.play())
        playing.addCallbacks(ending.well, ending.badly)
        playing.addBoth(finish)

    def finish(_nothing: object) -> None:
        over.callback(None)
        if reactor.running:
            reactor.stop()

    def stop() -> Deferred[None]:
        demo.end()
        return over

    # Before anything is drawn: whoever sees it may hang up.
    reactor.callWhenRunning(_end_when_the_terminal_does, reactor)
    reactor.callWhenRunning(begin)
    reactor.addSystemEventTrigger("before", "shutdown", stop)
    reactor.run()
    return ending


def _end_when_the_terminal_does(reactor: Any) -> None:
    signal.signal(signal.SIGHUP, lambda *_: reactor.callFromThread(reactor.stop))


def _program() -> str:
    """How this program was called, so that it can be called alike in another terminal."""
    called = sys.argv[0]
    return called if shutil.which(called) else "merkatd"


def _complain(failure: Failure) -> None:
    error = failure.value
    if isinstance(error, BrokenPipeError):
        raise error
    expected = isinstance(error, OSError | ControlError | StartError | GuestsError)
    sys.stderr.write(f"merkatd demo: {error if expected else failure.getTraceback()}\n")
