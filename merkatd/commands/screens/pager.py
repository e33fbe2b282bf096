"""A pager for answers that are longer than the terminal."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

_USUAL = "less -FRSX"


def paged(lines: Sequence[str], environment: Mapping[str, str] = os.environ) -> bool:
    """Show the lines in a pager; return whether it did. It does not for lines that fit."""
    if not _is_terminal():
        return False
    if len(lines) < shutil.get_terminal_size((80, 24)).lines:
        return False
    words = _pager(environment)
    if not words or shutil.which(words[0]) is None:
        return False
    text = "".join(f"{line}\n" for line in lines)
    sys.stdout.flush()
    try:
        subprocess.run(words, input=text.encode(errors="replace"), check=False)  # noqa: S603 - the user's own choice
    except OSError:
        return False
    return True


def _is_terminal() -> bool:
    return sys.stdout.isatty() and sys.stdin.isatty()


def _pager(environment: Mapping[str, str]) -> list[str]:
    """Return the words of MERKAT_PAGER, else PAGER, else less; none if they can't be read."""
    chosen = environment.get("MERKAT_PAGER", environment.get("PAGER", _USUAL))
    try:
        return shlex.split(chosen)
    except ValueError:
        return []
