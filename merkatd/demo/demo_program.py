"""The demo as a program: display, signals, exit code."""

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
from merkatd.demo.demo_options import DemoOptions
from merkatd.demo.demo_run import Demo, Watcher
from merkatd.demo.demo_site import DemoSite
from merkatd.demo.real_guests import GuestsError
from merkatd.demo.screen.coloured_text import bare, painted
from merkatd.demo.screen.display_state import DisplayedDecision, DisplayState
from merkatd.demo.screen.terminal_colours import Colours, colours_of
from merkatd.demo.screen.terminal_frame import frame
from merkatd.demo.screen.terminal_screen import Log, Terminal


class LiveScreen:
    """A display that draws frames on a terminal."""

    def __init__(self, terminal: Terminal, colours: Colours) -> None:
        self._terminal = terminal
        self._colours = colours
        self._drawn = bare if colours is Colours.NONE else painted

    def show(self, state: DisplayState, _decisions: list[DisplayedDecision]) -> None:
        """Draw the state at the terminal's size."""
        lines = frame(state, *self._terminal.size(), self._colours)
        self._terminal.draw([self._drawn(line) for line in lines])


def show(reactor: Any, options: DemoOptions, output: TextIO, *, plain: bool) -> int:
    """Run a demo; return the exit code: 0 if it ended after its time or at an order, else 1."""
    with ExitStack() as stack:
        site = stack.enter_context(DemoSite(options))
        command = f"{_program()} status --config {site.configuration}"
        watcher: Watcher
        if plain:
            watcher = log = Log(output)
            log.begin(command)
        else:
            terminal = stack.enter_context(Terminal(output, sys.stdin))
            watcher = LiveScreen(terminal, colours_of(os.environ))
        demo = Demo(reactor, site, options, watcher, command)
        ending = _run(reactor, demo)
    if demo.is_compiling:
        # The compiler's thread can't be interrupted, and must not run while Python ends.
        output.flush()
        os._exit(0)
    if ending.failure is None:
        output.write("".join(f"{line}\n" for line in ending.lines))
        return 0
    _complain(ending.failure)
    return 1


class _Ending:
    """The result of a demo: its summary, or its failure."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.failure: Failure | None = None

    def well(self, lines: list[str]) -> None:
        """Record the summary of a demo that succeeded."""
        self.lines = lines

    def badly(self, failure: Failure) -> None:
        """Record the failure of a demo."""
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

    # Handle SIGHUP before the first frame is drawn: the terminal can close at any time after it.
    reactor.callWhenRunning(_end_when_the_terminal_does, reactor)
    reactor.callWhenRunning(begin)
    reactor.addSystemEventTrigger("before", "shutdown", stop)
    reactor.run()
    return ending


def _end_when_the_terminal_does(reactor: Any) -> None:
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return  # started with nohup
    signal.signal(signal.SIGHUP, lambda *_: reactor.callFromThread(reactor.stop))


def _program() -> str:
    """Return the name of this program for a command in another terminal."""
    called = sys.argv[0]
    return called if shutil.which(called) else "merkatd"


def _complain(failure: Failure) -> None:
    error = failure.value
    if isinstance(error, BrokenPipeError):
        raise error
    expected = isinstance(error, OSError | ControlError | StartError | GuestsError)
    sys.stderr.write(f"merkatd demo: {error if expected else failure.getTraceback()}\n")
