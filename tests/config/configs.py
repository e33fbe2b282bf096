"""Generators of configurations, derived from the structure of the sections alone."""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any, get_origin

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from merkatd.config.configuration import Config
from merkatd.config.market_sections import MarketSection
from merkatd.config.setting_schema import Setting, SettingRules, settings_of
from merkatd.config.setting_values import MAX_WHOLE_NUMBER

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True)


def numbers(hint: type, rules: SettingRules, most: float | None) -> SearchStrategy[Any]:
    """Return numbers within the bounds of a setting."""
    if hint is int:
        top = MAX_WHOLE_NUMBER if most is None else int(most)
        return st.integers(int(max(rules.least, (rules.above or -1) + 1)), top)
    exclusive = rules.above is not None
    low = rules.above if rules.above is not None else rules.least
    high = 1e12 if most is None else most
    return st.floats(low, high, exclude_min=exclusive, allow_subnormal=False)


def values(setting: Setting) -> SearchStrategy[Any]:
    """Return values that a setting may have."""
    if setting.rules.check is not None:
        return st.just(setting.default)
    if setting.rules.chosen_by is not None:
        chosen = settings_of(setting.rules.among["tabu"], setting.rules.without)
        return st.fixed_dictionaries({}, optional={each.name: values(each) for each in chosen})
    if setting.hint in {int, float}:
        part = setting.unit is not None and setting.unit.own == "%"
        return numbers(setting.hint, setting.rules, 1.0 if part else setting.rules.most)
    if setting.is_set:
        items: SearchStrategy[Any] = TEXT if setting.element is str else st.integers(0, 300)
        return st.none() | st.frozensets(items, min_size=1, max_size=3)
    if get_origin(setting.hint) is Mapping:
        return st.dictionaries(TEXT, st.floats(0, 1e12), max_size=3)
    return plain(setting.hint)


def plain(hint: type) -> SearchStrategy[Any]:
    """Return values that are neither numbers nor composed."""
    if hint is Path:
        return TEXT.map(Path)
    return st.sampled_from(list(hint)) if issubclass(hint, StrEnum) else st.from_type(hint)


def sections(default: Any, without: frozenset[str] = frozenset()) -> SearchStrategy[Any]:
    """Return sections of the type of this one."""
    parts: dict[str, SearchStrategy[Any]] = {}
    for setting in settings_of(type(default), without):
        present = getattr(default, setting.name)
        if setting.section is not None:
            parts[setting.name] = sections(present)
        elif setting.rules.fixed:
            below = {n: sections(inner, setting.rules.without) for n, inner in present.items()}
            parts[setting.name] = st.fixed_dictionaries(below)
        elif setting.sections is not None:
            parts[setting.name] = st.dictionaries(
                NAMES, sections(MarketSection(), setting.rules.without), min_size=1, max_size=3
            )
        else:
            parts[setting.name] = values(setting)
    return st.fixed_dictionaries(parts).map(lambda values: replace(default, **values))


def configs() -> SearchStrategy[Config]:
    """Return configurations in which each key by itself is valid."""
    return sections(Config())
