"""The network of real hosts: their names and addresses, a bridge, and a cable to each."""

import contextlib
import subprocess
from collections.abc import Iterator

BRIDGE = "bridge0"
_NETWORK = "10.77.0"


def name_of(number: int) -> str:
    """By OpenNebula's id."""
    return f"host{number}"


def address_of(number: int) -> str:
    """On the bridge; numbers have one digit, so that a pattern can name them all."""
    return f"{_NETWORK}.1{number}"


@contextlib.contextmanager
def bridge() -> Iterator[None]:
    """Where hosts are plugged in."""
    _ip("link", "add", BRIDGE, "type", "bridge")
    try:
        _ip("address", "add", f"{_NETWORK}.254/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")
        yield
    finally:
        _ip("link", "delete", BRIDGE)


def plug(link: str, process: int) -> None:
    """A cable from the bridge into the namespace of a process."""
    _ip("link", "add", link, "type", "veth", "peer", "name", f"{link}-in", "netns", str(process))
    _ip("link", "set", link, "master", BRIDGE, "up")


def unplug(link: str) -> None:
    """Take the cable away."""
    _ip("link", "delete", link)


def switch(link: str, state: str) -> None:
    """The cable is "down", or "up" again."""
    _ip("link", "set", link, state)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
