"""The schema of a section, derived from its dataclass: keys, types, bounds, descriptions."""

import inspect
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from dataclasses import dataclass as plain
from dataclasses import field as plain_field
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import Any, cast, get_args, get_origin, get_type_hints

from merkatd.base.quantities import Unit, key_of, unit_of
from merkatd.placement.contract import PARAMETER, StrategyParameter
from merkatd.placement.setting_meanings import docs_of

Check = Callable[[Any], str | None]
"""Returns the problem of a value that has the correct type, None for a valid value."""

_META = "config"


@plain(frozen=True, slots=True, kw_only=True)
class SettingRules:
    """The rules for the value of a field, beyond its type."""

    least: float = 0.0
    most: float | None = None
    above: float | None = None
    check: Check | None = None
    check_name: Check | None = None
    """The check of a section's name, for sections whose names the file chooses."""
    secret: bool = False
    """Whether the value can contain a password and is never shown."""
    fixed: bool = False
    """Whether this is a mapping of sections whose names are fixed: those of the default."""
    key: str | None = None
    """The key in the file, if it differs from the field's name."""
    chosen_by: str | None = None
    """The key of the same section that names the type of this one. The value maps the fields that
    the file changes to their values."""
    among: Mapping[str, type] = plain_field(default_factory=dict)
    """The types by the value of that key."""
    without: frozenset[str] = frozenset()
    """The fields of the subsections that are no keys because the code sets them."""


def rules(**given: Any) -> Mapping[str, Any]:
    """Return the metadata of a field with these rules."""
    return {_META: SettingRules(**given)}


@plain(frozen=True, slots=True, kw_only=True)
class Setting:
    """A key of a section, derived from a field."""

    name: str
    key: str
    hint: Any
    doc: str
    rules: SettingRules
    unit: Unit | None
    default: Any

    @property
    def section(self) -> type | None:
        """Return the dataclass of this section, None for a value and for a mapping of sections."""
        return self.hint if is_dataclass(self.hint) and isinstance(self.hint, type) else None

    @property
    def sections(self) -> type | None:
        """Return the type of the named sections in this mapping of sections, None for others."""
        if get_origin(self.hint) is not Mapping or not (self.rules.fixed or self._of_sections):
            return None
        return dict if self.rules.fixed else self.element

    @property
    def element(self) -> Any:
        """Return the type of a mapping's values, or of a set's elements."""
        if get_origin(self.hint) is Mapping:
            return get_args(self.hint)[1]
        return get_args(get_args(self.hint)[0])[0]

    @property
    def is_set(self) -> bool:
        """Return whether this is a set or None: a list in the file, where an empty list is None."""
        return (
            get_origin(self.hint) is UnionType and get_origin(get_args(self.hint)[0]) is frozenset
        )

    @property
    def _of_sections(self) -> bool:
        return is_dataclass(self.element)


def settings_of(section: type, without: frozenset[str] = frozenset()) -> tuple[Setting, ...]:
    """Return the settings of a section in their order."""
    return tuple(
        setting for setting in _settings(cast("Hashable", section)) if setting.name not in without
    )


def doc_of(section: type) -> str:
    """Return the description of a section: the docstring of its class."""
    return inspect.cleandoc(section.__doc__ or "")


@cache
def _settings(section: Any) -> tuple[Setting, ...]:
    hints = get_type_hints(section)
    words = docs_of(section)
    # RULES holds the rules for fields that the section inherits from another package.
    rules_of: Mapping[str, SettingRules] = getattr(section, "RULES", {})
    return tuple(
        _setting(entry, hints[entry.name], words.get(entry.name, ""), rules_of)
        for entry in fields(section)
    )


def _range_of(entry: Field[Any]) -> SettingRules:
    """Return the rules for a field of a strategy's settings, which declares its range itself."""
    described: StrategyParameter | None = entry.metadata.get(PARAMETER)
    if described is None:
        return SettingRules()
    return SettingRules(least=described.least, most=described.most)


def _setting(
    entry: Field[Any], hint: Any, doc: str, rules_of: Mapping[str, SettingRules]
) -> Setting:
    given = rules_of.get(entry.name) or entry.metadata.get(_META) or _range_of(entry)
    unit = unit_of(entry.name) if hint in {int, float} else None
    made = entry.default_factory is not MISSING
    default = entry.default_factory() if made else entry.default  # type: ignore[operator]
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        doc = f"{doc} One of: {', '.join(hint)}.".lstrip()
    return Setting(
        name=entry.name,
        key=given.key or (key_of(entry.name) if unit else entry.name),
        hint=hint,
        doc=doc,
        rules=given,
        unit=unit,
        default=default,
    )
