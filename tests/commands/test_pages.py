"""Manual pages and completion, generated for every command from its real arguments."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from merkatd.cli import COMMANDS, parser
from merkatd.commands.terminal.command_model import Command, model_of
from merkatd.commands.terminal.completion_scripts import SHELLS, completion_script
from merkatd.commands.terminal.manual_pages import page
from tests.commands.asking import Shell

PROGRAM = model_of(parser())
ROOT = Path(__file__).parents[2]


def flags(command: Command) -> list[str]:
    """Return all spellings of all options."""
    return [flag for option in command.options for flag in option.flags]


def test_every_command_is_included() -> None:
    """The model is read from the parsers of the command line."""
    assert [command.name for command in PROGRAM.commands] == list(COMMANDS)


@pytest.mark.parametrize("command", PROGRAM.commands, ids=list(COMMANDS))
class TestManual:
    def test_a_manual_page_has_the_texts_of_help(self, command: Command, shell: Shell) -> None:
        """Both show every option and column."""
        roff = shell.ok(f"manual {command.name}").out.replace("\\-", "-").replace("\\e", "\\")
        help_ = " ".join(shell.ok(f"{command.name} --help").out.split())
        for argument in command.arguments:
            for flag in argument.flags:
                assert f"\\fB{flag}\\fR" in roff
                assert flag in help_
            assert " ".join(argument.help.split()) in " ".join(roff.split())
        for table in command.tables.values():
            assert all(f"\\fB{name}\\fR" in roff for name in table.names())
        assert "EXIT STATUS" in roff

    @pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not here")
    def test_groff_has_no_warnings(self, command: Command) -> None:
        """All warnings are enabled."""
        text = "\n".join(page(PROGRAM, command.name)) + "\n"
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww"], input=text.encode(), capture_output=True, check=True
        )
        assert done.stderr == b""
        assert f"MERKATD-{command.name.upper()}(1)".encode() in done.stdout

    def test_options_and_columns_are_explained(self, command: Command) -> None:
        """Each has a help text."""
        for argument in command.arguments:
            assert len(argument.help) >= 4, argument

    def test_both_shells_complete_all_options_and_choices(self, command: Command) -> None:
        """The scripts contain every option and choice."""
        for script in (completion_script(parser(), shell) for shell in SHELLS):
            for flag in flags(command):
                assert flag in script
            for argument in command.arguments:
                assert all(choice in script for choice in argument.choices)


def test_the_page_of_merkatd_lists_all_commands(shell: Shell) -> None:
    """It refers to their pages."""
    out = shell.ok("manual").out
    for name in COMMANDS:
        assert f"\\fB{name}\\fR" in out
    assert "unknown command 'nope'; expected one of: bid, budget, capacity" in shell.refused(
        "manual nope", 2
    )


def test_the_documented_commands_and_options_exist() -> None:
    """docs/commands.md mentions every command, and no unknown option."""
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    known = {flag for command in PROGRAM.commands for flag in flags(command)}
    known |= {flag for option in PROGRAM.options for flag in option.flags}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) <= known
    for command in PROGRAM.commands:
        assert f"merkatd {command.name}" in text


BASH = shutil.which("bash")


@pytest.mark.skipif(BASH is None, reason="bash is not here")
class TestBash:
    def complete(self, tmp_path: Path, *words: str) -> list[str]:
        """Return bash's completions of the last word."""
        script = tmp_path / "merkatd.bash"
        script.write_text(completion_script(parser(), "bash") + "\n")
        ran = tmp_path / "ran"
        typed = " ".join(f"'{word}'" for word in words)
        text = f"""
            merkatd() {{ printf '%s\\n' web-0 web-1 '$(touch {ran})' '`touch {ran}`' '"a,b"'; }}
            source '{script}'
            COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}
            _shtab_merkatd
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        done = subprocess.run(
            ["bash", "--norc", "-c", text],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        )
        assert done.stderr == ""
        assert not ran.exists()
        return done.stdout.split()

    @pytest.mark.parametrize(
        ("words", "offers"),
        [
            (("merkatd", "expl"), ["explain"]),
            (("merkatd", "--v"), ["--version"]),
            (("merkatd", "list", ""), ["hosts", "vms", "applications"]),
            (("merkatd", "list", "vms", "--no"), ["--no-header", "--no-pager"]),
            (("merkatd", "log", "--kind", "de"), ["deploy"]),
            (("merkatd", "log", "--vm", "web"), ["web-0", "web-1"]),
            (("merkatd", "list", "vms", "-l", "BID_M"), ["BID_MEMORY"]),
            (("merkatd", "snapshot", "save", "merk"), ["merkatd.bash"]),
            (("merkatd", "plan", "--snapshot", "merk"), ["merkatd.bash"]),
            (("merkatd", "nope", "x"), []),
            (("merkatd", "host", "drain", "web"), ["web-0", "web-1"]),
            (("merkatd", "platform", "show", "sub"), []),
        ],
    )
    def test_bash_completes_all_kinds_of_words(
        self, words: tuple[str, ...], offers: list[str], tmp_path: Path
    ) -> None:
        """Commands, options, choices, columns, names and files are completed."""
        assert self.complete(tmp_path, *words) == offers

    def test_names_are_never_executed(self, tmp_path: Path) -> None:
        """A VM may have any name, and names with shell characters are not offered."""
        assert self.complete(tmp_path, "merkatd", "explain", "") == ["web-0", "web-1"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not here")
def test_zsh_reads_its_script(tmp_path: Path) -> None:
    """Zsh parses the script without errors."""
    script = tmp_path / "_merkatd"
    script.write_text(completion_script(parser(), "zsh") + "\n")
    subprocess.run(["zsh", "-n", str(script)], check=True)
