"""Errors of the environment: one line that says what failed and what to do, never a traceback."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from merkatd.commands.screens.program_run import run_program
from merkatd.commands.words.ways_out import os_reason
from onegroup.cli import main as onegroup
from tests.commands.asking import Shell

FULL = Path("/dev/full")
PROGRAMS = ("merkatd", "merkat", "onegroup")


def ended(words: list[str], *, output: Path | None = None) -> tuple[int, str]:
    """Run a program of its own; return its exit code and its standard error."""
    program = "merkatd.cli" if words[0] == "merkatd" else words[0]
    with Path(os.devnull if output is None else output).open("w") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", program, *words[1:]],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "HOME": "/nonexistent"},
        )
    return done.returncode, done.stderr


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("words", ["--help", "completion bash", "manual"])
def test_a_full_disk_is_one_line(program: str, words: str) -> None:
    """Also for output that Python keeps until its end."""
    code, err = ended([program, *words.split()], output=FULL)
    assert code == 1, err
    assert err == (
        f"{program}: output: No space left on device; free some space there, or name another"
        " place\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("check --config {snapshot}", "is a snapshot, not a configuration; `merkatd plan"),
        ("status --config {snapshot}", "is a snapshot, not a configuration; `merkatd plan"),
        ("run --config {snapshot}", "is a snapshot, not a configuration; `merkatd plan"),
        ("check --config {packed}", "is a snapshot, not a configuration; `merkatd plan"),
        ("plan --snapshot {config}", "is not a snapshot, which is a JSON object"),
        ("plan --snapshot {folder}", "{folder}: Is a directory; name a file"),
        ("check --config {folder}/no", "can't be read: No such file or directory"),
        ("snapshot save {folder}/no/f --config {config}", "no daemon answers"),
        ("embedded --state {folder}", "unable to open database file; the state must be"),
        ("embedded --state {config}", "file is not a database; the state must be"),
        ("embedded --listen 127.0.0.1:{port}", "Address already in use; end the program"),
        ("driver /proc/none --config {config}", "/proc/none: No such file or directory; check"),
        ("check --config {away}", "Connection refused; check that OpenNebula runs there"),
        ("status --config {config}", "start it (systemctl start merkatd, or merkatd run)"),
    ],
)
def test_wrong_files_and_places_are_one_line(
    words: str, message: str, tmp_path: Path, shell: Shell
) -> None:
    """Each says what is accepted, or what to do."""
    places = {name: tmp_path / name for name in ("snapshot", "packed", "config", "away")}
    places["snapshot"].write_text('{"hosts": []}')
    places["packed"].write_bytes(b"PK\x03\x04\xff\xfe")
    state = json.dumps(str(tmp_path / "state"))
    places["config"].write_text(f"[daemon]\nstate_directory = {state}\n")
    (tmp_path / "one_auth").write_text("merkat:secret\n")
    places["away"].write_text(
        f"[daemon]\nstate_directory = {state}\n[cloud]\nkind = 'opennebula'\n"
        f"endpoint = 'http://127.0.0.1:1/RPC2'\nauth_file = '{tmp_path}/one_auth'\n"
    )
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        known = {**places, "folder": tmp_path, "port": taken.getsockname()[1]}
        chosen = words.format(**known).split()
        if chosen[0] == "embedded":  # it installs a reactor, of which a process has one
            code, err = ended(["merkatd", *chosen])
        else:
            result = shell(*chosen)
            code, err = result.code, result.err
    assert code in {1, 2, 78}, err
    assert message.format(**known) in err
    assert err.count("\n") == 1, err
    assert err.startswith("merkatd ")


def test_an_unexpected_error_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """MERKAT_TRACEBACK shows where it happened."""

    def work() -> int:
        raise LookupError("a\nb")

    assert run_program("merkat", work) == 1
    err = capsys.readouterr().err
    assert err.startswith("merkat: unexpected error (LookupError: a?b); please report it")
    assert err.count("\n") == 1
    monkeypatch.setenv("MERKAT_TRACEBACK", "1")
    assert run_program("merkat", work) == 1
    assert "Traceback" in capsys.readouterr().err


def test_every_reason_names_its_subject() -> None:
    """The file of the error, or what the caller says, or the output."""
    missing = FileNotFoundError(2, "No such file or directory", "/no/file")
    assert os_reason(missing).startswith("/no/file: No such file")
    assert os_reason(missing, "the log").startswith("the log: No such file")
    assert os_reason(OSError(28, "No space left on device")).startswith("output: No space")
    assert os_reason(OSError("unsupported")) == "unsupported"
    assert os_reason(OSError(9999, "strange"), "x") == "x: strange"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "http://127.0.0.1:1/RPC2",
            "Connection refused; check that the daemon runs, and its address",
        ),
        ("nonsense", "the daemon's address must be like http://SERVER:2634/RPC2"),
    ],
)
def test_onegroup_without_a_daemon_says_what_to_check(
    address: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`merkat` does so, too: tests/merkat/test_failures.py."""
    login = tmp_path / "one_auth"
    login.write_text("ann:secret\n")
    monkeypatch.setenv("ONE_AUTH", str(login))
    monkeypatch.setenv("MERKAT_XMLRPC", address)
    assert onegroup(["list"]) == 1
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
