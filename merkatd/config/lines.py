"""On which line of a TOML text a key stands, for messages: the parser itself doesn't tell."""

import re
import tomllib
from typing import Any

from merkatd.config.problems import Path

_HEADER = re.compile(r"\s*\[\[?(?P<name>[^#]*?)\]\]?\s*(#.*)?")
_KEY = re.compile(r"\s*(?P<name>(\"[^\"]*\"|'[^']*'|[^=#\"'\[{])+?)\s*=")
_FENCE = re.compile(r"\"\"\"|'''")


def lines_of(text: str) -> dict[Path, int]:
    """The line of every section and key that stands at the start of one, counted from 1."""
    found: dict[Path, int] = {}
    section: Path = ()
    inside_text = False
    for number, line in enumerate(text.split("\n"), start=1):
        opens_or_closes = len(_FENCE.findall(line)) % 2 == 1
        if inside_text:
            inside_text = not opens_or_closes
            continue
        inside_text = opens_or_closes
        header, key = _HEADER.fullmatch(line), _KEY.match(line)
        if header is not None:
            section = _path(f"[{header['name']}]") or section
            found.setdefault(section, number)
        elif key is not None:
            found.setdefault((*section, *_path(f"{key['name']} = 0")), number)
    return found


def line_of(lines: dict[Path, int], path: Path) -> int | None:
    """The line of a key, or of the nearest thing around it that has one."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def _path(text: str) -> Path:
    """The names that a header or a key consists of; the parser knows about quotes and dots."""
    try:
        level: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return ()
    names = []
    while isinstance(level, dict) and level:
        ((name, level),) = level.items()
        names.append(name)
    return tuple(names)
