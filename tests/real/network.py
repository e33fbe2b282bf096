"""The network of real hosts: names, addresses, a bridge, and a cable to each host."""

import contextlib
import subprocess
from collections.abc import Iterator

BRIDGE = "bridge0"
_NETWORK = "10.77.0"


def name_of(number: int) -> str:
    """Return the name of the host with this id in OpenNebula."""
    return f"host{number}"


def address_of(number: int) -> str:
    """Return the host's address on the bridge; numbers have one digit, so one pattern fits all."""
    return f"{_NETWORK}.1{number}"


@contextlib.contextmanager
def bridge() -> Iterator[None]:
    """Create the bridge to which hosts are connected."""
    _ip("link", "add", BRIDGE, "type", "bridge")
    try:
        _ip("address", "add", f"{_NETWORK}.254/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")
        yield
    finally:
        _ip("link", "delete", BRIDGE)


def plug(link: str, process: int) -> None:
    """Connect the namespace of a process to the bridge."""
    _ip("link", "add", link, "type", "veth", "peer", "name", f"{link}-in", "netns", str(process))
    _ip("link", "set", link, "master", BRIDGE, "up")


def unplug(link: str) -> None:
    """Remove the cable."""
    _ip("link", "delete", link)


def switch(link: str, state: str) -> None:
    """Set the cable "down" or "up"."""
    _ip("link", "set", link, state)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
