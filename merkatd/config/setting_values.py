"""The conversion of values from TOML to their types and back, and of a whole configuration."""

import json
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

from merkatd.base.quantities import Unit
from merkatd.config.configuration import Config
from merkatd.config.errors import KeyPath, similar
from merkatd.config.setting_schema import Setting, SettingRules, doc_of, settings_of

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
MAX_WHOLE_NUMBER = 2**53
"""The largest accepted whole number: a float can't represent every larger one exactly."""
_TOML_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


class ValueProblemError(ValueError):
    """The value is invalid; the message says which values are accepted."""


def read(setting: Setting, given: Any) -> Any:
    """Return the value of a setting. Raise ValueProblemError if it is invalid."""
    value = _read(setting, setting.hint, given)
    wrong = setting.rules.check(value) if setting.rules.check else None
    if wrong is not None:
        raise ValueProblemError(wrong)
    return value


def write(setting: Setting, value: Any) -> str:
    """Return the TOML text of this value."""
    if setting.unit is not None:
        return text_of(setting.unit.write(value))
    if setting.is_set:
        return f"[{', '.join(_write(item) for item in sorted(value or ()))}]"
    return _write(value)


def text_of(text: str) -> str:
    """Return a TOML string. TOML has the escapes of JSON, and also requires one for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def key_text(name: str) -> str:
    """Return a TOML key, in quotes if it needs them."""
    return name if _BARE.fullmatch(name) else text_of(name)


def _read(setting: Setting, wanted: Any, given: Any) -> Any:
    if setting.unit is not None:
        return _quantity(setting, setting.unit, given)
    if get_origin(wanted) is UnionType:
        items = _as(list, given)
        return frozenset(_read(setting, setting.element, item) for item in items) or None
    if get_origin(wanted) is Mapping:
        table = _as(dict, given)
        element = get_args(wanted)[1]
        return {name: _read(setting, element, item) for name, item in table.items()}
    return _read_plain(setting.rules, wanted, given)


def _read_plain(rules: SettingRules, wanted: type, given: Any) -> Any:
    if wanted in {int, float}:
        return _bounded(rules, _number(wanted, given))
    if wanted is Path:
        return Path(_filled(_as(str, given)))
    return _choice(wanted, given) if issubclass(wanted, StrEnum) else _as(wanted, given)


def _quantity(setting: Setting, unit: Unit, given: Any) -> float:
    if not isinstance(given, str):
        raise ValueProblemError(f'must be a text with a unit, for example "{unit.example}"')
    try:
        exact = unit.read(given)
        value = _whole(exact, unit) if setting.hint is int else float(exact)
    except OverflowError:
        raise ValueProblemError(f"is too large for a {unit.what}") from None
    except ValueError as error:
        raise ValueProblemError(str(error)) from None
    if unit.own == "%" and setting.rules.most is None and value > 1:
        raise ValueProblemError("must be at most 100%")
    return _bounded(setting.rules, value, unit.write)


def _whole(exact: Fraction, unit: Unit) -> int:
    if exact.denominator != 1:
        raise ValueProblemError(f"must be a whole number of {unit.own}")
    return exact.numerator


def _number(wanted: type, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ValueProblemError(f"must be {_TOML_NAMES[wanted]}")
    if wanted is int and isinstance(given, int):
        return given
    if wanted is int:
        raise ValueProblemError(f"must be {_TOML_NAMES[int]}")
    try:
        value = float(given)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise ValueProblemError("must be a finite number")
    return value


def _bounded(
    rules: SettingRules, value: float, text: Callable[[float], str] = "{:g}".format
) -> float:
    if rules.above is not None and value <= rules.above:
        raise ValueProblemError(f"must be above {text(rules.above)}")
    if value < rules.least:
        raise ValueProblemError(f"must be at least {text(rules.least)}")
    most = MAX_WHOLE_NUMBER if rules.most is None and isinstance(value, int) else rules.most
    if most is not None and value > most:
        raise ValueProblemError(f"must be at most {text(most)}")
    return value


def _choice(wanted: type[StrEnum], given: Any) -> StrEnum:
    words = [member.value for member in wanted]
    if given not in words:
        hint = similar(str(given), words)
        raise ValueProblemError(f"must be one of {', '.join(words)}{hint and f'; {hint}'}")
    return wanted(given)


def _filled(text: str) -> str:
    if not text or "\0" in text:
        raise ValueProblemError("must be the path of a file, without null characters")
    return text


def _as(wanted: type, given: Any) -> Any:
    if isinstance(given, wanted) and not (isinstance(given, bool) and wanted is not bool):
        return given
    names = {**_TOML_NAMES, list: "a list, as in [1, 2]", dict: "a table, as in { cpu = 1.0 }"}
    raise ValueProblemError(f"must be {names[wanted]}")


def _write(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = [f"{key_text(name)} = {_write(item)}" for name, item in value.items()]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return text_of(str(value))


WIDTH = 96


def to_toml(config: Config, *, explained: bool = False) -> str:
    """Return the TOML text of this configuration, with comments if `explained`."""
    blocks = []
    for path, section, settings in sections(config):
        lines = [*_comment(doc_of(type(section)), explained), f"[{'.'.join(map(key_text, path))}]"]
        for setting in settings:
            lines += _comment(setting.doc, explained)
            lines.append(
                f"{key_text(setting.key)} = {write(setting, getattr(section, setting.name))}"
            )
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def sections(config: Config) -> Iterator[tuple[KeyPath, Any, tuple[Setting, ...]]]:
    """Yield every section that has values: its path, its value and its settings."""
    yield from _below((), config, settings_of(type(config)))


def _below(
    path: KeyPath, section: Any, settings: tuple[Setting, ...]
) -> Iterator[tuple[KeyPath, Any, tuple[Setting, ...]]]:
    values = tuple(
        setting
        for setting in settings
        if setting.section is None and setting.sections is None and not setting.rules.chosen_by
    )
    if values:
        yield path, section, values
    for setting in settings:
        value = getattr(section, setting.name)
        if setting.section is not None:
            yield from _below((*path, setting.key), value, settings_of(type(value)))
        elif setting.sections is not None:
            yield from _each((*path, setting.key), value, setting.rules.without)
        elif setting.rules.chosen_by and value:
            chosen = setting.rules.among[getattr(section, setting.rules.chosen_by)]
            changed = tuple(known for known in settings_of(chosen) if known.name in value)
            yield (*path, setting.key), replace(chosen(), **value), changed


def _each(
    path: KeyPath, values: Mapping[str, Any], without: frozenset[str]
) -> Iterator[tuple[KeyPath, Any, tuple[Setting, ...]]]:
    for name, section in values.items():
        yield from _below((*path, name), section, settings_of(type(section), without))


def _comment(text: str, explained: bool) -> list[str]:
    if not explained or not text:
        return []
    return textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ")
