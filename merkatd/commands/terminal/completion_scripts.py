"""Completion scripts for bash and zsh, from the model of the commands."""

from collections.abc import Callable, Iterator, Mapping

from merkatd.commands.terminal.command_model import Argument, Command, ProgramModel

_ASKED = {
    "VM": "list vms --csv --no-header --list NAME",
    "HOST": "list hosts --csv --no-header --list NAME",
    "GROUP": "list --csv --no-header --list ID",
}
"""Arguments of the command that lists the possible values, by the value's placeholder."""


def bash(program: ProgramModel) -> list[str]:
    """Return a script for bash to source."""
    return list(_bash(program))


def zsh(program: ProgramModel) -> list[str]:
    """Return a script for zsh's fpath, under the name _PROGRAM."""
    return list(_zsh(program))


SHELLS: Mapping[str, Callable[[ProgramModel], list[str]]] = {"bash": bash, "zsh": zsh}


def _bash(program: ProgramModel) -> Iterator[str]:
    names = " ".join(command.name for command in program.commands)
    flags = " ".join(flag for option in program.options for flag in option.flags)
    yield from (
        f"# Completion of {program.name} for bash, made by `{program.name} completion bash`.",
        "",
        *_bash_names(program.name),
        "",
        f"_{program.name}() {{",
        '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
        "    local IFS=$'\\n'",
        "    COMPREPLY=()",
        '    if [ "$COMP_CWORD" -eq 1 ]; then',
        f'        COMPREPLY=($(compgen -W {_lines(f"{names} {flags}")} -- "$word"))',
        "        return",
        "    fi",
        '    case "${COMP_WORDS[1]}" in',
    )
    for command in program.commands:
        yield f"    {command.name})"
        yield '        case "$before" in'
        for option in command.options:
            if option.value is not None:
                flags = "|".join(option.flags)
                yield f"        {flags}) {_bash_values(program, command, option)}; return ;;"
        yield "        esac"
        flags = " ".join(flag for option in command.options for flag in option.flags)
        yield '        case "$word" in'
        yield f'        -*) COMPREPLY=($(compgen -W {_lines(flags)} -- "$word")); return ;;'
        yield "        esac"
        for argument in command.positionals:
            yield f"        {_bash_values(program, command, argument)}"
            break
        if any(argument.value == "FILE" for argument in command.positionals[1:]):
            yield '        COMPREPLY+=($(compgen -f -- "$word"))'
        yield "        ;;"
    yield from ("    esac", "}", "", f"complete -o filenames -F _{program.name} {program.name}")


def _bash_names(program: str) -> tuple[str, ...]:
    """Return the function that completes names of VMs and hosts.

    Tenants choose names, and compgen would run commands in them: it must never receive a name.
    """
    return (
        f"_{program}_names() {{",
        '    local name word="$1"',
        "    shift",
        "    while IFS= read -r name; do",
        '        case "$name" in *[!A-Za-z0-9._-]*) continue ;; esac',
        '        case "$name" in "$word"*) COMPREPLY+=("$name") ;; esac',
        f'    done < <({program} "$@" 2>/dev/null)',
        "}",
    )


def _bash_values(program: ProgramModel, command: Command, argument: Argument) -> str:
    if argument.value in _ASKED:
        return f'_{program.name}_names "$word" {_ASKED[argument.value]}'
    if argument.value == "FILE":
        return 'COMPREPLY=($(compgen -f -- "$word"))'
    words = _values(command, argument)
    return f'COMPREPLY=($(compgen -W {_lines(" ".join(words))} -- "$word"))' if words else ":"


def _values(command: Command, argument: Argument) -> tuple[str, ...]:
    """Return the possible values that are known without the daemon."""
    if argument.choices:
        return argument.choices
    if argument.value in {"COLUMNS", "FILTER"}:
        names = (name for table in command.tables.values() for name in table.names())
        return tuple(dict.fromkeys(names))
    return ()


def _lines(words: str) -> str:
    """Return words for compgen, one per line, as the script's IFS demands."""
    return "$'" + "\\n".join(words.split()) + "'"


def _zsh(program: ProgramModel) -> Iterator[str]:
    yield from (
        f"#compdef {program.name}",
        f"# Completion of {program.name} for zsh, made by `{program.name} completion zsh`.",
        "",
        f"_{program.name}_names() {{",
        "    local -a names",
        f'    names=("${{(@f)$({program.name} ${{=1}} 2>/dev/null)}}")',
        "    compadd -a names",
        "}",
        "",
        f"_{program.name}() {{",
        "    local -a commands",
        "    commands=(",
    )
    for command in program.commands:
        yield f"        {_quoted(f'{command.name}:{_plain(command.summary)}')}"
    yield from (
        "    )",
        "    if (( CURRENT == 2 )); then",
        "        _describe command commands",
        "        return",
        "    fi",
        '    local name="$words[2]"',
        "    shift words",
        "    (( CURRENT-- ))",
        '    case "$name" in',
    )
    for command in program.commands:
        yield f"    {command.name})"
        yield "        _arguments \\"
        specs = [
            *(spec for option in command.options for spec in _zsh_option(program, command, option)),
            *(
                f":{_plain(one.value or '')}:{_zsh_values(program, command, one)}"
                for one in command.positionals
            ),
        ]
        for number, spec in enumerate(specs):
            more = " \\" if number < len(specs) - 1 else ""
            yield f"            {_quoted(spec)}{more}"
        yield "        ;;"
    yield from ("    esac", "}", "", f'_{program.name} "$@"')


def _zsh_option(program: ProgramModel, command: Command, option: Argument) -> Iterator[str]:
    """Yield a spec per spelling; each excludes the others unless the option can be repeated."""
    for flag in option.flags:
        start = "*" if option.repeated else f"({' '.join(option.flags)})"
        behind = ""
        if option.value is not None:
            behind = f":{_plain(option.value)}:{_zsh_values(program, command, option)}"
        yield f"{start}{flag}[{_plain(option.help)}]{behind}"


def _zsh_values(program: ProgramModel, command: Command, argument: Argument) -> str:
    if argument.value in _ASKED:
        # zsh passes the words as one argument; the function splits them with ${=1}.
        return f'_{program.name}_names "{_ASKED[argument.value]}"'
    if argument.value == "FILE":
        return "_files"
    words = _values(command, argument)
    return f"({' '.join(words)})" if words else " "


def _plain(text: str) -> str:
    """Return the text without characters that are special in a spec."""
    return "".join("" if char in "[]\\" else ";" if char == ":" else char for char in text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
