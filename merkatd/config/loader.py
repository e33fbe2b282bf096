"""The loader of the configuration: it reports every problem with its line."""

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
    """Return the line number, from 1, of each section and key that starts a line."""
    lines: dict[KeyPath, int] = {}
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
            lines.setdefault(section, number)
        elif key is not None:
            lines.setdefault((*section, *_path(f"{key['name']} = 0")), number)
    return lines


def line_of(lines: dict[KeyPath, int], path: KeyPath) -> int | None:
    """Return the line of a key, or of the innermost section around it that has a line."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def _path(text: str) -> KeyPath:
    """Return the names in a header or a key; the TOML parser resolves quotes and dots."""
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
    """Reads sections and collects problems; an invalid value leaves the default."""

    def __init__(self, lines: dict[KeyPath, int]) -> None:
        self.problems: list[Problem] = []
        self._lines = lines

    def complain(self, path: KeyPath, message: str, value: Any = MISSING) -> None:
        """Record a problem with its line."""
        self.problems.append(Problem(path, message, value, line_of(self._lines, path)))

    def section(
        self, default: Any, table: Any, path: KeyPath, without: frozenset[str] = _NONE
    ) -> Any:
        """Return the default section, changed by the keys of the table."""
        if not isinstance(table, dict):
            self.complain(path, f"must be a section: write [{'.'.join(path)}] on a line of its own")
            return default
        settings = {setting.key: setting for setting in settings_of(type(default), without)}
        values, chosen = {}, list[tuple[Setting, Any]]()
        for key, value in table.items():
            setting = settings.get(key)
            if setting is None:
                what = "key" if path else "section"
                hint = closest(key, settings)
                self.complain((*path, key), f"is not a known {what}; {hint}")
                continue
            if setting.rules.chosen_by is not None:
                chosen.append((setting, value))
                continue
            present = getattr(default, setting.name)
            values[setting.name] = self._setting(setting, present, value, (*path, key))
        read = replace(default, **values)
        changes = {
            setting.name: self._changes(setting, getattr(read, chosen_by), value, path)
            for setting, value in chosen
            if (chosen_by := setting.rules.chosen_by) is not None
        }
        return replace(read, **changes)

    def _changes(self, setting: Setting, chosen: str, table: Any, path: KeyPath) -> Any:
        """Return the changed fields of a section whose type another key chooses."""
        if any(problem.path == (*path, setting.rules.chosen_by) for problem in self.problems):
            # The other key is invalid, so the keys of this section can't be judged.
            return setting.default
        default, without = setting.rules.among[chosen](), setting.rules.without
        path = (*path, setting.key)
        read = self.section(default, table, path, without)
        given = table if isinstance(table, dict) else {}
        fields = {known.key: known.name for known in settings_of(type(default), without)}
        return {name: getattr(read, name) for key, name in fields.items() if key in given}

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
        """Read sections whose names are fixed, each of its own type."""
        if not isinstance(table, dict):
            self.complain(path, f"must contain sections: write [{'.'.join(path)}.NAME]")
            return default
        sections = dict(default)
        for name, value in table.items():
            if name not in default:
                hint = closest(name, default)
                self.complain((*path, name), f"is not a known section; {hint}")
                continue
            sections[name] = self.section(
                default[name], value, (*path, name), setting.rules.without
            )
        return sections

    def _named(self, setting: Setting, section: type, table: Any, path: KeyPath) -> Any:
        """Read sections whose names the file chooses."""
        if not isinstance(table, dict):
            self.complain(path, f"must contain sections: write [{'.'.join(path)}.NAME]")
            return setting.default
        sections = {}
        for name, value in table.items():
            wrong = setting.rules.check_name(name) if setting.rules.check_name else None
            if wrong is not None:
                self.complain((*path, name), wrong)
            sections[name] = self.section(section(), value, (*path, name), setting.rules.without)
        return sections


_LINE = re.compile(r" \(at line (?P<line>[0-9]+), column [0-9]+\)")


def load(path: Path) -> Config:
    """Return the configuration in a file. Raise ConfigError with all its problems."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(path), [Problem((), f"can't be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        problem = _wrong_file(error.object[:2].decode("latin-1"))
        problem = problem or Problem((), f"must be UTF-8: byte {error.start} is not")
        raise ConfigError(str(path), [problem]) from error
    return parse(text, str(path))


def parse(text: str, source: str = "configuration") -> Config:
    """Return the configuration in a text; problems name it by `source`. Raise ConfigError."""
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        problem = _wrong_file(text) or _syntax(error)
        raise ConfigError(source, [problem]) from error
    reader = Reader(lines_of(text))
    config: Config = reader.section(Config(), table, ())
    bad = {problem.path for problem in reader.problems}
    for conflict in conflicts(config):
        # An invalid key has its default here, so a conflict with it would mislead.
        if not bad.intersection(conflict.keys):
            reader.complain(conflict.keys[0], conflict.message)
    if reader.problems:
        raise ConfigError(source, sorted(reader.problems, key=lambda problem: problem.line or 0))
    return config


def _wrong_file(text: str) -> Problem | None:
    """Return the problem of a snapshot that is given as configuration, or None."""
    if not text.lstrip().startswith(("{", "PK")):
        return None
    return Problem(
        (),
        "is a snapshot, not a configuration; `merkatd plan --snapshot FILE` decides from one",
    )


def _syntax(error: Exception) -> Problem:
    if isinstance(error, RecursionError):
        return Problem((), "is nested too deeply")
    match = _LINE.search(str(error))
    line = int(match["line"]) if match else None
    return Problem((), f"must be valid TOML: {_LINE.sub('', str(error))}", line=line)
