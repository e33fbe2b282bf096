"""A daemon in a separate process beside an endpoint, and the connection between the two."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import urlopen

from twisted.protocols.portforward import ProxyFactory

from merkatd import cli
from merkatd.api.control.control_client import ControlError, ask
from tests.contract.cleaning import clean, restore
from tests.daemon.processes import Program

if TYPE_CHECKING:
    from pathlib import Path

    from tests.contract.endpoint import Endpoint

PATIENCE_S = 120.0
INTERVAL_S = 1.0

_CONFIGURATION = """
[daemon]
state_directory = "{directory}/state"
control_socket = "{directory}/control"
[driver]
socket = "{directory}/driver"
[period]
interval = "{interval}s"
settle = "0.5s"
grace = "5s"
[cloud]
kind = "opennebula"
endpoint = "http://127.0.0.1:{port}/RPC2"
auth_file = "{directory}/one_auth"
[hypervisor]
kind = "none"
[metrics]
enabled = true
port = 0
"""


class _Wire(ProxyFactory):
    """Forward connections until the proxy is cut."""

    noisy = False

    def __init__(self, host: str, port: int, reactor: Any) -> None:
        super().__init__(host, port)
        self._reactor = reactor
        self.open: list[Any] = []

    def buildProtocol(self, address: Any) -> Any:  # noqa: N802 - Twisted's name
        """Record each connection."""
        made: Any = super().buildProtocol(address)
        made.reactor = self._reactor
        self.open.append(made)
        return made


class Daemon:
    """A daemon with periods of a few seconds."""

    def __init__(self, endpoint: Endpoint, directory: Path) -> None:
        self._endpoint = endpoint
        self._directory = directory
        there = urlsplit(endpoint.address)
        self._reactor: Any = endpoint.clock
        self._wire = _Wire(there.hostname or "", there.port or 0, self._reactor)
        self._port: Any = self._listen(0)
        self._number = self._port.getHost().port
        self._program: Program | None = None

    def start(self) -> None:
        """Start the daemon and wait for its first period."""
        values = {"directory": self._directory, "interval": INTERVAL_S, "port": self._number}
        configuration = self._directory / "merkatd.toml"
        configuration.write_text(_CONFIGURATION.format(**values))
        (self._directory / "one_auth").write_text(f"{self._endpoint.admin}\n")
        (self._directory / "one_auth").chmod(0o600)
        words = ("run", "--config", str(configuration))
        self._program = Program(self._directory / "log", *words, main=cli.main)
        self.until(lambda: self.status().get("period"), "the first period")

    def close(self) -> None:
        """Stop the daemon and the proxy."""
        if self._program is not None:
            self._program.kill()
        self.cut()
        self._endpoint.pause()

    # -- the connection -----------------------------------------------------------------------

    def cut(self) -> None:
        """Refuse connections from now on, as a stopped server does."""
        self._port.stopListening()
        for connection in self._wire.open:
            if connection.transport is not None:
                connection.transport.abortConnection()
        self._wire.open.clear()

    def join(self) -> None:
        """Accept connections at the same port again."""
        self._port = self._listen(self._number)

    def _listen(self, port: int) -> Any:
        return self._reactor.listenTCP(port, self._wire, interface="127.0.0.1")

    # -- questions ----------------------------------------------------------------------------

    def ask(self, question: str, **arguments: Any) -> Any:
        """Return the daemon's answer; the proxy forwards meanwhile."""
        future: Future[Any] = Future()

        def work() -> None:
            try:
                future.set_result(ask(self._directory / "control", question, arguments))
            except ControlError as error:
                future.set_exception(error)

        Thread(target=work, daemon=True).start()
        while not future.done():
            self.pause(0.02)
        return future.result()

    def status(self) -> dict[str, Any]:
        """Return the daemon's status, empty until the daemon answers."""
        try:
            answer: dict[str, Any] = self.ask("status")
        except ControlError:
            assert self._program is not None
            assert self._program.running, self.log()
            return {}
        return answer

    def log(self) -> str:
        """Return the daemon's log."""
        return (self._directory / "log").read_text()

    def metrics(self) -> str:
        """Return the text of one scrape."""
        address = self.log().partition("Metrics are served at ")[2].split()[0]
        with urlopen(address, timeout=10) as answer:  # noqa: S310 - the daemon's own port
            return str(answer.read().decode())

    # -- waiting ------------------------------------------------------------------------------

    def until(self, look: Any, what: str) -> Any:
        """Return the first true result of `look`; the server answers meanwhile."""
        faster = getattr(self._endpoint.drive, "faster", 1)
        waited = 0.0
        while not (answer := look()):
            assert waited < PATIENCE_S, f"{what}: not within {PATIENCE_S} s\n{self.log()}"
            self._endpoint.pause(0.2 * faster)
            waited += 0.2
        return answer

    def pause(self, seconds: float) -> None:
        """Let real time pass."""
        self._endpoint.pause(seconds * getattr(self._endpoint.drive, "faster", 1))

    def periods(self, count: int) -> None:
        """Wait for this number of further periods that start from now on."""
        last = int(self.status()["period"]) + count + 1
        self.until(lambda: (self.status().get("period") or 0) >= last, f"period {last}")


@dataclass(frozen=True, slots=True)
class RunningDaemon:
    """A daemon that serves all tests of a module, and its cloud."""

    endpoint: Endpoint
    daemon: Daemon
    templates: dict[int, str]
    """The templates of the cloud's hosts before the first test."""

    def renew(self) -> None:
        """Remove what the previous test left on the cloud."""
        clean(self.endpoint, self.templates)
        self.endpoint.hosts.clear()
        assert restore(self.endpoint, self.templates)
