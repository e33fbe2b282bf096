"""The pages about the configuration; `python -m` with this module's name writes them."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, get_origin

from merkatd.config.configuration import Config
from merkatd.config.setting_schema import Setting, doc_of
from merkatd.config.setting_values import sections, to_toml, write

_TOML_HEAD = """\
# The configuration of merkatd, with all defaults: a key that is left out has the value it has
# here. Made by `python -m merkatd.config.config_reference`; docs/configuration.md says the same.
"""

_PAGE_HEAD = """\
# Configuration

`merkatd` reads one TOML file. Every key has a default; a key or a section that nobody knows is
an error, and so is a value of the wrong kind. All problems are reported at once. `etc/merkatd.toml`
holds all keys with their defaults.

Durations are written with `us`, `ms`, `s`, `m`, `h` or `d` (`"60s"`), sizes with `KiB`, `MiB`,
`GiB` or `TiB` (`"2GiB"`), parts with `%` (`"10%"`), always in quotes.

There can be several markets, each a section `[market.NAME]`.
"""

_NAMES: Final[Mapping[Any, str]] = {
    bool: "flag",
    int: "whole number",
    float: "number",
    str: "text",
}


def toml() -> str:
    """The text of etc/merkatd.toml."""
    return f"{_TOML_HEAD}\n{to_toml(Config(), explained=True)}"


def page() -> str:
    """The text of docs/configuration.md."""
    parts = [_PAGE_HEAD]
    for path, section, settings in sections(Config()):
        name = "market.NAME" if path[0] == "market" else ".".join(path)
        rows = [_row(setting, getattr(section, setting.name)) for setting in settings]
        table = ["| Key | Kind | Default | |", "|---|---|---|---|", *rows]
        parts.append(f"## [{name}]\n\n{doc_of(type(section))}\n\n" + "\n".join(table) + "\n")
    return "\n".join(parts)


def main(root: Path) -> None:
    """Write both pages below a checkout."""
    for name, text in pages().items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """The pages by their place in a checkout."""
    return {"etc/merkatd.toml": toml(), "docs/configuration.md": page()}


def _row(setting: Setting, value: Any) -> str:
    default = write(setting, value)
    doc = setting.doc.replace("|", "\\|")
    return f"| `{setting.key}` | {_kind(setting)} | `{default}` | {doc} |"


def _kind(setting: Setting) -> str:
    if setting.unit is not None:
        return setting.unit.what
    if get_origin(setting.hint) is Mapping:
        nested = get_origin(setting.element) is Mapping
        return "number by resource, by name" if nested else "number by resource"
    if setting.is_set:
        return f"list of {_NAMES[setting.element]}s"
    return _NAMES.get(setting.hint, "path" if setting.hint is Path else "text")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd())
