"""Where the bus is: sockets in a folder that only the daemon's user may enter, or a port."""

from pathlib import Path

FOLDER = "bus"
"""In the state directory."""
ASKED, PUBLISHED = "asked", "published"
LOOPBACK = "tcp://127.0.0.1:*"
_IPC = "ipc://"
_LONGEST_BYTES = 107
"""What Linux takes as the path of a socket."""
_OWN_HANDSHAKE_MS = 10_000
_OPEN_HANDSHAKE_MS = 2_000
"""All users of the machine reach a port. A connection without a handshake is an open file of the
daemon's for so long; a process of ours that took longer comes again by itself."""


def endpoint_in(home: Path) -> str:
    """Return an endpoint in this state directory; its folder is made.

    Where the path is too long for a socket, it is any port of this machine.
    """
    folder = home.absolute() / FOLDER
    if len(str(folder / PUBLISHED).encode()) > _LONGEST_BYTES:
        return LOOPBACK
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)
    return f"{_IPC}{folder}/*"


def socket_at(endpoint: str, name: str) -> str:
    """Return the address of one of the bus's sockets."""
    if endpoint.startswith(_IPC):
        return f"{endpoint.removesuffix('*')}{name}"
    return endpoint


def handshake_ms(endpoint: str) -> int:
    """Return how long a handshake may take."""
    return _OWN_HANDSHAKE_MS if endpoint.startswith(_IPC) else _OPEN_HANDSHAKE_MS
