"""A Merkat with its cloud in a process of its own: VMs continue if the daemon is killed."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.real.applications.site import Containers
from tests.real.host import ROOT, RealHost, until

_PASSWORD = "secret"  # noqa: S105 - of a cloud that lasts for a test
_CORES, _MEMORY_MIB = 2, 2048
_NOTICED_S = 20.0
"""The longest time in which libvirt may notice that a container has ended."""


class Apart(Containers):
    """A site with one host of two cores, whose cloud outlives the daemon."""

    def __init__(self, directory: Path, host: RealHost, **options: Any) -> None:
        super().__init__(directory, host, cores=_CORES, memory_mib=_MEMORY_MIB, **options)
        self._cloud: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the cloud first, and put its address and login where the daemon's own would be."""
        state = self.directory / "state"
        state.mkdir(exist_ok=True)
        (state / "one_auth").write_text(f"oneadmin:{_PASSWORD}\n")
        words = ["--listen", "127.0.0.1:0", "--hosts", "1", "--cpu", str(_CORES)]
        words += ["--memory", f"{_MEMORY_MIB}MiB", "--password", _PASSWORD]
        self._cloud = subprocess.Popen(
            [sys.executable, "-m", "merkatd.cli", "embedded", *words],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._cloud.stdout is not None
        endpoint = self._cloud.stdout.readline().strip()
        (state / "one_xmlrpc").write_text(f"{endpoint}\n")
        self._tell(f'kind = "opennebula"\nendpoint = "{endpoint}"\nauth_file = "{state}/one_auth"')
        super().start()

    def _tell(self, cloud: str) -> None:
        """Write this cloud into the daemon's configuration."""
        before, _, rest = self.configuration.read_text().partition("[cloud]\n")
        _, _, after = rest.partition("[hypervisor]\n")
        self.configuration.write_text(f"{before}[cloud]\n{cloud}\n[hypervisor]\n{after}")

    def close(self) -> None:
        """End the daemon, then the cloud."""
        try:
            super().close()
        finally:
            if self._cloud is not None:
                self._cloud.kill()
                self._cloud.wait()
                assert self._cloud.stdout is not None
                self._cloud.stdout.close()

    def kill_vm(self, vm: int) -> None:
        """Kill all processes of a VM, and tell the cloud what its monitoring would see.

        On a busy machine, in one of ten runs, libvirt listed a container for two minutes after its
        first process had been killed. In that case the test asks libvirt to end it.
        """
        os.kill(self._first_of(vm), signal.SIGKILL)
        try:
            until(lambda: not self._runs_on_host(vm), f"VM {vm} is gone", patience_s=_NOTICED_S)
        except AssertionError:
            self.host.connection("lxc").lookupByName(f"one-{vm}").destroy()
            until(lambda: not self._runs_on_host(vm), f"VM {vm} is gone")
        self.call("embedded.guest.off", vm)

    def _first_of(self, vm: int) -> int:
        """Return the id of a container's first process on this machine."""
        wanted = str(self.directory / f"vm-{vm}" / "init.sh").encode()
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if wanted not in (path / "cmdline").read_bytes().split(b"\0"):
                    continue
                numbers = (path / "status").read_text().partition("NSpid:")[2].split("\n")[0]
                if numbers.split()[-1] == "1":
                    return int(path.name)
        raise LookupError(f"VM {vm} has no process")

    def _runs_on_host(self, vm: int) -> bool:
        return f"one-{vm}" in {
            domain.name() for domain in self.host.connection("lxc").listAllDomains()
        }


@contextlib.contextmanager
def apart(directory: Path, host: RealHost) -> Iterator[Apart]:
    """Yield a site, and close it in any case."""
    new_site = Apart(directory / "site", host)
    try:
        new_site.start()
        yield new_site
    finally:
        new_site.close()
