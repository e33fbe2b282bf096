"""Servers that send malformed SSH messages to a monitor."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from controllers.monitors.ssh_pool import CommandFailure, SshLimits, SshPool, SshTarget, key_of
from merkatd.protocol.guest_keys import GuestKeys

KEYS = GuestKeys(b"a secret of thirty-two bytes....")


def packet(payload: bytes) -> bytes:
    """Return an SSH packet before encryption."""
    padding = 8 - (5 + len(payload)) % 8
    padding += 8 if padding < 4 else 0
    return struct.pack(">IB", 1 + len(payload) + padding, padding) + payload + bytes(padding)


def offer(word: bytes) -> bytes:
    """Return a server's offer of algorithms with this text in each list."""
    lists = struct.pack(">I", len(word)) + word
    return packet(b"\x14" + bytes(16) + lists * 10 + bytes(5))


MALFORMED = {
    "a name that is no UTF-8": offer(b"\xff\xfe"),
    "more padding than bytes": struct.pack(">IB", 4, 200) + bytes(50),
    "no payload": struct.pack(">IB", 12, 11) + bytes(40),
    "a farewell that is no UTF-8": packet(
        b"\x01" + struct.pack(">II", 2, 2) + b"\xff\xfe" + bytes(4)
    ),
}


@contextlib.contextmanager
def saying(data: bytes) -> Iterator[SshTarget]:
    """Serve one connection with these bytes after a valid banner."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError), listening.accept()[0] as made:
                made.sendall(b"SSH-2.0-x\r\n" + data)
                while made.recv(4096):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield SshTarget(
            address="127.0.0.1",
            port=listening.getsockname()[1],
            host_key=KEYS.host_key("key-1"),
        )
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        thread.join(60.0)


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_messages_are_a_failure_of_their_vm(data: bytes) -> None:
    """Otherwise one machine ends the monitor of a whole cluster, before its key is checked."""
    pool = SshPool(key_of(KEYS.ours), SshLimits(pool=2, connect_s=20.0, command_s=20.0))
    try:
        with saying(data) as target:
            heard = asyncio.run(pool.ask({1: target}, lambda _: "true"))
    finally:
        pool.close()
    assert isinstance(heard[1], CommandFailure)
