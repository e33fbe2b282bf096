"""A whole Merkat on real hosts of ours."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from merkatd.demo.guest_domains import GuestKind, StartGuest, described, disk
from tests.real.cloud import Cloud
from tests.real.domains import Guest, machine_xml
from tests.real.host import RealHost

__all__ = ["Cloud", "Site", "running"]


class Site(Cloud):
    """A daemon, its embedded cloud, and guests that are where its VMs are."""

    def __init__(
        self,
        directory: Path,
        hosts: Sequence[RealHost],
        *,
        transport: str = "unix",
        booted: bool = False,
        **options: Any,
    ) -> None:
        """`booted` guests have an operating system and a balloon, others are there at once."""
        self.hosts = hosts
        self._booted = booted
        self._disk = directory / "disk"
        pattern = _pattern(hosts[0], transport)
        super().__init__(directory, [host.uri() for host in hosts], pattern, **options)
        self._disk.write_bytes(disk())

    def guest(self, vm: int) -> Guest:
        """A VM's guest, where it is now."""
        return Guest(self.hosts[self.guests.there[vm]], vm)

    def described(self, start: StartGuest) -> str:
        """A machine that burns all it can."""
        if self._booted:
            return machine_xml(self.directory, start.vm, start.vcpus, start.memory_mib, "burn=9")
        return described(GuestKind.QEMU, start.vm, start.vcpus, start.memory_mib, str(self._disk))


@contextlib.contextmanager
def running(directory: Path, hosts: Sequence[RealHost], **options: Any) -> Iterator[Site]:
    """A site that is closed in any case."""
    found = Site(directory / "site", hosts, **options)
    try:
        found.start()
        yield found
    finally:
        found.close()


def _pattern(host: RealHost, transport: str) -> str:
    """The address of any host, for the configuration."""
    return (
        host.uri("qemu", transport)
        .replace(host.name, "host{id}")
        .replace(host.address, host.address.removesuffix("0") + "{id}")
    )
