"""The terminal is drawn with few writes and restored at the end."""

import os
import select
import termios
from collections.abc import Iterator
from typing import TextIO

import pytest

from merkatd.demo.screen.terminal_screen import Terminal


@pytest.fixture
def ends() -> Iterator[tuple[int, TextIO]]:
    """Return both ends of a pseudo-terminal of 80 columns."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    with os.fdopen(slave, "r+b", buffering=0) as raw, open(raw.fileno(), "w", closefd=False) as end:
        yield master, end
    os.close(master)


def read(master: int, until: str) -> str:
    """Read until the output ends with this text; a terminal delivers it in pieces."""
    seen = ""
    while not seen.endswith(until):
        assert select.select([master], [], [], 10)[0], f"only {seen!r} came"
        seen += os.read(master, 1 << 16).decode()
    return seen


def test_only_changed_lines_are_written(ends: tuple[int, TextIO]) -> None:
    """Removed lines are erased."""
    master, end = ends
    with Terminal(end, end) as terminal:
        assert terminal.size() == (80, 24)
        terminal.draw(["one", "two", "three"])
        assert "two" in read(master, "three")
        terminal.draw(["one", "TWO", "three"])
        assert read(master, "TWO") == "\x1b[2;1HTWO"
        terminal.draw(["one", "TWO", "three"])
        terminal.draw(["one"])
        assert read(master, "\x1b[J") == "\x1b[2;1H\x1b[J"


def test_a_new_size_is_drawn_completely(ends: tuple[int, TextIO]) -> None:
    """The screen is cleared first."""
    master, end = ends
    with Terminal(end, end) as terminal:
        terminal.draw(["one", "two"])
        read(master, "two")
        termios.tcsetwinsize(end.fileno(), (50, 200))
        terminal.draw(["one", "two"])
        assert read(master, "two") == "\x1b[2J\x1b[1;1Hone\x1b[2;1Htwo"


def test_the_terminal_is_restored_after_an_error(ends: tuple[int, TextIO]) -> None:
    """Modes, cursor and the first screen are restored."""
    master, end = ends
    before = termios.tcgetattr(end)
    with pytest.raises(ZeroDivisionError):
        _fail_inside(Terminal(end, end), end, before)
    assert termios.tcgetattr(end) == before
    read(master, "\x1b[0m\x1b[?25h\x1b[?1049l")


def test_a_terminal_that_another_program_uses_keeps_its_modes(
    ends: tuple[int, TextIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After `make` was killed, its shell has the terminal; only the first screen returns."""
    master, end = ends
    with Terminal(end, end):
        shells = termios.tcgetattr(end)
        monkeypatch.setattr("os.tcgetpgrp", lambda _file: os.getpgrp() + 1)
        read(master, "\x1b[2J")
    assert termios.tcgetattr(end) == shells
    read(master, "\x1b[0m\x1b[?25h\x1b[?1049l")


def _fail_inside(terminal: Terminal, end: TextIO, before: list[object]) -> None:
    with terminal:
        assert termios.tcgetattr(end) != before
        raise ZeroDivisionError
