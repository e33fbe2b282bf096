"""The output of a demo: frames on a terminal, or plain lines."""

import os
import termios
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, TextIO

from merkatd.demo.screen.display_state import DisplayedDecision, DisplayState


class Log:
    """Writes a line for each new period and decision."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._period = 0
        self._seen = 0

    def begin(self, command: str) -> None:
        """Write the command for a second terminal."""
        self._say(f"in a second terminal: {command}")

    def show(self, state: DisplayState, decisions: Sequence[DisplayedDecision]) -> None:
        """Write what is new; `decisions` are all decisions since the start."""
        if state.period != self._period:
            self._period = state.period
            self._say(period_line(state))
        for decision in decisions[self._seen :]:
            self._say(decision_line(decision))
        self._seen = len(decisions)

    def _say(self, line: str) -> None:
        self._output.write(f"{line}\n")
        self._output.flush()


def period_line(state: DisplayState) -> str:
    """Return a period as a line."""
    cpu = state.cpu_prices[-1] if state.cpu_prices else 0.0
    memory = state.memory_prices[-1] if state.memory_prices else 0.0
    who = " ".join(f"{tenant.name} {tenant.done:.0%}" for tenant in state.tenants if tenant.vms)
    return (
        f"period {state.period}: {state.running} VMs, {state.pending} pending;"
        f" a core costs {cpu:.3f}, a GiB {memory:.3f}; done: {who or 'nothing'}"
    )


def decision_line(decision: DisplayedDecision) -> str:
    """Return a decision as a line."""
    return f"    {decision.what}{f': {decision.why}' if decision.why else ''}"


_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"
_LOCAL, _CHARACTERS = 3, 6
"""The indices of the local modes and of the special characters in a termios list."""
_DISABLED = b"\0"


class Terminal:
    """The alternate screen of a terminal, without cursor and echo."""

    def __init__(self, output: TextIO, keyboard: TextIO) -> None:
        self._output = output
        self._keyboard = keyboard
        self._before: list[Any] | None = None
        self._size = (0, 0)
        self._shown: list[str] = []

    def __enter__(self) -> Self:
        if self._keyboard.isatty():
            self._before = termios.tcgetattr(self._keyboard)
            changed = termios.tcgetattr(self._keyboard)
            changed[_LOCAL] &= ~termios.ECHO
            # A suspended demo would leave the terminal in the alternate screen.
            changed[_CHARACTERS][termios.VSUSP] = _DISABLED
            termios.tcsetattr(self._keyboard, termios.TCSADRAIN, changed)
        self._write(_ENTER)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        try:
            self._write(_LEAVE)
        finally:
            if self._before is not None and not self._is_taken():
                termios.tcsetattr(self._keyboard, termios.TCSAFLUSH, self._before)

    def _is_taken(self) -> bool:
        """Return whether another program uses the terminal now, as a shell after a killed `make`.

        That program has set its own modes, and the system would stop a program that changes them.
        """
        try:
            return os.tcgetpgrp(self._keyboard.fileno()) != os.getpgrp()
        except OSError:  # not the terminal of this session
            return False

    def size(self) -> tuple[int, int]:
        """Return the present numbers of columns and lines."""
        try:
            size = os.get_terminal_size(self._output.fileno())
        except OSError:
            return 80, 24
        return size.columns or 80, size.lines or 24

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines; write only the changed ones, all in a single write."""
        size = self.size()
        text = ""
        if size != self._size:
            self._size, self._shown, text = size, [], "\x1b[2J"
        before = self._shown + [""] * (len(lines) - len(self._shown))
        for row, (old, new) in enumerate(zip(before, lines, strict=False), start=1):
            if old != new:
                text += f"\x1b[{row};1H{new}"
        if len(before) > len(lines):
            text += f"\x1b[{len(lines) + 1};1H\x1b[J"
        self._shown = list(lines)
        if text:
            self._write(text)

    def _write(self, text: str) -> None:
        self._output.write(text)
        self._output.flush()
