"""What a process wrote last: for one that ended by an exception, that exception."""

from pathlib import Path
from typing import Final

_MOST_BYTES: Final = 8192
_LONGEST: Final = 300


def last_words(log: Path) -> str:
    """Return the last line of a log that says something; empty where there is none."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - _MOST_BYTES, 0))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines()]
    said = next((line for line in reversed(lines) if line), "")
    return "".join(one for one in said if one.isprintable())[:_LONGEST]
