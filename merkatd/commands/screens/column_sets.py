"""Named sets of columns for `--listconf`: `all`, `default`, and those of a user's own file."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from merkatd.commands.terminal.table_columns import Column, ColumnsError, ScreenTable
from merkatd.commands.words.suggestions import hint

_LONGEST_FILE = 65_536


def columns_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the user's file of column sets."""
    home = environment.get("HOME")
    folder = environment.get("XDG_CONFIG_HOME") or (Path(home) if home else Path.home()) / ".config"
    return Path(folder) / "merkat" / "columns.toml"


def columns_of_set(
    table: ScreenTable, name: str, environment: Mapping[str, str] = os.environ
) -> list[Column]:
    """Return the columns of a set. Raise ColumnsError for unknown sets and columns."""
    if name == "all":
        return list(table.columns)
    if name == "default":
        return table.default()
    file = columns_file(environment)
    sets = _sets(file)
    if name not in sets:
        raise ColumnsError(f"unknown set of columns {name!r}; {hint(name, _known(sets))} ({file})")
    words = sets[name]
    if not isinstance(words, str):
        raise ColumnsError(f"{file}: {name} must be a text like ID,NAME (got {words!r})")
    try:
        return table.chosen(words)
    except ColumnsError as error:
        raise ColumnsError(f"{file}: {name}: {error}") from None


def _known(sets: Mapping[str, Any]) -> list[str]:
    return ["all", "default", *sets]


def _sets(file: Path) -> Mapping[str, Any]:
    """Return the sets in the file, none without a file. Raise ColumnsError."""
    try:
        with file.open("rb") as stream:
            content = stream.read(_LONGEST_FILE)
        return tomllib.loads(content.decode())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ColumnsError(f"{file}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ColumnsError(f"{file}: expected TOML: {error}") from None
