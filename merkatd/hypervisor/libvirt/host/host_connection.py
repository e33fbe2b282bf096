"""One host: its connection, its guests, when it may be called again.

A host is used by one thread at a time; nothing here needs a lock.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from twisted.logger import Logger

from merkatd.hypervisor.libvirt.host import libvirt_module
from merkatd.hypervisor.libvirt.host.guest import Guest, topology_in
from merkatd.hypervisor.libvirt.host.libvirt_module import AbandonedError, AwayError, in_words
from merkatd.hypervisor.libvirt.host.settings import HostAddress, LibvirtSettings
from merkatd.limits import Topology


def always() -> bool:
    """Work that may always go on."""
    return True


class CallProgress:
    """Written by one thread and read by another; each value is replaced as a whole."""

    def __init__(self, may: Callable[[], bool] = always) -> None:
        """`may` is asked before each call, on any thread: no call begins where it says no."""
        self.at_s = 0.0
        """When the latest call began."""
        self._abandoned = False
        self._may = may

    def begin(self, now_s: float) -> None:
        """A call begins. Raises AbandonedError where none is to begin any more."""
        self.at_s = now_s
        if self._abandoned:
            raise AbandonedError("it took too long to be told everything in this period")
        if not self._may():
            raise AbandonedError("another daemon may be acting by now")

    @property
    def abandoned(self) -> bool:
        """Whether no more calls are to begin."""
        return self._abandoned or not self._may()

    def abandon(self) -> None:
        """Begin no more calls."""
        self._abandoned = True


Result = TypeVar("Result")
_JITTER = 0.25
_log = Logger()


@dataclass
class HostConnection:
    """One host. What is not given is found out."""

    place: HostAddress
    address: str
    settings: LibvirtSettings
    seconds: Callable[[], float]
    chance: random.Random
    pins: bool = False
    """Whether virtual CPUs are pinned here."""
    open: Callable[[str, int], Any] = libvirt_module.opened
    guests: dict[int, Guest] = field(default_factory=dict)
    """By VM id: those that were there when it was last read."""
    topology: Topology | None = None
    openings: int = 0
    """Handles of guests belong to one opening of the connection."""
    drift: int = 0
    """Limits that were found to be others than those that were set, ever."""
    cores: int = 0
    """How many it has, once somebody needed to know."""
    progress: CallProgress = field(default_factory=CallProgress)
    _connection: Any = None
    _failures: int = 0
    _why: str = ""
    _again_s: float = 0.0

    def call(self, what: Callable[..., Result], *arguments: object) -> Result:
        """Call libvirt, unless nobody waits for it any longer.

        Raises AwayError where the connection is lost with it, libvirtError else.
        """
        self.progress.begin(self.seconds())
        try:
            return what(*arguments)
        except libvirt_module.needed().libvirtError as error:
            if self._connection is not None and not self._alive():
                self._fail(in_words(error))
            raise

    def connection(self) -> Any:
        """The open connection, a new one where the old one is lost. Raises AwayError."""
        if self._connection is not None and self._alive():
            return self._connection
        left_s = self._again_s - self.seconds()
        if left_s > 0:
            raise AwayError(f"{self._why}; it is called again in {left_s:.0f} s")
        self.close()
        self.progress.begin(self.seconds())
        try:
            self._connection = self.open(self.address, max(round(self.settings.keepalive_s), 1))
        except libvirt_module.needed().libvirtError as error:
            self._fail(in_words(error))
        self.openings += 1
        self._look_at_cores()
        self._failures = 0
        return self._connection

    @property
    def reserved(self) -> tuple[int, ...]:
        """The cores for the emulator threads of guests that are pinned; none where none are."""
        return () if self.topology is None else tuple(sorted(self.topology.reserved))

    def close(self) -> None:
        """Let go of the connection; guests and their limits stay as they are."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except libvirt_module.needed().libvirtError as error:
                _log.debug("{host}: closing: {why}", host=self.place.name, why=in_words(error))

    def handle(self, guest: Guest) -> Any:
        """Libvirt's handle of a guest, on the present connection."""
        connection = self.connection()
        if guest.opening != self.openings:
            guest.domain = self.call(connection.lookupByName, guest.name)
            guest.opening = self.openings
        return guest.domain

    def _alive(self) -> bool:
        try:
            return bool(self._connection.isAlive() == 1)
        except libvirt_module.needed().libvirtError:
            return False

    def _look_at_cores(self) -> None:
        if not self.pins:
            return
        reserved = self.settings.reserved_cores or frozenset()
        self.topology = topology_in(self.call(self._connection.getCapabilities), reserved)

    def _fail(self, why: str) -> None:
        """The host is away for a while, longer each time."""
        self.close()
        longest = min(self._failures, 30)
        wait_s = self.settings.retry_least_s * 2.0**longest
        wait_s = min(wait_s, self.settings.retry_most_s)
        self._failures += 1
        self._why = why
        self._again_s = self.seconds() + wait_s * self.chance.uniform(1 - _JITTER, 1 + _JITTER)
        raise AwayError(why)
