"""A Merkat whose VMs are containers with an sshd each, in which real applications run."""

import base64
import contextlib
import re
import subprocess
import sys
import xmlrpc.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from merkatd.database.fleets import platform_store
from merkatd.database.fleets.platform_store import PlatformRow
from merkatd.demo.guest_domains import StartGuest
from tests.real.domains import Guest
from tests.real.host import ROOT, RealHost
from tests.real.site import Cloud

NETWORK, GATEWAY = "10.78.1", "10.78.0.1"
_BRIDGE, _PREFIX = "vms", 16
LOGIN = "login"
"""The host's name in the VMs' network."""
_RESERVED = "60"
"""Percent of a core reserved for the daemon, controllers and monitors on the same cores."""
_PORT = 22
_DOMAIN = """\
<domain type='lxc'>
  <name>one-{vm}</name>
  <memory unit='MiB'>{memory_mib}</memory>
  <vcpu>{vcpus}</vcpu>
  <cputune><shares>{shares}</shares></cputune>
  <os><type>exe</type><init>/bin/sh</init><initarg>{script}</initarg></os>
  <devices>
    <emulator>/usr/lib/libvirt/libvirt_lxc</emulator>
    <interface type='bridge'><source bridge='{bridge}'/></interface>
    <console type='pty'/>
  </devices>
</domain>
"""
_SSHD = """\
ListenAddress {address}:{port}
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/authorised
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
SetEnv SHLVL=5{environment}
PidFile none
"""
"""At this SHLVL bash does not read its user's .bashrc."""
_HEAT = """\
heat() {{
    mkdir -p "$1"
    OMP_NUM_THREADS=1 {python} -m tests.real.applications.heat "$@"
    code=$?
    # One that is ended with its VM has not ended by itself.
    test $code -ge 128 || {{ echo $code >"$1/status.new"; mv "$1/status.new" "$1/status"; }}
}}
"""
_MORE = """\
[bus]
ssh_address = "{network}.{{vm}}"
ssh_port = {port}
ssh_connect = "60s"
ssh_command = "60s"
"""


class Containers(Cloud):
    """Containers on one host: a VM's template has its command (RUN) and its SETENV."""

    def __init__(self, directory: Path, host: RealHost, *, more: str = "", **options: Any) -> None:
        self.host = host
        more = _MORE.format(network=NETWORK, port=_PORT) + more
        super().__init__(directory, [host.uri("lxc")], host.uri("lxc"), more=more, **options)
        for words in (
            f"ip link add {_BRIDGE} type bridge",
            f"ip address add {GATEWAY}/{_PREFIX} dev {_BRIDGE}",
            f"ip link set {_BRIDGE} up",
            "sysctl -q -w net.ipv4.ip_forward=1",
        ):
            host.run(*words.split())
        subprocess.run(
            ["ip", "route", "replace", f"{NETWORK}.0/24", "via", host.address], check=True
        )

    def start(self) -> None:
        """Start a host that reserves some CPU, as an administrator would configure it."""
        super().start()
        self.call("one.host.update", 0, f'RESERVED_CPU="{_RESERVED}"', 1)

    def described(self, start: StartGuest) -> str:
        """Return a container that is contextualised, then runs sshd and the VM's command."""
        place = self.directory / f"vm-{start.vm}"
        place.mkdir(exist_ok=True)
        template = self.template_of(start.vm)
        lines = [
            "#!/bin/sh",
            f"exec >>{place}/console 2>&1",
            # Each container has its own name and address, like a VM.
            f"export VM={start.vm} ADDRESS={NETWORK}.{start.vm} PLACE={place}",
            f"hostname one-{start.vm}",
            "ip link set lo up",
            f"ip address add $ADDRESS/{_PREFIX} dev eth0",
            "ip link set eth0 up",
            f"ip route add default via {GATEWAY}",
        ]
        if "MERKAT_HOST_KEY" in template:
            key = place / "host_key"
            key.touch(0o600)
            key.write_bytes(base64.b64decode(template["MERKAT_HOST_KEY"]))
            (place / "authorised").write_text(template["MERKAT_SSH_KEY"] + "\n")
            address = f"{NETWORK}.{start.vm}"
            config = place / "sshd_config"
            more = f" {template['SETENV']}" if "SETENV" in template else ""
            config.write_text(
                _SSHD.format(address=address, port=_PORT, directory=place, environment=more)
            )
            lines += [f"export HEAT_ADDRESS={address}", f"/usr/sbin/sshd -f {config}"]
        lines += [
            _HEAT.format(python=sys.executable),
            f"cd {ROOT}",
            template.get("RUN", "sleep 1000000"),
            "exec sleep 1000000",
        ]
        script = place / "init.sh"
        script.write_text("\n".join(lines) + "\n")
        return _DOMAIN.format(
            vm=start.vm,
            memory_mib=start.memory_mib,
            vcpus=start.vcpus,
            shares=start.vcpus * 1024,
            script=script,
            bridge=_BRIDGE,
        )

    def template_of(self, vm: int) -> dict[str, str]:
        """Return the plain attributes of a VM's template."""
        state = self.directory / "state"
        proxy = xmlrpc.client.ServerProxy((state / "one_xmlrpc").read_text().strip())
        with proxy:
            session = (state / "one_auth").read_text().strip()
            answer: Any = proxy.one.vm.info(session, vm)
        assert answer[0], answer
        text = str(answer[1]).partition("<USER_TEMPLATE>")[2].partition("</USER_TEMPLATE>")[0]
        pairs = re.findall(r"<(\w+)><!\[CDATA\[(.*?)\]\]></\1>", text, re.DOTALL)
        return dict(pairs)

    def guest(self, vm: int) -> Guest:
        """Return the container of a VM."""
        return Guest(self.host, vm, "lxc")

    def burning(self, bid: float, vcpus: int = 2, memory_mib: int = 64) -> int:
        """Create a best-effort VM outside of platforms, with a constant bid; return its id."""
        loops = "; ".join(["while :; do :; done &"] * vcpus).replace("&;", "&")
        return int(
            self.call(
                "one.vm.allocate",
                f'NAME="burn" CPU="1" VCPU="{vcpus}" MEMORY="{memory_mib}"'
                f' MERKAT_BID_CPU="{bid:g}" MERKAT_BID_MEMORY="1"'
                f' MERKAT_MIN_MEMORY="{memory_mib}" RUN="{loops} wait"',
                False,
            )
        )

    def tenant(self, name: str) -> str:
        """Create a tenant with the usual credits; return its id."""
        owner = str(self.call("one.user.allocate", name, "secret", "core"))
        self.after_periods(2)
        self.command("tenant", "weight", owner, "1")
        return owner

    def submit(self, tenant: str, template: str) -> int:
        """Submit a platform; return its id."""
        file = self.directory / "template.toml"
        file.write_text(template)
        self.command("platform", "submit", str(file), "--tenant", tenant)
        return max(platform.id for platform in self.read(platform_store.listed))

    def platform(self, platform: int) -> PlatformRow:
        """Return the platform's row in the database."""
        row = self.read(lambda c: platform_store.get(c, platform))
        assert row is not None
        return row

    def folder(self, name: str) -> Path:
        """Return the shared folder of an application's processes."""
        place = self.directory / name
        place.mkdir()
        return place


def heat(folder: Path, processes: int, steps: int, work: int) -> str:
    """Return the command of one process of the application."""
    return f"heat {folder} {processes} {steps} {work}"


def say(figures: str) -> None:
    """Print figures for readers of the tests' output (`-rP`)."""
    sys.stdout.write(f"{figures}\n")


@contextlib.contextmanager
def containers(directory: Path, host: RealHost, **options: Any) -> Iterator[Containers]:
    """Yield a site, and close it in any case."""
    new_site = Containers(directory / "site", host, **options)
    try:
        new_site.start()
        yield new_site
    finally:
        new_site.close()
