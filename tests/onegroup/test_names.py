"""Two commands named `onegroup` on one machine: how each is found, and Merkat's other name."""

import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from onegroup.cli import VERBS, main
from onegroup.help_verbs import opennebulas_onegroup
from onegroup.verb import BESIDE, NAME

RUBY = "#!/usr/bin/env ruby\nputs 'groups of users'\n"


@pytest.fixture
def path(tmp_path: Path) -> dict[str, str]:
    """Return a PATH with Merkat's command before OpenNebula's."""
    for folder, text in (("ours", f"#!{sys.executable}\n"), ("theirs", RUBY)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / NAME).write_text(text)
    return {"PATH": f"/nowhere:{tmp_path / 'ours'}:{tmp_path / 'theirs'}"}


class Called:
    """Merkat's command in this process, called by a name."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]
    ) -> None:
        self._monkeypatch, self._capture = monkeypatch, capture

    def __call__(self, name: str, *words: str) -> tuple[str, str]:
        """Return output and errors of the command."""
        self._monkeypatch.setattr(sys, "argv", [f"/usr/bin/{name}"])
        self._capture.readouterr()
        with suppress(SystemExit):
            main(words)
        printed = self._capture.readouterr()
        return printed.out, printed.err


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Called:
    """Return the caller of the command."""
    return Called(monkeypatch, capsys)


def test_opennebulas_command_is_the_one_in_ruby(path: dict[str, str], tmp_path: Path) -> None:
    """It is found anywhere in the PATH; if it is missing, the text names no path."""
    assert opennebulas_onegroup(path) == str(tmp_path / "theirs" / NAME)
    (tmp_path / "theirs" / NAME).unlink()
    assert opennebulas_onegroup(path) == "OpenNebula's own onegroup"


@pytest.mark.parametrize("verb", ["quota", "batchquota", "defaultquota", "addadmin", "deladmin"])
def test_verbs_of_opennebulas_command_get_an_answer(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verbs that only OpenNebula's command has fail with one line."""
    assert verb not in VERBS
    assert main([verb, "100"]) == 2
    message = capsys.readouterr().err
    assert f"{verb} is a verb for OpenNebula's groups of users" in message
    assert message.count("\n") == 1


def test_the_command_uses_the_name_that_it_was_called_by(called: Called) -> None:
    """Help, examples, errors, manual page and completion show that name."""
    help_, _ = called(BESIDE, "create", "--help")
    assert help_.startswith(f"usage: {BESIDE} create")
    assert f"{BESIDE} create -t TEMPLATE -s RATE" in help_
    assert called(BESIDE, "edit", "1")[1].startswith(f"{BESIDE} edit: nothing to change")
    assert f"{BESIDE} create -t TEMPLATE" in called(BESIDE, "manual", "create")[0].replace(
        "\\-", "-"
    )
    assert called("python3", "--help")[0].startswith(f"usage: {NAME} ")


@pytest.mark.parametrize("name", [NAME, BESIDE])
class TestPages:
    @pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not here")
    def test_manual_pages_are_valid(self, name: str, called: Called) -> None:
        """Groff has no warnings, and each page shows its subject."""
        for verb in ((), *((verb_name,) for verb_name in VERBS)):
            shown = subprocess.run(
                ["groff", "-man", "-Tutf8", "-ww"],
                input=called(name, "manual", *verb)[0],
                capture_output=True,
                text=True,
                check=True,
            )
            assert shown.stderr == ""
            assert "-".join((name, *verb)).upper() in shown.stdout

    def test_bash_completes(self, name: str, called: Called, tmp_path: Path) -> None:
        """A real bash completes verbs, options and names of groups."""
        script = tmp_path / "completion"
        script.write_text(called(name, "completion", "bash")[0])
        for typed, offers in (
            ((name, "ed"), ["edit"]),
            ((name, "create", "--sr"), ["--srate"]),
            ((name, "list", "-l", "NV"), ["NVM"]),
            ((name, "show", "ren"), ["renders"]),
            ((name, "completion", ""), ["bash", "zsh"]),
        ):
            asking = f"""
                {name}() {{ printf '%s\\n' renders web; }}
                source {script}
                COMP_WORDS=({" ".join(f"'{word}'" for word in typed)}); COMP_CWORD={len(typed) - 1}
                "$(complete -p {name} | sed 's/.*-F \\([^ ]*\\).*/\\1/')"
                printf '%s\\n' "${{COMPREPLY[@]}}"
            """
            result = subprocess.run(
                ["bash", "--norc", "-c", asking], capture_output=True, text=True, check=True
            )
            assert result.stderr == ""
            assert result.stdout.split() == offers

    @pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not here")
    def test_zsh_reads_its_script(self, name: str, called: Called, tmp_path: Path) -> None:
        """Zsh parses the script without errors."""
        script = tmp_path / f"_{name}"
        script.write_text(called(name, "completion", "zsh")[0])
        subprocess.run(["zsh", "-n", str(script)], check=True)
