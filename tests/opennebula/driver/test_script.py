"""The scripts that oned runs always print a plan and exit with 0."""

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
        # As in /usr/bin, but with the Python that runs the tests.
        for name in ("place", "optimize"):
            script = self.directory / name
            script.write_text(script.read_text().replace("/usr/bin/python3", sys.executable))

    def run(self, *words: str) -> tuple[str, str]:
        """Return standard output and error; the exit code must be 0."""
        done = subprocess.run(
            [self.directory / words[0], *words[1:]], input=QUESTION, capture_output=True, check=True
        )
        return done.stdout.decode(), done.stderr.decode()


@pytest.fixture
def scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Scripts:
    """Return scripts with a short deadline."""
    made = Scripts(tmp_path, "500ms")
    assert "driver.sock" in capsys.readouterr().out
    return made


@contextlib.contextmanager
def daemon(path: Path, answer: Callable[[socket.socket], None]) -> Iterator[list[bytes]]:
    """Run a server that answers one request, and record the request."""
    asked: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        listening.settimeout(20)

        def serve() -> None:
            connection, _ = listening.accept()
            with connection, contextlib.suppress(OSError):
                connection.settimeout(20)
                stream = connection.makefile("rb")
                asked.append(stream.readline())
                stream.read(len(QUESTION))
                answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield asked
        thread.join()


def read_forever(connection: socket.socket) -> None:
    """Read the whole request without answering."""
    while connection.recv(1 << 16):
        pass


def test_the_answer_is_forwarded(scripts: Scripts) -> None:
    """Log lines go to standard error, and the plan alone to standard output."""
    answer = f"ERROR: 8 too large\nINFO: all else is well\n{PLAN}\n".encode()
    with daemon(scripts.socket, lambda connection: connection.sendall(answer)) as asked:
        out, err = scripts.run("place")
    assert out == f"{PLAN}\n"
    assert err == "ERROR: 8 too large\nINFO: all else is well\n"
    assert asked == [f"place {len(QUESTION)}\n".encode()]


def test_a_cluster_is_named(scripts: Scripts) -> None:
    """Its id is the only argument of `optimize`."""
    with daemon(
        scripts.socket, lambda connection: connection.sendall(f"{EMPTY}\n".encode())
    ) as asked:
        assert scripts.run("optimize", "12") == (f"{EMPTY}\n", "")
    assert asked == [f"optimize 12 {len(QUESTION)}\n".encode()]


def test_without_a_daemon_the_plan_is_empty(scripts: Scripts) -> None:
    """Oned's log gets the reason."""
    out, err = scripts.run("place")
    assert out == f"{EMPTY}\n"
    assert err.startswith("WARN: merkatd can't be asked: ")
    assert err.count("\n") == 1


def test_a_slow_daemon_is_abandoned(scripts: Scripts) -> None:
    """The script does not wait beyond its deadline."""
    with daemon(scripts.socket, read_forever):
        out, err = scripts.run("place")
    assert out == f"{EMPTY}\n"
    assert err == "WARN: merkatd did not answer in time; nothing is done\n"


@pytest.mark.parametrize(
    "sent",
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
def test_garbage_is_not_forwarded(scripts: Scripts, sent: bytes) -> None:
    """Oned would reject the whole plan, or misunderstand it."""
    with daemon(scripts.socket, lambda connection: connection.sendall(sent)):
        out, err = scripts.run("place")
    assert out == f"{EMPTY}\n"
    assert err == "WARN: merkatd's answer can't be understood; nothing is done\n"


def test_a_broken_driver_prints_a_plan_too(scripts: Scripts) -> None:
    """Its configuration or its Python file is missing."""
    (scripts.directory / "merkat.conf").unlink()
    assert scripts.run("place")[0] == f"{EMPTY}\n"
    (scripts.directory / "ask.py").unlink()
    assert scripts.run("place")[0] == f"{EMPTY}\n"
    assert scripts.run("optimize", "0")[0] == f"{EMPTY}\n"
