"""The connection to one host, its guests, and the time of its next try.

One thread at a time uses a host, so nothing here needs a lock.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from twisted.logger import Logger

from merkatd.base.backoff import Backoff
from merkatd.hypervisor.libvirt.host import libvirt_module
from merkatd.hypervisor.libvirt.host.guest import Guest, topology_in
from merkatd.hypervisor.libvirt.host.libvirt_module import AbandonedError, HostAwayError, error_line
from merkatd.hypervisor.libvirt.host.settings import HostAddress, LibvirtSettings
from merkatd.limits import Topology


def always() -> bool:
    """Return True: the work may always continue."""
    return True


class CallProgress:
    """The progress of work on a host: one thread writes it, another reads it.

    Each value is replaced as a whole.
    """

    def __init__(self, may: Callable[[], bool] = always) -> None:
        """`may` runs before each call, on any thread; no call starts if it returns False."""
        self.at_s = 0.0
        """The start of the latest call."""
        self._abandoned = False
        self._may = may

    def begin(self, now_s: float) -> None:
        """Record the start of a call. Raise AbandonedError if no more calls may start."""
        self.at_s = now_s
        if self._abandoned:
            raise AbandonedError("it did not finish within the time of this period")
        if not self._may():
            raise AbandonedError("another daemon may have taken over")

    @property
    def abandoned(self) -> bool:
        """Whether no more calls may start."""
        return self._abandoned or not self._may()

    def abandon(self) -> None:
        """Let no more calls start."""
        self._abandoned = True


Result = TypeVar("Result")
_SPREAD = (0.75, 1.25)
_log = Logger()


@dataclass
class HostConnection:
    """One host. Fields with defaults are filled in while it is used."""

    place: HostAddress
    address: str
    settings: LibvirtSettings
    seconds: Callable[[], float]
    chance: random.Random
    pins: bool = False
    """Whether virtual CPUs are pinned here."""
    open: Callable[[str, int], Any] = libvirt_module.opened
    guests: dict[int, Guest] = field(default_factory=dict)
    """The guests found by the last reading, by VM id."""
    topology: Topology | None = None
    openings: int = 0
    """The number of times the connection was opened: a guest's handle is valid for one."""
    drift: int = 0
    """The total number of limits that were found changed by another program."""
    cores: int = 0
    """The number of its cores; 0 until it is first needed."""
    progress: CallProgress = field(default_factory=CallProgress)
    _connection: Any = None
    _failures: int = 0
    _why: str = ""
    _again_s: float = 0.0

    def call(self, what: Callable[..., Result], *arguments: object) -> Result:
        """Call libvirt, unless the work was abandoned.

        Raise HostAwayError if the call fails and the connection is lost, else libvirtError.
        """
        self.progress.begin(self.seconds())
        try:
            return what(*arguments)
        except libvirt_module.require_libvirt().libvirtError as error:
            if self._connection is not None and not self._alive():
                self._fail(error_line(error))
            raise

    def connection(self) -> Any:
        """Return the open connection, or a new one if it is lost. Raise HostAwayError."""
        if self._connection is not None and self._alive():
            return self._connection
        left_s = self._again_s - self.seconds()
        if left_s > 0:
            raise HostAwayError(f"{self._why}; the next try is in {left_s:.0f} s")
        self.close()
        self.progress.begin(self.seconds())
        try:
            self._connection = self.open(self.address, max(round(self.settings.keepalive_s), 1))
        except libvirt_module.require_libvirt().libvirtError as error:
            self._fail(error_line(error))
        self.openings += 1
        self._look_at_cores()
        self._failures = 0
        return self._connection

    @property
    def reserved(self) -> tuple[int, ...]:
        """The cores reserved for the emulator threads of pinned guests."""
        return () if self.topology is None else tuple(sorted(self.topology.reserved))

    def close(self) -> None:
        """Close the connection; guests and their limits stay unchanged."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except libvirt_module.require_libvirt().libvirtError as error:
                _log.debug(
                    "Closing the connection to {host} failed: {why}",
                    host=self.place.name,
                    why=error_line(error),
                )

    def handle(self, guest: Guest) -> Any:
        """Return libvirt's handle of a guest on the present connection."""
        connection = self.connection()
        if guest.opening != self.openings:
            guest.domain = self.call(connection.lookupByName, guest.name)
            guest.opening = self.openings
        return guest.domain

    def _alive(self) -> bool:
        try:
            return bool(self._connection.isAlive() == 1)
        except libvirt_module.require_libvirt().libvirtError:
            return False

    def _look_at_cores(self) -> None:
        if not self.pins:
            return
        reserved = self.settings.reserved_cores or frozenset()
        self.topology = topology_in(self.call(self._connection.getCapabilities), reserved)

    def _fail(self, why: str) -> None:
        """Mark the host as away, twice as long after each further failure. Raise HostAwayError."""
        self.close()
        backoff = Backoff(
            first_s=self.settings.retry_least_s,
            longest_s=self.settings.retry_most_s,
            spread=_SPREAD,
        )
        self._failures += 1
        self._why = why
        wait_s = backoff.wait_s(self._failures, self.chance.random())
        self._again_s = self.seconds() + wait_s
        raise HostAwayError(why)
