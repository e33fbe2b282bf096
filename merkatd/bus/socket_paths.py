"""The bus's addresses: sockets in a folder that only the daemon's user may enter, or a port."""

from pathlib import Path

FOLDER = "bus"
"""The folder's name in the state directory."""
ASKED, PUBLISHED = "asked", "published"
LOOPBACK = "tcp://127.0.0.1:*"
_IPC = "ipc://"
_LONGEST_BYTES = 107
"""The longest socket path that Linux accepts."""
_OWN_HANDSHAKE_MS = 10_000
_OPEN_HANDSHAKE_MS = 2_000
"""The time limit on a port, which all users of the machine can reach: until then, a connection
without a handshake uses one of the daemon's open files. A slow process of Merkat reconnects."""


def endpoint_in(home: Path) -> str:
    """Create the folder `bus` in this state directory, and return the endpoint in it.

    If the path is too long for a socket, return an endpoint for any port of this machine.
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


def is_there(endpoint: str) -> bool:
    """Return whether the file of an address still exists; a port has none."""
    return endpoint.startswith(_IPC) and Path(endpoint.removeprefix(_IPC)).exists()


def handshake_ms(endpoint: str) -> int:
    """Return the time limit of a handshake."""
    return _OWN_HANDSHAKE_MS if endpoint.startswith(_IPC) else _OPEN_HANDSHAKE_MS
