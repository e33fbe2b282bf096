"""The pool of connections with real sshds."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paramiko
import pytest

from controllers.monitors.ssh_pool import (
    CommandFailure,
    CommandResult,
    Heard,
    SshLimits,
    SshPool,
    SshTarget,
    key_of,
)
from merkatd.protocol.guest_keys import GuestKeys, guest_keys
from tests.controllers.monitors.sshd import SSHD, Sshd, free_port, running, user

pytestmark = pytest.mark.skipif(SSHD is None, reason="there is no sshd")
KEYS = GuestKeys(b"a secret of thirty-two bytes....")


@pytest.fixture(scope="module")
def sshds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Sshd]]:
    """Return two VMs that no test changes."""
    with running(tmp_path_factory.mktemp("sshd"), KEYS, 2) as servers:
        yield servers


@pytest.fixture
def pool() -> Iterator[SshPool]:
    """Return a pool of two threads."""
    pool = SshPool(key_of(KEYS.ours), SshLimits(pool=2, connect_s=20.0, command_s=20.0))
    yield pool
    pool.close()


def place(sshd: Sshd, key: str) -> SshTarget:
    """Return the target of a VM with this key."""
    return SshTarget(address=sshd.address, port=sshd.port, user=user(), host_key=KEYS.host_key(key))


def asked(pool: SshPool, places: dict[int, SshTarget], command: str) -> dict[int, Heard]:
    """Return the VMs' answers to a command."""
    return asyncio.run(pool.ask(places, lambda _: command))


def test_each_vm_answers_with_output_and_exit_status(pool: SshPool, sshds: list[Sshd]) -> None:
    """The second command uses the same connection."""
    places = {vm: place(sshd, f"key-{vm}") for vm, sshd in enumerate(sshds, start=1)}
    heard = asked(pool, places, "echo so; echo but >&2; echo $SSH_CONNECTION; exit 3")
    for outcome in heard.values():
        assert isinstance(outcome, CommandResult)
        assert (outcome.status, outcome.error) == (3, b"but\n")
        assert outcome.out.startswith(b"so\n")
    again = asked(pool, places, "echo so; echo but >&2; echo $SSH_CONNECTION; exit 3")
    assert again == heard


def test_a_long_answer_is_complete(pool: SshPool, sshds: list[Sshd]) -> None:
    """It is longer than any window of SSH."""
    heard = asked(pool, {1: place(sshds[0], "key-1")}, "head -c 900000 /dev/zero")[1]
    assert isinstance(heard, CommandResult)
    assert len(heard.out) == 900_000


def test_an_unknown_server_gets_no_command(pool: SshPool, sshds: list[Sshd]) -> None:
    """Its host key differs, or no key is known."""
    places = {
        1: place(sshds[0], "key-2"),
        2: SshTarget(address=sshds[1].address, port=sshds[1].port, user=user()),
    }
    heard = asked(pool, places, "echo secret")
    assert isinstance(heard[1], CommandFailure)
    assert heard[1].stranger
    assert isinstance(heard[2], CommandFailure)


def test_a_wrong_client_key_is_refused(sshds: list[Sshd]) -> None:
    """Only keys are tried."""
    other = SshPool(key_of(GuestKeys(b"x" * 32).ours), SshLimits(pool=1))
    try:
        heard = asked(other, {1: place(sshds[0], "key-1")}, "true")[1]
    finally:
        other.close()
    assert isinstance(heard, CommandFailure)
    assert "uthentication" in heard.why


def test_a_slow_vm_is_abandoned(sshds: list[Sshd]) -> None:
    """The others are not."""
    quick = SshPool(key_of(KEYS.ours), SshLimits(pool=2, connect_s=20.0, command_s=1.0))
    places = {vm: place(sshd, f"key-{vm}") for vm, sshd in enumerate(sshds, start=1)}
    try:
        assert all(
            isinstance(outcome, CommandResult) for outcome in asked(quick, places, "true").values()
        )
        heard = asyncio.run(
            quick.ask(places, lambda vm: "exec sleep 600" if vm == 1 else "echo here")
        )
    finally:
        quick.close()
    assert isinstance(heard[1], CommandFailure)
    assert isinstance(heard[2], CommandResult)


class TakesNoCommand(paramiko.ServerInterface):
    """A server that accepts any login and never answers a command request."""

    def __init__(self, over: threading.Event) -> None:
        self.over = over

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:  # noqa: ARG002
        """Accept any user."""
        return paramiko.common.AUTH_SUCCESSFUL

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002
        """Allow keys only."""
        return "publickey"

    def check_channel_request(self, kind: str, chanid: int) -> int:  # noqa: ARG002
        """Accept any session."""
        return paramiko.common.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: Any, command: bytes) -> bool:  # noqa: ARG002
        """Wait until the test is over."""
        return self.over.wait(60.0)


@pytest.fixture
def silent() -> Iterator[SshTarget]:
    """Return a VM whose server accepts no command."""
    over = threading.Event()
    key = key_of(KEYS.ours)
    served: list[paramiko.Transport] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    made = paramiko.Transport(listening.accept()[0])
                    served.append(made)
                    made.add_server_key(key)
                    made.start_server(server=TakesNoCommand(over))

        thread = threading.Thread(target=serve)
        thread.start()
        yield SshTarget(
            address="127.0.0.1",
            port=listening.getsockname()[1],
            host_key=f"{key.get_name()} {key.get_base64()}",
        )
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(60.0)
    over.set()
    for server in served:
        server.close()


def test_a_vm_that_accepts_no_command_is_abandoned(sshds: list[Sshd], silent: SshTarget) -> None:
    """Its server has accepted the login and sends nothing more."""
    quick = SshPool(key_of(KEYS.ours), SshLimits(pool=2, connect_s=20.0, command_s=1.0))
    try:
        heard = asyncio.run(
            asyncio.wait_for(
                quick.ask({1: place(sshds[0], "key-1"), 2: silent}, lambda _: "echo here"), 50.0
            )
        )
    finally:
        quick.close()
    assert isinstance(heard[1], CommandResult)
    assert isinstance(heard[2], CommandFailure)


def test_a_restarted_vm_is_reached_again(pool: SshPool, tmp_path: Path) -> None:
    """Its old connection is dead; with another key it counts as unknown."""
    with running(tmp_path, KEYS, 1) as (sshd,):
        there = {1: place(sshd, "key-1")}
        assert isinstance(asked(pool, there, "true")[1], CommandResult)
        sshd.stop()
        assert isinstance(asked(pool, there, "true")[1], CommandFailure)
        sshd.start()
        assert isinstance(asked(pool, there, "true")[1], CommandResult)
        sshd.stop()
        sshd.know(KEYS, "key-7")
        sshd.start()
        assert isinstance(asked(pool, there, "true")[1], CommandFailure)
        assert isinstance(asked(pool, {1: place(sshd, "key-7")}, "true")[1], CommandResult)


def test_a_missing_vm_is_reported(pool: SshPool) -> None:
    """No server has the address."""
    nobody = SshTarget(address="127.0.3.99", port=free_port(), host_key=KEYS.host_key("key-1"))
    heard = asked(pool, {5: nobody}, "true")[5]
    assert isinstance(heard, CommandFailure)
    assert "127.0.3.99" in heard.why


class TestKeys:
    def test_the_secret_is_kept_private(self, tmp_path: Path) -> None:
        """The next start has the same keys; a file that others can read is refused."""
        first = guest_keys(tmp_path)
        assert guest_keys(tmp_path) == first
        file = tmp_path / "ssh_secret"
        assert file.stat().st_mode & 0o777 == 0o600
        file.chmod(0o644)
        with pytest.raises(PermissionError):
            guest_keys(tmp_path)
        file.chmod(0o600)
        file.write_bytes(b"short")
        with pytest.raises(ValueError, match="must contain 32 bytes"):
            guest_keys(tmp_path)

    def test_each_vm_has_its_own_key(self) -> None:
        """It differs from the monitors' key."""
        keys = {KEYS.host_key("a"), KEYS.host_key("b"), KEYS.handed("a")["MERKAT_SSH_KEY"]}
        assert len(keys) == 3
        assert KEYS.host_key("a") == KEYS.host_key("a") != GuestKeys(b"y" * 32).host_key("a")

    def test_an_invalid_key_is_refused(self) -> None:
        """The error names the format."""
        with pytest.raises(ValueError, match="invalid Ed25519 key"):
            key_of("nothing")
