"""A configuration as a TOML text, with or without the words that explain each key."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from merkatd.config.model import Config
from merkatd.config.problems import Path
from merkatd.config.shape import Setting, doc_of, settings_of
from merkatd.config.values import key_text, write

WIDTH = 96


def to_toml(config: Config, *, explained: bool = False) -> str:
    """The text that is read as this configuration."""
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


def sections(config: Config) -> Iterator[tuple[Path, Any, tuple[Setting, ...]]]:
    """Every section that holds values: its path, its value and the settings it consists of."""
    yield from _below((), config, settings_of(type(config)))


def _below(
    path: Path, section: Any, settings: tuple[Setting, ...]
) -> Iterator[tuple[Path, Any, tuple[Setting, ...]]]:
    values = tuple(one for one in settings if one.section is None and one.sections is None)
    if values:
        yield path, section, values
    for setting in settings:
        value = getattr(section, setting.name)
        if setting.section is not None:
            yield from _below((*path, setting.key), value, settings_of(type(value)))
        elif setting.sections is not None:
            yield from _each((*path, setting.key), value, setting.rules.without)


def _each(
    path: Path, values: Mapping[str, Any], without: frozenset[str]
) -> Iterator[tuple[Path, Any, tuple[Setting, ...]]]:
    for name, section in values.items():
        yield from _below((*path, name), section, settings_of(type(section), without))


def _comment(text: str, explained: bool) -> list[str]:
    if not explained or not text:
        return []
    return textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ")
