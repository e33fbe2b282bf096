"""A model of all commands, read from their parsers: the source of manual pages and completion."""

import argparse
from dataclasses import dataclass

from merkatd.commands.terminal.command_parser import Parser
from merkatd.commands.terminal.output import Tables


@dataclass(frozen=True, slots=True)
class Argument:
    """An option or a positional argument."""

    flags: tuple[str, ...]
    """The option's spellings; empty for a positional argument."""
    value: str | None
    """The placeholder of the value: FILE, VM, N, ...; None for an option without a value."""
    choices: tuple[str, ...]
    help: str
    repeated: bool
    needed: bool


@dataclass(frozen=True, slots=True)
class Command:
    """A command."""

    name: str
    summary: str
    description: str
    arguments: tuple[Argument, ...]
    tables: Tables

    @property
    def options(self) -> tuple[Argument, ...]:
        """Return the options."""
        return tuple(argument for argument in self.arguments if argument.flags)

    @property
    def positionals(self) -> tuple[Argument, ...]:
        """Return the positional arguments."""
        return tuple(argument for argument in self.arguments if not argument.flags)


@dataclass(frozen=True, slots=True)
class ProgramModel:
    """The program: its own options and all its commands."""

    name: str
    summary: str
    version: str
    options: tuple[Argument, ...]
    commands: tuple[Command, ...]


def model_of(parser: argparse.ArgumentParser) -> ProgramModel:
    """Return the model of a parser with commands."""
    assert isinstance(parser, Parser)  # noqa: S101 - only for mypy: cli makes no other parser
    commands: list[Command] = []
    options = []
    version = ""
    for action in parser.actions():
        if isinstance(action.choices, dict):
            commands += [_command(name, choice) for name, choice in action.choices.items()]
        else:
            options.append(_argument(action))
            version = getattr(action, "version", None) or version
    return ProgramModel(
        parser.prog, parser.description or "", version, tuple(options), tuple(commands)
    )


def _command(name: str, parser: Parser) -> Command:
    return Command(
        name,
        parser.get_default("summary"),
        parser.description or "",
        tuple(_argument(action) for action in parser.actions()),
        parser.get_default("tables") or {},
    )


def _argument(action: argparse.Action) -> Argument:
    takes_value = action.nargs != 0
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    return Argument(
        flags=tuple(action.option_strings),
        value=metavar if takes_value else None,
        choices=tuple(map(str, action.choices or ())),
        help=(action.help or "").replace("%(prog)s", "the command").replace("%%", "%"),
        repeated=isinstance(action.default, list) or action.nargs in ("*", "+"),
        needed=action.required,
    )
