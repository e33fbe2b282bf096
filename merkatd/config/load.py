"""From the text of a configuration to its value; reading the file is a step of its own."""

import re
import tomllib
from pathlib import Path

from merkatd.config.checks import conflicts
from merkatd.config.lines import lines_of
from merkatd.config.model import Config
from merkatd.config.problems import ConfigError, Problem
from merkatd.config.reader import Reader

_LINE = re.compile(r" \(at line (?P<line>[0-9]+), column [0-9]+\)")


def load(path: Path) -> Config:
    """The configuration in a file; ConfigError holds all that is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(path), [Problem((), f"can't be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        problem = Problem((), f"must be UTF-8; byte {error.start} is none")
        raise ConfigError(str(path), [problem]) from error
    return parse(text, str(path))


def parse(text: str, source: str = "configuration") -> Config:
    """The configuration in a text; `source` is what its problems call it."""
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(source, [_syntax(error)]) from error
    reader = Reader(lines_of(text))
    config: Config = reader.section(Config(), table, ())
    bad = {problem.path for problem in reader.problems}
    for conflict in conflicts(config):
        # A key that was not understood has its default here: nothing follows from that.
        if not bad.intersection(conflict.keys):
            reader.complain(conflict.keys[0], conflict.message)
    if reader.problems:
        raise ConfigError(source, sorted(reader.problems, key=lambda one: one.line or 0))
    return config


def _syntax(error: Exception) -> Problem:
    if isinstance(error, RecursionError):
        return Problem((), "is nested too deeply")
    match = _LINE.search(str(error))
    line = int(match["line"]) if match else None
    return Problem((), f"is no TOML: {_LINE.sub('', str(error))}", line=line)
