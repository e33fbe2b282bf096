"""A complete Merkat on real hosts of the tests."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from merkatd.demo.demo_options import GuestKind
from merkatd.demo.guest_domains import StartGuest, described, disk
from tests.real.cloud import Cloud
from tests.real.domains import Guest, machine_xml
from tests.real.host import RealHost

__all__ = ["Cloud", "Site", "running"]


class Site(Cloud):
    """A daemon, its embedded cloud, and a guest for each VM on the VM's host."""

    def __init__(
        self,
        directory: Path,
        hosts: Sequence[RealHost],
        *,
        transport: str = "unix",
        booted: bool = False,
        **options: Any,
    ) -> None:
        """`booted` guests have an operating system and a balloon; others run at once without."""
        self.hosts = hosts
        self._booted = booted
        self._disk = directory / "disk"
        pattern = _pattern(hosts[0], transport)
        super().__init__(directory, [host.uri() for host in hosts], pattern, **options)
        self._disk.write_bytes(disk())

    def guest(self, vm: int) -> Guest:
        """Return a VM's guest, on its present host."""
        return Guest(self.hosts[self.guests.there[vm]], vm)

    def described(self, start: StartGuest) -> str:
        """Return the XML of a machine that burns as much CPU as it can."""
        if self._booted:
            return machine_xml(self.directory, start.vm, start.vcpus, start.memory_mib, "burn=9")
        return described(GuestKind.QEMU, start.vm, start.vcpus, start.memory_mib, str(self._disk))


@contextlib.contextmanager
def running(directory: Path, hosts: Sequence[RealHost], **options: Any) -> Iterator[Site]:
    """Yield a site, and close it in any case."""
    new_site = Site(directory / "site", hosts, **options)
    try:
        new_site.start()
        yield new_site
    finally:
        new_site.close()


def _pattern(host: RealHost, transport: str) -> str:
    """Return the address pattern of all hosts, for the configuration."""
    return (
        host.uri("qemu", transport)
        .replace(host.name, "host{id}")
        .replace(host.address, host.address.removesuffix("0") + "{id}")
    )
