"""What a section can hold, read off its dataclass: keys, types, bounds and words."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from dataclasses import dataclass as plain
from enum import StrEnum
from functools import cache
from itertools import pairwise
from types import UnionType
from typing import Any, cast, get_args, get_origin, get_type_hints

from merkatd.base.quantities import Unit, key_of, unit_of

Check = Callable[[Any], str | None]
"""What is wrong with a value that has the right type, None where nothing is."""

_META = "config"


@plain(frozen=True, slots=True, kw_only=True)
class SettingRules:
    """What a field asks of its value beyond its type."""

    least: float = 0.0
    most: float | None = None
    above: float | None = None
    check: Check | None = None
    check_name: Check | None = None
    """For sections that the file names itself."""
    secret: bool = False
    """May hold a password: never shown."""
    fixed: bool = False
    """A mapping of sections of which the default holds all there are."""
    key: str | None = None
    """The key in the file, where it isn't the field's name."""
    without: frozenset[str] = frozenset()
    """Fields of the sections below that are set elsewhere."""


def rules(**given: Any) -> Mapping[str, Any]:
    """The metadata of a field with these rules."""
    return {_META: SettingRules(**given)}


@plain(frozen=True, slots=True, kw_only=True)
class Setting:
    """A field of a section, as the configuration sees it."""

    name: str
    key: str
    hint: Any
    doc: str
    rules: SettingRules
    unit: Unit | None
    default: Any

    @property
    def section(self) -> type | None:
        """The dataclass of the section that this is, None where it is a value or many."""
        return self.hint if is_dataclass(self.hint) and isinstance(self.hint, type) else None

    @property
    def sections(self) -> type | None:
        """The dataclass of the named sections that this is made of, if it is."""
        if get_origin(self.hint) is not Mapping or not (self.rules.fixed or self._of_sections):
            return None
        return dict if self.rules.fixed else self.element

    @property
    def element(self) -> Any:
        """The type of what a mapping or a set holds."""
        if get_origin(self.hint) is Mapping:
            return get_args(self.hint)[1]
        return get_args(get_args(self.hint)[0])[0]

    @property
    def is_set(self) -> bool:
        """Whether this is a set, or None: a list in the file, an empty one for None."""
        return (
            get_origin(self.hint) is UnionType and get_origin(get_args(self.hint)[0]) is frozenset
        )

    @property
    def _of_sections(self) -> bool:
        return is_dataclass(self.element)


def settings_of(section: type, without: frozenset[str] = frozenset()) -> tuple[Setting, ...]:
    """The settings of a section in their order."""
    return tuple(one for one in _settings(cast("Hashable", section)) if one.name not in without)


def doc_of(section: type) -> str:
    """What a section is for: the docstring of its class."""
    return inspect.cleandoc(section.__doc__ or "")


def docs_of(section: type) -> dict[str, str]:
    """The words below each field, in the class or those it is made from."""
    found: dict[str, str] = {}
    for base in reversed(section.__mro__):
        if is_dataclass(base):
            found |= _docs_in(base)
    return found


@cache
def _settings(section: Any) -> tuple[Setting, ...]:
    hints = get_type_hints(section)
    words = docs_of(section)
    # Where settings come from another package, what is asked of them is said here.
    rules_of: Mapping[str, SettingRules] = getattr(section, "RULES", {})
    return tuple(
        _setting(entry, hints[entry.name], words.get(entry.name, ""), rules_of)
        for entry in fields(section)
    )


def _docs_in(section: type) -> dict[str, str]:
    try:
        source = inspect.getsource(section)
    except OSError:
        # Installed without its source the code still has to read configurations.
        return {}
    (body,) = ast.parse(textwrap.dedent(source)).body
    found = {}
    statements = body.body if isinstance(body, ast.ClassDef) else []
    for field, words in pairwise(statements):
        match field, words:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
    return found


def _setting(
    entry: Field[Any], hint: Any, doc: str, rules_of: Mapping[str, SettingRules]
) -> Setting:
    given = rules_of.get(entry.name) or entry.metadata.get(_META, SettingRules())
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
