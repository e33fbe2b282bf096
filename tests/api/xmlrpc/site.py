"""A whole daemon on its embedded cloud with two tenants, each with a VM, over real HTTP."""

import hashlib
import http.client
import sqlite3
import time
import xmlrpc.client
from collections.abc import Callable
from pathlib import Path
from typing import Any

from merkatd import cli
from merkatd.api.control.control_client import ControlError, ask
from merkatd.client import Merkat
from tests.daemon.processes import Program

PASSWORD = "hush-hush-secret"  # noqa: S105 - of users of a cloud that lives as long as a test
ANN, BOB = f"ann:{PASSWORD}", f"bob:{PASSWORD}"
_PATIENCE_S = 120.0
_STILL_S = 1.5
"""After this time without a change a paused daemon is between two periods."""
_VM = (
    'CPU="1"\nVCPU="2"\nMEMORY="2048"\nMERKAT_BID_CPU="{bid}"\nMERKAT_BID_MEMORY="1"\nNAME="{name}"'
)
_CONFIG = """
[daemon]
state_directory = "{folder}/state"
[period]
interval = "20s"
[cloud]
hosts = 1
host_cores = 2
speed = 20.0
[money]
starting_credits = {credits_:.1f}
[api]
call = "1s"
idle = "{idle}"
user_calls = 100000.0
user_orders = 100000.0
address_calls = 100000.0
{more}
"""


def until(met: Callable[[], object], what: str) -> None:
    """Wait for a condition; raise AssertionError if it is not met in time."""
    ending = time.monotonic() + _PATIENCE_S
    while not met():
        assert time.monotonic() < ending, f"{what}: not within {_PATIENCE_S:g} s"
        time.sleep(0.02)


class Site:
    """One daemon; VM 0 belongs to Ann, VM 1 to Bob."""

    def __init__(
        self, folder: Path, more: str = "", credits_: float = 1e6, *, idle: str = "5s"
    ) -> None:
        """Start the daemon; the default credits outlast any test, so new VMs are allowed."""
        self.folder = folder
        self.state = folder / "state"
        config = folder / "merkatd.toml"
        config.write_text(_CONFIG.format(folder=folder, more=more, credits_=credits_, idle=idle))
        self.log = folder / "log"
        self.program = Program(self.log, "run", "--config", str(config), main=cli.main)
        try:
            self._settle()
        except BaseException:
            self.program.kill()
            raise

    def _settle(self) -> None:
        until(lambda: self.period() is not None, "a period")
        self.endpoint = (self.state / "merkat_xmlrpc").read_text().strip()
        self.admin = (self.state / "one_auth").read_text().strip()
        proxy: Any = xmlrpc.client.ServerProxy((self.state / "one_xmlrpc").read_text().strip())
        self.users = {
            name: self._result(proxy.one.user.allocate(self.admin, name, PASSWORD, "core"))
            for name in ("ann", "bob")
        }
        for name, session, bid in (("a", ANN, 2), ("b", BOB, 6)):
            self._result(proxy.one.vm.allocate(session, _VM.format(bid=bid, name=name), False))
        until(self._running, "both VMs running")
        self._result(proxy.one.vm.update(ANN, 0, 'NOTE="mine"', 1))
        proxy("close")()

    @staticmethod
    def _result(answer: Any) -> Any:
        assert answer[0] is True, answer
        return answer[1]

    def period(self) -> int | None:
        """Return the number of the latest period, or None without an answer."""
        assert self.program.running, self.log.read_text()
        try:
            period: int | None = ask(self.state / "control.sock", "status")["period"]
        except ControlError:
            return None
        return period

    def _running(self) -> bool:
        rows = ask(self.state / "control.sock", "vms")
        return len(rows) == 2 and all(row["state"] == "RUNNING" and row["host"] for row in rows)

    def pause(self) -> None:
        """Start no more periods, and return after the running one has ended."""
        ask(self.state / "control.sock", "pause")
        kept, still_s = self.kept(), time.monotonic()

        def quiet() -> bool:
            nonlocal kept, still_s
            before, kept = kept, self.kept()
            if kept != before:
                still_s = time.monotonic()
            return time.monotonic() - still_s > _STILL_S

        until(quiet, "no more periods")

    def resume(self) -> None:
        """Resume periods."""
        ask(self.state / "control.sock", "resume")

    def order(self, question: str, **words: Any) -> Any:
        """Give an order, as a command on the same machine does."""
        return ask(self.state / "control.sock", question, words)

    def as_before(self) -> None:
        """Restore the configured mode and resume."""
        self.order("mode", to="configured")
        self.resume()

    def merkat(self, session: str = ANN) -> Merkat:
        """Return a tenant's client."""
        return Merkat(self.endpoint, session)

    def opennebula(self, session: str, method: str, *arguments: Any) -> Any:
        """Return the cloud's value of a call that must succeed."""
        endpoint = (self.state / "one_xmlrpc").read_text().strip()
        with xmlrpc.client.ServerProxy(endpoint) as proxy:
            return self._result(getattr(proxy, method)(session, *arguments))

    def terminate(self, session: str, vm: int) -> None:
        """Terminate a VM; OpenNebula refuses that while it boots."""
        endpoint = (self.state / "one_xmlrpc").read_text().strip()

        def accepted() -> bool:
            with xmlrpc.client.ServerProxy(endpoint) as proxy:
                answer: Any = proxy.one.vm.action(session, "terminate-hard", vm)
            return answer[0] is True

        until(accepted, f"the end of VM {vm}")

    def kept(self) -> str:
        """Return a hash of all rows in the database."""
        path = f"file:{self.state / 'merkat.db'}?mode=ro"
        digest = hashlib.sha256()
        connection = sqlite3.connect(path, uri=True)
        try:
            for line in connection.iterdump():
                digest.update(line.encode())
        finally:
            connection.close()
        return digest.hexdigest()

    def post(self, body: bytes, *, verb: str = "POST", path: str = "/RPC2") -> tuple[int, bytes]:
        """Return the status and the body of the answer to any bytes."""
        host, port = self.endpoint.removeprefix("http://").removesuffix("/RPC2").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=20)
        try:
            connection.request(verb, path, body, {"Content-Type": "text/xml"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def raw(self, method: str, *arguments: Any) -> Any:
        """Return the whole answer to a call, or the code of its fault."""
        status, body = self.post(xmlrpc.client.dumps(arguments, method).encode())
        assert status == 200
        return self.value(body)

    @staticmethod
    def value(body: bytes) -> Any:
        """Return the value of an answer, or the code of a fault."""
        try:
            (answer,), _ = xmlrpc.client.loads(body)
        except xmlrpc.client.Fault as fault:
            return fault.faultCode
        return answer

    def end(self) -> None:
        """Stop the daemon as an administrator does."""
        try:
            self.program.tell_to_end()
            assert self.program.end() == 0, self.log.read_text()
        finally:
            self.program.kill()


def xmlrpc_of(site: Site) -> Any:
    """Return a client of the site's cloud."""
    from xmlrpc import client  # noqa: PLC0415 - this package has the same name

    return client.ServerProxy((site.state / "one_xmlrpc").read_text().strip())
