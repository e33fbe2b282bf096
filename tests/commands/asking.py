"""A daemon in virtual time that answers commands, and the commands' output."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from merkatd.api.control.control_client import ControlError
from merkatd.cli import main
from merkatd.service.base.errors import RequestError
from tests.scheduler.frontend import Frontend
from tests.served import questions_at


class Daemon:
    """A frontend whose scheduler answers like one behind a socket."""

    def __init__(self, hosts: int = 2) -> None:
        self.frontend = Frontend(hosts=hosts)
        self.questions = questions_at(self.frontend.scheduler)

    def period(self, count: int = 1) -> None:
        """Run periods, a minute apart."""
        for _ in range(count):
            self.frontend.scheduler.latest = self.frontend.period()
            self.frontend.clock.advance(60)

    def ask(self, path: Path, question: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Answer like `merkatd.api.control.control_server.ask`, with JSON in both directions."""
        del path
        question_arguments = json.loads(json.dumps(dict(arguments or {})))
        try:
            answer = self.frontend.result(
                ensureDeferred(self.questions.answer(question, question_arguments))
            )
        except RequestError as error:
            raise ControlError(str(error)) from None
        return json.loads(json.dumps(answer, allow_nan=False))

    def answer(self, question: str, **arguments: Any) -> Any:
        """Return the answer to a question."""
        return self.ask(Path(), question, arguments)


@contextmanager
def competing(monkeypatch: pytest.MonkeyPatch, **bids: float) -> Iterator[Daemon]:
    """Yield a daemon after four periods; each named tenant has two VMs that bid this much."""
    made = Daemon()
    frontend = made.frontend
    for name, bid in bids.items():
        login = frontend.user(name)
        for number in range(2):
            frontend.vm(bid, owner=login, VCPU=4, NAME=f"{name}-{number}")
    made.period(4)
    monkeypatch.setattr("merkatd.commands.socket_door.ask", made.ask)
    yield made
    frontend.close()


@dataclass(frozen=True, slots=True)
class Said:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Return the lines of standard output."""
        return self.out.splitlines()


class Shell:
    """Runs commands in this process."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *words: str) -> Said:
        """Run `merkatd` with these arguments."""
        self._capture.readouterr()
        try:
            code = main(list(words))
        except SystemExit as stopped:
            code = stopped.code if isinstance(stopped.code, int) else 1
        printed = self._capture.readouterr()
        return Said(code, printed.out, printed.err)

    def ok(self, words: str) -> Said:
        """Run a command that must succeed without warnings."""
        result = self(*words.split())
        assert result.code == 0, result
        assert result.err == ""
        return result

    def refused(self, words: str, code: int = 1) -> str:
        """Return the single error line of a command that must fail."""
        result = self(*words.split())
        assert result.code == code, result
        assert result.out == ""
        assert result.err.count("\n") == 1, result.err
        assert result.err.startswith("merkatd")
        return result.err
