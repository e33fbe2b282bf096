"""One run of a program: whatever happens, it ends with an exit code and one line, no traceback."""

import contextlib
import os
import sys
import traceback
from collections.abc import Callable

from merkatd.commands.terminal.command_parser import NOT_DONE, one_line
from merkatd.commands.words.ways_out import os_reason

INTERRUPTED = 130
TRACEBACKS = "MERKAT_TRACEBACK"
"""The variable of the environment that shows where an unexpected error happened."""


def run_program(program: str, work: Callable[[], int]) -> int:
    """Run the work of a program and return the exit code of the process."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # the terminal may lack some characters
    try:
        return _flushed(work)
    except BrokenPipeError:  # the reader of the output has closed the pipe
        _drop_output()
        return NOT_DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        _drop_output()
        return _fail(program, os_reason(error))
    except Exception as error:  # noqa: BLE001 - a user can't act on a traceback
        if os.environ.get(TRACEBACKS):
            traceback.print_exc()
        kind, why = type(error).__name__, str(error)
        text = f"unexpected error ({kind}{': ' if why else ''}{why})"
        return _fail(program, f"{text}; please report it, with the output under {TRACEBACKS}=1")


def _flushed(work: Callable[[], int]) -> int:
    """Run the work and write all its output, also after `--help`, which exits."""
    try:
        code = work()
    except SystemExit:
        sys.stdout.flush()
        raise
    sys.stdout.flush()
    return code


def _drop_output() -> None:
    """Drop what could not be written: Python would try again at its end, and complain."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(program: str, why: str) -> int:
    with contextlib.suppress(OSError):
        print(one_line(f"{program}: {why}"), file=sys.stderr)
    return NOT_DONE
