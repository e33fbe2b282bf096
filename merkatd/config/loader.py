"""From text to a configuration, with every problem and its line."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from merkatd.config.configuration import Config
from merkatd.config.cross_checks import conflicts
from merkatd.config.errors import MISSING, ConfigError, KeyPath, Problem, closest
from merkatd.config.setting_schema import Setting, settings_of
from merkatd.config.setting_values import ValueProblemError, read

_HEADER = re.compile(r"\s*\[\[?(?P<name>[^#]*?)\]\]?\s*(#.*)?")
_KEY = re.compile(r"\s*(?P<name>(\"[^\"]*\"|'[^']*'|[^=#\"'\[{])+?)\s*=")
_FENCE = re.compile(r"\"\"\"|'''")


def lines_of(text: str) -> dict[KeyPath, int]:
    """The line of every section and key that stands at the start of one, counted from 1."""
    found: dict[KeyPath, int] = {}
    section: KeyPath = ()
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


def line_of(lines: dict[KeyPath, int], path: KeyPath) -> int | None:
    """The line of a key, or of the nearest thing around it that has one."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def _path(text: str) -> KeyPath:
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


_NONE: frozenset[str] = frozenset()


class Reader:
    """Reads sections and remembers what was wrong; a bad value leaves the default."""

    def __init__(self, lines: dict[KeyPath, int]) -> None:
        self.problems: list[Problem] = []
        self._lines = lines

    def complain(self, path: KeyPath, message: str, value: Any = MISSING) -> None:
        """Note a problem with the line it is on."""
        self.problems.append(Problem(path, message, value, line_of(self._lines, path)))

    def section(
        self, default: Any, table: Any, path: KeyPath, without: frozenset[str] = _NONE
    ) -> Any:
        """The default with everything that the table says."""
        if not isinstance(table, dict):
            self.complain(path, f"is a section: write [{'.'.join(path)}] on a line of its own")
            return default
        settings = {setting.key: setting for setting in settings_of(type(default), without)}
        said = {}
        for key, value in table.items():
            setting = settings.get(key)
            if setting is None:
                what = "key" if path else "section"
                hint = closest(key, settings)
                self.complain((*path, key), f"is no {what} that anybody knows; {hint}")
                continue
            present = getattr(default, setting.name)
            said[setting.name] = self._setting(setting, present, value, (*path, key))
        return replace(default, **said)

    def _setting(self, setting: Setting, default: Any, value: Any, path: KeyPath) -> Any:
        if setting.section is not None:
            return self.section(default, value, path)
        if setting.rules.fixed:
            return self._known(setting, default, value, path)
        if setting.sections is not None:
            return self._named(setting, setting.sections, value, path)
        try:
            return read(setting, value)
        except ValueProblemError as error:
            self.complain(path, str(error), "(hidden)" if setting.rules.secret else value)
            return default

    def _known(
        self, setting: Setting, default: Mapping[str, Any], table: Any, path: KeyPath
    ) -> Any:
        """Sections of which all names are known, each of a type of its own."""
        if not isinstance(table, dict):
            self.complain(path, f"holds sections: write [{'.'.join(path)}.NAME]")
            return default
        said = dict(default)
        for name, value in table.items():
            if name not in default:
                hint = closest(name, default)
                self.complain((*path, name), f"is no section that anybody knows; {hint}")
                continue
            said[name] = self.section(default[name], value, (*path, name), setting.rules.without)
        return said

    def _named(self, setting: Setting, section: type, table: Any, path: KeyPath) -> Any:
        """Sections that the file names itself."""
        if not isinstance(table, dict):
            self.complain(path, f"holds sections: write [{'.'.join(path)}.NAME]")
            return setting.default
        said = {}
        for name, value in table.items():
            wrong = setting.rules.check_name(name) if setting.rules.check_name else None
            if wrong is not None:
                self.complain((*path, name), wrong)
            said[name] = self.section(section(), value, (*path, name), setting.rules.without)
        return said


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
