"""The pool of connections, against real sshds."""

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
    """Two VMs that no test harms."""
    with running(tmp_path_factory.mktemp("sshd"), KEYS, 2) as found:
        yield found


@pytest.fixture
def pool() -> Iterator[SshPool]:
    """Of two threads."""
    one = SshPool(key_of(KEYS.ours), SshLimits(pool=2, connect_s=20.0, command_s=20.0))
    yield one
    one.close()


def place(sshd: Sshd, key: str) -> SshTarget:
    """Where a VM is, made by this key."""
    return SshTarget(address=sshd.address, port=sshd.port, user=user(), host_key=KEYS.host_key(key))


def asked(pool: SshPool, places: dict[int, SshTarget], command: str) -> dict[int, Heard]:
    """What they say to one command."""
    return asyncio.run(pool.ask(places, lambda _: command))


def test_each_vm_answers_with_output_and_exit_status(pool: SshPool, sshds: list[Sshd]) -> None:
    """A second time over the same connection."""
    places = {vm: place(one, f"key-{vm}") for vm, one in enumerate(sshds, start=1)}
    heard = asked(pool, places, "echo so; echo but >&2; echo $SSH_CONNECTION; exit 3")
    for one in heard.values():
        assert isinstance(one, CommandResult)
        assert (one.status, one.error) == (3, b"but\n")
        assert one.out.startswith(b"so\n")
    again = asked(pool, places, "echo so; echo but >&2; echo $SSH_CONNECTION; exit 3")
    assert again == heard


def test_a_long_answer_comes_whole(pool: SshPool, sshds: list[Sshd]) -> None:
    """Longer than any window of SSH."""
    heard = asked(pool, {1: place(sshds[0], "key-1")}, "head -c 900000 /dev/zero")[1]
    assert isinstance(heard, CommandResult)
    assert len(heard.out) == 900_000


def test_a_stranger_is_not_spoken_to(pool: SshPool, sshds: list[Sshd]) -> None:
    """Whoever answers with another host key, or where none is known."""
    places = {
        1: place(sshds[0], "key-2"),
        2: SshTarget(address=sshds[1].address, port=sshds[1].port, user=user()),
    }
    heard = asked(pool, places, "echo secret")
    assert isinstance(heard[1], CommandFailure)
    assert heard[1].stranger
    assert isinstance(heard[2], CommandFailure)


def test_another_key_than_ours_is_not_let_in(sshds: list[Sshd]) -> None:
    """And nothing but keys is tried."""
    other = SshPool(key_of(GuestKeys(b"x" * 32).ours), SshLimits(pool=1))
    try:
        heard = asked(other, {1: place(sshds[0], "key-1")}, "true")[1]
    finally:
        other.close()
    assert isinstance(heard, CommandFailure)
    assert "uthentication" in heard.why


def test_who_takes_too_long_is_left_alone(sshds: list[Sshd]) -> None:
    """And the others are not."""
    quick = SshPool(key_of(KEYS.ours), SshLimits(pool=2, connect_s=20.0, command_s=1.0))
    places = {vm: place(one, f"key-{vm}") for vm, one in enumerate(sshds, start=1)}
    try:
        assert all(isinstance(one, CommandResult) for one in asked(quick, places, "true").values())
        heard = asyncio.run(
            quick.ask(places, lambda vm: "exec sleep 600" if vm == 1 else "echo here")
        )
    finally:
        quick.close()
    assert isinstance(heard[1], CommandFailure)
    assert isinstance(heard[2], CommandResult)


class TakesNoCommand(paramiko.ServerInterface):
    """Lets everybody in, and never says whether it takes the command."""

    def __init__(self, over: threading.Event) -> None:
        self.over = over

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:  # noqa: ARG002
        """Anybody."""
        return paramiko.common.AUTH_SUCCESSFUL

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002
        """By a key."""
        return "publickey"

    def check_channel_request(self, kind: str, chanid: int) -> int:  # noqa: ARG002
        """Any session."""
        return paramiko.common.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: Any, command: bytes) -> bool:  # noqa: ARG002
        """Until the test is over."""
        return self.over.wait(60.0)


@pytest.fixture
def silent() -> Iterator[SshTarget]:
    """A VM whose server takes no command."""
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
    for one in served:
        one.close()


def test_a_vm_that_takes_no_command_is_left_alone(sshds: list[Sshd], silent: SshTarget) -> None:
    """Its server has let us in, and says nothing more."""
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


def test_a_vm_that_was_started_again_is_reached_again(pool: SshPool, tmp_path: Path) -> None:
    """Its old connection is dead; nobody answers meanwhile; made anew it is somebody else."""
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


def test_nobody_there(pool: SshPool) -> None:
    """No address answers."""
    nobody = SshTarget(address="127.0.3.99", port=free_port(), host_key=KEYS.host_key("key-1"))
    heard = asked(pool, {5: nobody}, "true")[5]
    assert isinstance(heard, CommandFailure)
    assert "127.0.3.99" in heard.why


class TestKeys:
    def test_the_secret_is_kept_and_nobody_else_reads_it(self, tmp_path: Path) -> None:
        """The same keys at the next start; a file that others can read is refused."""
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

    def test_each_vm_has_its_own(self) -> None:
        """Which is not the monitors'."""
        keys = {KEYS.host_key("a"), KEYS.host_key("b"), KEYS.handed("a")["MERKAT_SSH_KEY"]}
        assert len(keys) == 3
        assert KEYS.host_key("a") == KEYS.host_key("a") != GuestKeys(b"y" * 32).host_key("a")

    def test_what_is_no_key(self) -> None:
        """Is said to be none."""
        with pytest.raises(ValueError, match="invalid Ed25519 key"):
            key_of("nothing")
