"""The scripts that oned runs: a plan and exit code 0, whatever the daemon does."""

import base64
import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from merkatd.cli import main
from merkatd.opennebula.driver.driver_answer import EMPTY

PLAN = (
    "<PLAN><ID>-1</ID><ACTION><VM_ID>3</VM_ID><OPERATION>deploy</OPERATION><HOST_ID>1</HOST_ID>"
    "<DS_ID>0</DS_ID></ACTION></PLAN>"
)
QUESTION = base64.b64encode(b"<SCHEDULER_DRIVER_ACTION/>" * 5000)


class Scripts:
    """The driver as `merkatd driver` writes it."""

    def __init__(self, folder: Path, deadline: str) -> None:
        self.config = folder / "merkatd.toml"
        self.config.write_text(
            f'[daemon]\nstate_directory = "{folder}"\n[driver]\ndeadline = "{deadline}"\n'
        )
        self.directory = folder / "merkat"
        assert main(["driver", str(self.directory), "--config", str(self.config)]) == 0
        self.socket = folder / "driver.sock"
        # As in /usr/bin, but of the Python that runs the tests.
        for name in ("place", "optimize"):
            script = self.directory / name
            script.write_text(script.read_text().replace("/usr/bin/python3", sys.executable))

    def run(self, *words: str) -> tuple[str, str]:
        """Standard output and error; it must end well."""
        done = subprocess.run(
            [self.directory / words[0], *words[1:]], input=QUESTION, capture_output=True, check=True
        )
        return done.stdout.decode(), done.stderr.decode()


@pytest.fixture
def scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Scripts:
    """With little patience."""
    made = Scripts(tmp_path, "500ms")
    assert "driver.sock" in capsys.readouterr().out
    return made


@contextlib.contextmanager
def daemon(path: Path, answer: Callable[[socket.socket], None]) -> Iterator[list[bytes]]:
    """Something that answers one question; what it was asked."""
    asked: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        listening.settimeout(20)

        def serve() -> None:
            connection, _ = listening.accept()
            with connection, contextlib.suppress(OSError):
                connection.settimeout(20)
                whole = connection.makefile("rb")
                asked.append(whole.readline())
                whole.read(len(QUESTION))
                answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield asked
        thread.join()


def reads(connection: socket.socket) -> None:
    """All of the question, without an answer before the other side gives up."""
    while connection.recv(1 << 16):
        pass


def test_the_answer_is_handed_on(scripts: Scripts) -> None:
    """Lines for the log on standard error, the plan alone on standard output."""
    said = f"ERROR: 8 too large\nINFO: all else is well\n{PLAN}\n".encode()
    with daemon(scripts.socket, lambda connection: connection.sendall(said)) as asked:
        out, err = scripts.run("place")
    assert out == f"{PLAN}\n"
    assert err == "ERROR: 8 too large\nINFO: all else is well\n"
    assert asked == [f"place {len(QUESTION)}\n".encode()]


def test_a_cluster_is_named(scripts: Scripts) -> None:
    """Its id is the only word of `optimize`."""
    with daemon(
        scripts.socket, lambda connection: connection.sendall(f"{EMPTY}\n".encode())
    ) as asked:
        assert scripts.run("optimize", "12") == (f"{EMPTY}\n", "")
    assert asked == [f"optimize 12 {len(QUESTION)}\n".encode()]


def test_without_a_daemon_nothing_is_to_be_done(scripts: Scripts) -> None:
    """The reason goes to oned's log."""
    out, err = scripts.run("place")
    assert out == f"{EMPTY}\n"
    assert err.startswith("WARN: merkatd can't be asked: ")
    assert err.count("\n") == 1


def test_a_daemon_that_is_slow_is_not_waited_for(scripts: Scripts) -> None:
    """Longer than its deadline."""
    with daemon(scripts.socket, reads):
        out, err = scripts.run("place")
    assert out == f"{EMPTY}\n"
    assert err == "WARN: merkatd did not answer in time; nothing is done\n"


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\xff\xfe\n",
        b"no plan\n",
        f"{PLAN}".encode(),
        f"{PLAN}\n{PLAN}\n".encode(),
        PLAN.replace("<DS_ID>0</DS_ID>", "").encode() + b"\n",
        PLAN.replace("<HOST_ID>1", "<HOST_ID>one").encode() + b"\n",
        f"chatter\n{PLAN}\n".encode(),
    ],
)
def test_garbage_is_not_handed_on(scripts: Scripts, said: bytes) -> None:
    """The whole plan would be rejected, or worse."""
    with daemon(scripts.socket, lambda connection: connection.sendall(said)):
        out, err = scripts.run("place")
    assert out == f"{EMPTY}\n"
    assert err == "WARN: merkatd's answer can't be understood; nothing is done\n"


def test_a_driver_that_is_broken_prints_a_plan_too(scripts: Scripts) -> None:
    """Without its configuration, and without its Python."""
    (scripts.directory / "merkat.conf").unlink()
    assert scripts.run("place")[0] == f"{EMPTY}\n"
    (scripts.directory / "ask.py").unlink()
    assert scripts.run("place")[0] == f"{EMPTY}\n"
    assert scripts.run("optimize", "0")[0] == f"{EMPTY}\n"
