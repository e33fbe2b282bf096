"""The tenants' client: where it looks, what it says, and that it needs nothing else."""

import socket
import subprocess
import sys
import threading
import time
import xmlrpc.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xmlrpc.server import SimpleXMLRPCRequestHandler, SimpleXMLRPCServer

import pytest

from merkatd.client import (
    AuthenticationError,
    BadCallError,
    ForbiddenError,
    Groups,
    InternalError,
    Merkat,
    MerkatError,
    MissingError,
    NotNowError,
    UnreachableError,
    default_endpoint,
    default_session,
)

PRICE = {"market": "default", "resource": "cpu", "period": 7, "at_s": 1.5}


class Daemon:
    """Answers what a test tells it to, as a real server on a real port."""

    def __init__(self) -> None:
        self.reply: Any = [True, 0, 0]
        self.heard: list[tuple[str, tuple[Any, ...]]] = []
        self._server = SimpleXMLRPCServer(
            ("127.0.0.1", 0), SimpleXMLRPCRequestHandler, logRequests=False, allow_none=True
        )
        self._server.register_instance(self)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}/RPC2"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def _dispatch(self, method: str, arguments: tuple[Any, ...]) -> Any:
        self.heard.append((method, arguments))
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply

    def end(self) -> None:
        """Close the port."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """Ended when the test is."""
    made = Daemon()
    yield made
    made.end()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (256, AuthenticationError),
        (512, ForbiddenError),
        (1024, MissingError),
        (2048, NotNowError),
        (4096, BadCallError),
        (8192, InternalError),
        (16384, MerkatError),
    ],
)
def test_each_code_has_an_error(code: int, error: type[MerkatError], daemon: Daemon) -> None:
    """With the daemon's words, its code, and what it was about."""
    daemon.reply = [False, "[merkat.bid.info] why", code, 7]
    merkat = Merkat(daemon.endpoint, "ann:x")
    with pytest.raises(MerkatError, match="why") as raised:
        merkat.bid_of(7)
    merkat.close()
    assert type(raised.value) is error
    assert (raised.value.code, raised.value.id) == (code, 7)


@pytest.mark.parametrize(
    "reply",
    [
        xmlrpc.client.Fault(-500, "broken"),
        7,
        [],
        [True],
        ["yes", 1, 0],
        [True, 7, 0],
        [True, {}, 0],
        [True, [7], 0],
        [True, [{"market": "default"}], 0],
    ],
)
def test_what_is_no_daemon_is_said_to_be_none(reply: Any, daemon: Daemon) -> None:
    """And nothing else is raised."""
    daemon.reply = reply
    with Merkat(daemon.endpoint, "ann:x") as merkat, pytest.raises(UnreachableError):
        merkat.prices()


def test_a_call_whose_answer_is_lost_is_not_repeated() -> None:
    """The daemon may have carried it out: a second group would cost as much as the first."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as port:
        port.settimeout(0.2)

        def hear() -> None:
            try:
                while True:
                    with port.accept()[0] as way:
                        heard.append(way.recv(65_536))
            except TimeoutError:
                return

        thread = threading.Thread(target=hear)
        thread.start()
        endpoint = f"http://127.0.0.1:{port.getsockname()[1]}/RPC2"
        with Merkat(endpoint, "ann:x") as merkat, pytest.raises(UnreachableError):
            Groups(merkat).create(rate=1, count=1, template="CPU=1")
        thread.join()
    assert len(heard) == 1


def test_a_connection_that_the_daemon_closed_meanwhile_is_opened_again() -> None:
    """The daemon closes idle connections, and the next call must not fail because of that."""
    body = xmlrpc.client.dumps(([True, "1.0", 0],), methodresponse=True).encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as port:
        port.settimeout(2.0)

        def serve() -> None:
            for _ in range(2):
                with port.accept()[0] as way:
                    sent = b""
                    while b"</methodCall>" not in sent:
                        sent += way.recv(65_536)
                    way.sendall(answer % len(body) + body)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        endpoint = f"http://127.0.0.1:{port.getsockname()[1]}/RPC2"
        with Merkat(endpoint, "ann:x") as merkat:
            assert merkat.version() == "1.0"
            time.sleep(0.05)
            assert merkat.version() == "1.0"
        thread.join()


def test_faults_that_refuse_a_call_are_bad_calls(daemon: Daemon) -> None:
    """Types, names, sizes; what XML-RPC can't carry is not even sent."""
    daemon.reply = xmlrpc.client.Fault(-501, "a string is right")
    with Merkat(daemon.endpoint, "ann:x") as merkat:
        with pytest.raises(BadCallError, match="a string is right"):
            merkat.prices()
        sent = len(daemon.heard)
        with pytest.raises(BadCallError, match="can't be sent"):
            merkat.bid_of(2**40)
        assert len(daemon.heard) == sent


def test_nobody_there_is_said_so() -> None:
    """Without the password in the message."""
    merkat = Merkat("http://127.0.0.1:9/RPC2", "ann:hush")
    with pytest.raises(UnreachableError, match="no answer") as raised:
        merkat.prices()
    assert "hush" not in f"{raised.value!r} {merkat!r}"


def test_answers_become_values(daemon: Daemon) -> None:
    """What was left out is None, what is not known is passed over; the session comes first."""
    daemon.reply = [True, [PRICE, PRICE | {"price": 0.5, "mood": "fine"}], 0]
    with Merkat(daemon.endpoint, "ann:x") as merkat:
        first, second = merkat.prices("default")
    assert (first.price, second.price, second.period) == (None, 0.5, 7)
    assert daemon.heard == [("merkat.price.info", ("ann:x", "default"))]


def test_it_looks_where_opennebulas_tools_look(tmp_path: Path) -> None:
    """MERKAT_XMLRPC and ONE_AUTH first, then files in the home directory."""
    home = {"HOME": str(tmp_path)}
    assert default_endpoint(home) == "http://localhost:2634/RPC2"
    with pytest.raises(MerkatError, match="with user:password"):
        default_session(home)
    (tmp_path / ".one").mkdir()
    (tmp_path / ".one" / "one_auth").write_text("ann:x\n")
    (tmp_path / ".one" / "merkat_xmlrpc").write_text("http://there:1/RPC2\n")
    (tmp_path / "other").write_text("bob:y\nmore\n")
    assert default_session(home) == "ann:x"
    assert default_endpoint(home) == "http://there:1/RPC2"
    assert default_session(home | {"ONE_AUTH": str(tmp_path / "other")}) == "bob:y"
    assert default_endpoint(home | {"MERKAT_XMLRPC": "http://here/RPC2"}) == "http://here/RPC2"


def test_it_needs_the_standard_library_alone() -> None:
    """Nothing that would have to be installed is imported with it."""
    code = """
import sys
before = set(sys.modules)
import merkatd.client
new = {name.split(".")[0] for name in set(sys.modules) - before} - {"merkatd"}
print(sorted(new - set(sys.stdlib_module_names)))
print(sorted(name for name in sys.modules if name.startswith("merkatd.") and "client" not in name))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]
