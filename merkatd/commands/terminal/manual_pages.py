"""Manual pages in roff, for `man -l`, from the model of the commands."""

from collections.abc import Iterator

from merkatd.commands.terminal.command_model import Argument, Command, ProgramModel

EXIT_STATUS = (
    ("0", "The command succeeded."),
    ("1", "The command failed; one line on standard error states the reason."),
    ("2", "The arguments were wrong; one line on standard error states which."),
    ("130", "The command was interrupted with Ctrl-C."),
)


def page(program: ProgramModel, name: str | None) -> list[str]:
    """Return the page of the command of this name, or of the whole program."""
    for command in program.commands:
        if command.name == name:
            return list(_command_page(program, command))
    return list(_program_page(program))


def _program_page(program: ProgramModel) -> Iterator[str]:
    yield from _head(program, program.name, program.summary.rstrip("."))
    yield ".SH SYNOPSIS"
    yield rf"\fB{_escaped(program.name)}\fR \fICOMMAND\fR [\fIOPTIONS\fR]"
    yield ".SH COMMANDS"
    for command in program.commands:
        yield ".TP"
        yield rf"\fB{_escaped(command.name)}\fR"
        yield _text(f"{command.summary}; see {program.name}-{command.name}(1)")
    yield from _options(program.options)
    yield from _end(program, tuple(command.name for command in program.commands))


def _command_page(program: ProgramModel, command: Command) -> Iterator[str]:
    title = f"{program.name}-{command.name}"
    yield from _head(program, title, command.summary)
    yield ".SH SYNOPSIS"
    name = _escaped(f"{program.name} {command.name}")
    words = "".join(f" {_in_synopsis(argument)}" for argument in command.positionals)
    yield rf"\fB{name}\fR [\fIOPTIONS\fR]{words}"
    yield ".SH DESCRIPTION"
    yield from _paragraphs(command.description)
    yield from _options((*command.positionals, *command.options))
    for what, table in command.tables.items():
        heading = "COLUMNS" if len(command.tables) == 1 else f"COLUMNS OF {what.upper()}"
        yield f'.SH "{heading}"'
        for column in table.columns:
            yield ".TP"
            yield rf"\fB{_escaped(column.name)}\fR"
            yield _text(column.doc + ("" if column.default else "; not shown by default"))
    if command.tables:
        yield ".SH UNITS"
        yield _text(
            "CPU is in percent of a core, memory in MiB, bids and costs are in credits a period."
        )
    yield from _end(program, ())


def _head(program: ProgramModel, title: str, summary: str) -> Iterator[str]:
    yield f'.TH "{_escaped(title.upper())}" 1 "" "{_escaped(program.version)}" "Merkat"'
    yield ".SH NAME"
    yield rf"{_escaped(title)} \- {_text(summary)}"


def _options(arguments: tuple[Argument, ...]) -> Iterator[str]:
    yield ".SH OPTIONS"
    for argument in arguments:
        yield ".TP"
        flags = ", ".join(rf"\fB{_escaped(flag)}\fR" for flag in argument.flags)
        value = rf"\fI{_escaped(argument.value)}\fR" if argument.value else ""
        yield " ".join(part for part in (flags, value) if part)
        yield _text(argument.help or "see above")


def _end(program: ProgramModel, others: tuple[str, ...]) -> Iterator[str]:
    yield '.SH "EXIT STATUS"'
    for code, meaning in EXIT_STATUS:
        yield ".TP"
        yield rf"\fB{code}\fR"
        yield _text(meaning)
    yield '.SH "SEE ALSO"'
    names = [f"{program.name}-{other}" for other in others] or [program.name]
    yield ", ".join(rf"\fB{_escaped(name)}\fR(1)" for name in names)


def _in_synopsis(argument: Argument) -> str:
    value = rf"\fI{_escaped(argument.value or '')}\fR"
    return value if argument.needed else f"[{value}]"


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a text in roff; indented ones keep their line breaks."""
    for number, part in enumerate(text.strip().split("\n\n")):
        if number:
            yield ".PP"
        if part.startswith("    "):
            yield ".nf"
            yield from (_text(line) for line in part.splitlines())
            yield ".fi"
        else:
            yield _text(" ".join(part.split()))


def _text(text: str) -> str:
    """Return one line escaped for roff."""
    escaped = _escaped(text)
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _escaped(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-")
