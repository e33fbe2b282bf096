"""Tables of a TOML file to sections, with every problem on the way collected."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from merkatd.config.lines import line_of
from merkatd.config.problems import MISSING, Path, Problem, closest
from merkatd.config.shape import Setting, settings_of
from merkatd.config.values import ValueProblemError, read

_NONE: frozenset[str] = frozenset()


class Reader:
    """Reads sections and remembers what was wrong; a bad value leaves the default."""

    def __init__(self, lines: dict[Path, int]) -> None:
        self.problems: list[Problem] = []
        self._lines = lines

    def complain(self, path: Path, message: str, value: Any = MISSING) -> None:
        """Note a problem with the line it is on."""
        self.problems.append(Problem(path, message, value, line_of(self._lines, path)))

    def section(self, default: Any, table: Any, path: Path, without: frozenset[str] = _NONE) -> Any:
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

    def _setting(self, setting: Setting, default: Any, value: Any, path: Path) -> Any:
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

    def _known(self, setting: Setting, default: Mapping[str, Any], table: Any, path: Path) -> Any:
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

    def _named(self, setting: Setting, section: type, table: Any, path: Path) -> Any:
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
