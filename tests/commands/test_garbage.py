"""Invalid input of every kind: each command and option answers with one line, never a traceback."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from merkatd.api.control.control_client import ControlError
from merkatd.cli import COMMANDS, parser
from merkatd.commands.terminal.command_model import Argument, Command, model_of
from tests.commands.asking import Daemon, Shell
from tests.lengths import SOAK

PROGRAM = model_of(parser())
NAMES = list(COMMANDS)

GARBAGE = (
    "",
    " ",
    "-1",
    "nan",
    "-inf",
    "1e999",
    "999999999999999999999999",
    "9" * 5000,
    "x" * 100_000,
    "nobody-is-called-so",
    "\x1b[2J\n\x00",
    "ünïcödé\udcff",
    "'; DROP TABLE bids; --",
    "../../etc/passwd",
    "%s%n{0}",
    "--",
    "1,2,,",
    "=",
)

FOREVER = {"run", "demo", "embedded"}
"""These would run for ever with valid arguments, so only their options are tested."""
ASKS = {
    "status": [],
    "top": ["--once"],
    "list": ["vms"],
    "explain": ["0"],
    "price": [],
    "bid": ["0"],
    "log": [],
    "plan": [],
    "strategy": ["list"],
    "driver": ["/dev/null/remotes"],
    "experiment": ["list"],
    "host": ["undrain", "0"],
    "tenant": ["weight", "0", "1"],
    "order": ["set", "0", "--limit", "3"],
    "platform": ["show", "0"],
    "statement": ["0"],
    "share": [],
    "capacity": [],
    "whatif": ["--without", "0"],
    "report": [],
    "pause": [],
    "resume": [],
    "snapshot": ["save", "-"],
}


def check_one_line(shell: Shell, *words: str) -> None:
    """Check that the command succeeds, or fails with one line of printable characters."""
    result = shell(*words)
    assert result.code in {0, 1, 2}, result
    if result.code:
        assert result.err.count("\n") == 1, (words[:3], result.err[:400])
        assert result.err.startswith("merkatd"), result.err[:200]
        assert len(result.err) < 700
        assert "Traceback" not in result.err
        assert result.err[:-1].isprintable()
        assert result.out == ""
    else:
        assert result.err == ""


def valid_arguments(command: Command) -> list[str]:
    """Return arguments with which the command reaches its options."""
    return list(ASKS.get(command.name, ["bash"] if command.name == "completion" else []))


@pytest.mark.parametrize("command", PROGRAM.commands, ids=NAMES)
def test_options_reject_garbage_in_one_line(command: Command, asked: Shell, tmp_path: Path) -> None:
    """Each option with a value gets a third of the kinds in turn, in `make soak` all kinds."""
    for at, option in enumerate(command.options):
        if option.value is None:
            continue
        for garbage in GARBAGE if SOAK else GARBAGE[at % 3 :: 3]:
            if command.name in FOREVER and not refuses(command, option, garbage):
                continue
            once = ["--once"] if command.name == "top" else []
            if "--delay" in option.flags:
                once = []
            check_one_line(
                asked, command.name, *valid_arguments(command), *once, option.flags[-1], garbage
            )
    assert not list(tmp_path.iterdir())


def refuses(command: Command, option: Argument, garbage: str) -> bool:
    """Return whether the parser rejects the value; otherwise the command would start."""
    try:
        parser([command.name]).parse_args([command.name, option.flags[-1], garbage])
    except SystemExit:
        return True
    except (ValueError, OverflowError):
        return True
    return False


@pytest.mark.parametrize("command", PROGRAM.commands, ids=NAMES)
def test_arguments_reject_garbage_in_one_line(
    command: Command, asked: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each position gets garbage, missing, additional and unknown arguments."""
    monkeypatch.chdir(tmp_path)
    needed = [argument for argument in command.positionals if argument.needed]
    if needed:
        assert asked(command.name).code == 2
    if command.name != "explain":  # it takes any number of VMs
        check_one_line(asked, command.name, *valid_arguments(command), "one", "too", "many")
    check_one_line(asked, command.name, *valid_arguments(command), "--no-such-option=1")
    for at in range(len(needed)):
        for garbage in GARBAGE:
            words = valid_arguments(command)
            words[at] = garbage
            if command.name == "snapshot" and at == 1 and garbage.strip("./"):
                words[at] = f"no/such/folder/{garbage[:300]}"
            check_one_line(asked, command.name, *words)


@pytest.mark.parametrize("garbage", GARBAGE)
def test_unknown_commands_are_rejected_in_one_line(garbage: str, shell: Shell) -> None:
    """The line lists the commands."""
    check_one_line(shell, garbage)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return a configuration whose socket is `s` in its own folder."""
    file = tmp_path / "merkatd.toml"
    text = json.dumps(str(tmp_path))
    file.write_text(f'[daemon]\nstate_directory = {text}\ncontrol_socket = "s"\n')
    return file


@pytest.mark.parametrize("name", [name for name in ASKS if name not in {"driver", "experiment"}])
class TestNoDaemon:
    def test_no_daemon_is_an_error(self, name: str, config: Path, shell: Shell) -> None:
        """The line names the socket."""
        result = shell(name, *ASKS[name], "--config", str(config))
        assert result.code == 1
        assert result.err == (
            f"merkatd {name}: {config.parent}/s: no daemon answers: No such file or directory;"
            " start it (systemctl start merkatd, or merkatd run), or name its configuration in"
            " --config or MERKAT_CONFIG\n"
        )

    def test_a_dead_socket_is_an_error(self, name: str, config: Path, shell: Shell) -> None:
        """It was left behind by a killed daemon."""
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(config.parent / "s"))
        result = shell(name, *ASKS[name], "--config", str(config))
        assert result.code == 1
        assert "no daemon answers: Connection refused; start it" in result.err

    @pytest.mark.parametrize(
        "answer",
        [
            b"",
            b"\n",
            b"no JSON\n",
            b"\xff\xfe\n",
            b"[" * 100_000 + b"\n",
            b"7\n",
            b"{}\n",
            b'{"answer": null}\n',
            b'{"answer": 5}\n',
            b'{"answer": "text"}\n',
            b'{"answer": [1, 2]}\n',
            b'{"answer": [{}, {"id": {}, "price": "x", "trend": 3, "at_s": [], "bid_cpu": "?"}]}\n',
            b'{"answer": {"resources": [{}], "steps": 7, "prices": [], "status": {}}}\n',
            b'{"error": "one\\nand another line"}\n',
            b'{"error": {"not": "text"}}\n',
        ],
    )
    def test_garbage_from_the_daemon_is_an_error(
        self, name: str, answer: bytes, config: Path, shell: Shell
    ) -> None:
        """The answer may come from another program or another version."""
        with answering(config.parent / "s", answer):
            check_one_line(shell, name, *ASKS[name], "--config", str(config))

    def test_an_invalid_configuration_is_an_error(
        self, name: str, config: Path, shell: Shell
    ) -> None:
        """A missing file is an error too."""
        config.write_text("[daemon\n")
        check_one_line(shell, name, *ASKS[name], "--config", str(config))
        for missing in ("no/such/file", str(config.parent), "x" * 5000, "a\x00b"):
            result = shell(name, *ASKS[name], "--config", missing)
            assert result.code == 1
            assert result.err.count("\n") == 1


@contextmanager
def answering(path: Path, answer: bytes) -> Iterator[None]:
    """Run a server that sends the same answer to every client and closes."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        listening.settimeout(5.0)
        ending = threading.Event()

        def serve() -> None:
            while not ending.is_set():
                connection, _ = listening.accept()
                with connection:
                    if not ending.is_set():
                        connection.recv(1 << 16)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            ending.set()
            with socket.socket(socket.AF_UNIX) as last:
                last.connect(str(path))
            thread.join()


@pytest.mark.parametrize(
    ("question", "arguments", "message"),
    [
        ("nothing", {}, "unknown question 'nothing'"),
        ("explain", {}, "vm: must be the id or the name of a VM"),
        ("explain", {"vm": 7}, "1 to 128 characters"),
        ("explain", {"vm": None}, "the id or the name"),
        ("explain", {"vm": "x" * 200}, "1 to 128 characters"),
        ("explain", {"vm": "99"}, "no VM has the id or name '99'"),
        ("bid", {"vm": "0", "cpu": -1}, "cpu: must be a number from 0 to 1e+15 (got -1)"),
        (
            "bid",
            {"vm": "0", "cpu": float("nan")},
            "cpu: must be a number from 0 to 1e+15 (got nan)",
        ),
        ("bid", {"vm": "0", "memory": "3"}, "memory: must be a number from 0 to 1e+15 (got '3')"),
        ("bid", {"vm": "0", "memory": True}, "memory: must be a number from 0 to 1e+15 (got True)"),
        ("bid", {"vm": "0", "cpu": 10**400}, "must be a number from 0"),
        ("steps", {"limit": 0}, "must be from 1 to 100000 (got 0)"),
        ("steps", {"limit": 2**70}, "a whole number from 0"),
        ("steps", {"limit": "5"}, "a whole number from 0"),
        ("steps", {"kind": "explode"}, "one of create, deploy"),
        ("steps", {"state": "happy"}, "one of planned, sent"),
        ("steps", {"vm": -3}, "a whole number from 0"),
        ("steps", {"host": "nowhere"}, "no host has the id or name 'nowhere'"),
        ("steps", {"since_s": float("inf")}, "a number from 0"),
        ("price_history", {"periods": 10**6}, "must be from 1 to 10000 (got 1000000)"),
        ("price_history", {"market": ["default"]}, "1 to 128 characters"),
    ],
)
def test_the_daemon_checks_arguments_itself(
    question: str, arguments: dict[str, object], message: str, settled: Daemon
) -> None:
    """A command's own checks only give better messages."""
    with pytest.raises(ControlError) as refused:
        settled.answer(question, **arguments)
    assert message in str(refused.value)
    assert len(str(refused.value)) < 500
