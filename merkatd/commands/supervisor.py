"""What systemd is told of the daemon: that it is ready, lives, reads its configuration, ends.

A message is a datagram to the socket that the environment names; where it names none, as in a
terminal, nothing is told. That it lives is told by the reactor, between other things: one that
is stuck falls silent, and systemd starts the daemon again.
"""

import os
import socket
import time
from collections.abc import Mapping
from typing import Any

from twisted.internet.task import LoopingCall

_MICROSECONDS = 1_000_000


class Supervisor:
    """Whoever started us and waits for word."""

    def __init__(self, environment: Mapping[str, str], clock: Any) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        self._every_s = _watchdog_s(environment) / 2
        self._living = LoopingCall(self._tell, "WATCHDOG=1")
        self._living.clock = clock

    def ready(self, status: str) -> None:
        """The first period has begun; from now on it is told in time that we live."""
        self._tell(f"READY=1\nSTATUS={status}")
        if self._every_s > 0 and not self._living.running:
            self._living.start(self._every_s)

    def reloading(self) -> None:
        """The configuration is being read anew; `ready` says when that is over."""
        at_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={at_us}\nSTATUS=Reading the configuration anew")

    def ending(self) -> None:
        """The work in hand is being finished."""
        self._tell("STOPPING=1\nSTATUS=Ending after the work in hand")

    def stop(self) -> None:
        """Nothing more is told."""
        if self._living.running:
            self._living.stop()

    def _tell(self, message: str) -> None:
        if not self._address:
            return
        # An address that begins with @ is Linux's abstract one, whose first byte is zero.
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as way:
            way.setblocking(False)
            try:
                way.sendto(message.encode(), address)
            except OSError:
                return  # whoever no longer listens has no use for it


def _watchdog_s(environment: Mapping[str, str]) -> float:
    """After how long without a word we count as stuck; 0 where nobody watches this process."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    said = environment.get("WATCHDOG_USEC", "")
    return int(said) / _MICROSECONDS if said.isascii() and said.isdigit() else 0.0
