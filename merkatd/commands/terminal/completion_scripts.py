"""Completion scripts for bash and zsh: shtab writes them from the parsers of the commands."""

import argparse
from typing import Any

import shtab

from merkatd.commands.terminal.command_parser import Parser

SHELLS = ("bash", "zsh")
_OF_BOTH = {
    "VM": "list vms --csv --no-header --list NAME",
    "HOST": "list hosts --csv --no-header --list NAME",
    "MARKET": "price --csv --no-header --list MARKET",
    "APPLICATION": "budget --csv --no-header --list NAME",
}
_ASKED = {
    "merkat": _OF_BOTH,
    "merkatd": {**_OF_BOTH, "TENANT": "tenant list --csv --no-header --list NAME"},
    "onegroup": {"GROUP": "list --csv --no-header --list NAME"},
}
_SAME = {"VM|HOST": "VM"}
"""Placeholders for which another one's values are listed."""
"""The arguments with which a program lists the values of a placeholder, by program."""
_BASH_NAMES = """\
_{program}_names() {{
  local name word="$1"
  shift
  while IFS= read -r name; do
    case "$name" in *[!A-Za-z0-9._-]*) continue ;; esac
    case "$name" in "$word"*) echo "$name" ;; esac
  done < <({program} "$@" 2>/dev/null)
}}"""
"""Tenants choose names, and compgen would run commands in them: it must never receive a name."""
_ZSH_NAMES = """\
_{program}_names() {{
  local -a names
  names=("${{(@f)$({program} "$@" 2>/dev/null)}}")
  compadd -a names
}}"""


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script for a shell; marks the parser, which must parse nothing afterwards."""
    assert isinstance(parser, Parser)  # noqa: S101 - only for mypy: there is no other parser
    program = parser.prog
    asked = _ASKED.get(program, _ASKED["onegroup"])
    for action in parser.actions():
        if isinstance(action.choices, dict):
            for command in action.choices.values():
                _mark(command, program, asked)
    return shtab.complete(parser, shell, preamble=_functions(program, asked, shell))


def _mark(command: Parser, program: str, asked: dict[str, str]) -> None:
    """Tell shtab how to complete the values of a command's arguments."""
    command.description = command.get_default("summary")
    tables = command.get_default("tables") or {}
    for action in command.actions():
        marked: Any = action
        placeholder = _SAME.get(str(action.metavar), str(action.metavar))
        if placeholder in asked:
            marked.complete = dict.fromkeys(SHELLS, f"_{program}_{placeholder}")
        elif action.metavar == "FILE":
            marked.complete = shtab.FILE
        elif action.metavar in {"COLUMNS", "FILTER"}:
            names = (name for table in tables.values() for name in table.names())
            action.choices = tuple(dict.fromkeys(names))


def _functions(program: str, asked: dict[str, str], shell: str) -> str:
    """Return the functions that ask the daemon for names, one for each placeholder."""
    names, word = (_BASH_NAMES, '"$1" ') if shell == "bash" else (_ZSH_NAMES, "")
    lines = [names.format(program=program)]
    for placeholder, words in asked.items():
        lines.append(f"_{program}_{placeholder}() {{ _{program}_names {word}{words}; }}")
    return "\n".join(lines)
