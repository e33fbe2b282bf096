"""The testbed: docker-compose.yml can be built, runs, and does what docs/testbed.md says."""

import json
import re
import sys
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import libvirt
import pytest

from merkatd.demo.demo_options import GuestKind
from merkatd.demo.guest_domains import StartGuest, described, disk, name_of
from tests.docs.walks import standing
from tests.real import docker, made
from tests.real.docker import Docker
from tests.real.host import until
from tests.real.measuring import measured
from tests.real.site import Cloud

PATIENCE_S = 180.0
PAGE = "testbed.md"
TROUBLE = "troubleshooting.md"
VMS = 13
"""The workload's VMs, once all its tenants have all that they want."""


@pytest.fixture(scope="module")
def daemon() -> Iterator[Docker]:
    """Yield a Docker daemon of the tests, with short names for its sockets."""
    with (
        tempfile.TemporaryDirectory(prefix="d") as place,
        docker.running(Path(place), made.debian()) as container,
    ):
        yield container


def asked(daemon: Docker, query: str) -> list[Any]:
    """Return an answer of the testbed's Prometheus."""
    words = urllib.parse.urlencode({"query": query})
    address = f"http://{daemon.address('prometheus')}:9090/api/v1/query?{words}"
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            samples: list[Any] = json.loads(answer.read())["data"]["result"]
            return samples
    except OSError:
        return []


def value(daemon: Docker, query: str) -> float:
    """Return the first value of a query; without one NaN, which equals nothing."""
    samples = asked(daemon, query)
    return float(samples[0]["value"][1]) if samples else float("nan")


def test_the_embedded_profile_is_a_cloud_at_work(daemon: Docker, tmp_path: Path) -> None:
    """By the page: the daemon is healthy, VMs have limits, Prometheus has data; all is removed."""
    up = "BASE=merkat-testbed-base docker-compose --profile embedded up --build"
    top = "docker-compose exec merkat merkatd top --config /etc/merkat/embedded.toml"
    down = "docker-compose --profile embedded down --volumes"
    log = tmp_path / "up.log"
    with daemon.begin(standing(PAGE, up), log) as begun:
        try:
            at_work(daemon)
            shown = daemon.screen(standing(PAGE, top), b"q", tmp_path / "top.log")
            assert b"HOSTS" in shown.upper()
        except BaseException:
            # pytest shows the output of a failed test.
            sys.stdout.write("\n".join(log.read_text().splitlines()[-200:]))
            raise
        finally:
            begun.terminate()
            begun.wait(PATIENCE_S)
            daemon.shell(standing(PAGE, down))
    assert not daemon.run("ps", "--all", "--quiet")
    assert not daemon.run("volume", "ls", "--quiet")


def at_work(daemon: Docker) -> None:
    """Wait until all parts of the testbed work."""
    until(lambda: daemon.health("merkat") == "healthy", "merkat is well", patience_s=PATIENCE_S)
    until(lambda: value(daemon, 'up{job="merkat"}') == 1, "it is read", patience_s=PATIENCE_S)
    running = 'merkat_vms{state="running"}'
    until(lambda: value(daemon, running) >= VMS, "the workload runs", patience_s=PATIENCE_S)
    assert value(daemon, 'merkat_price_credits{resource="cpu"}') > 0
    assert value(daemon, 'merkat_calls_total{server="database",outcome="answered"}') > 0
    assert {sample["metric"]["group"] for sample in asked(daemon, "merkat_group_vms > 0")} == {
        "physics",
        "biology",
    }
    placed = json.loads(daemon.inside("merkat", "merkatd", *_LIST))
    assert len(placed) >= VMS
    output = daemon.inside("database", "mariadb", "merkat", "-Ne", "SELECT COUNT(*) FROM periods")
    assert re.fullmatch(r"[1-9]\d*", output.strip())


_LIST = ("list", "vms", "--json", "--config", "/etc/merkat/embedded.toml")


class Containers(Cloud):
    """Merkat with containers of the testbed as its hosts."""

    def described(self, start: StartGuest) -> str:
        """Return the XML of a machine that burns as much CPU as it can."""
        return described(GuestKind.QEMU, start.vm, start.vcpus, start.memory_mib, _DISK)


_DISK = "/var/lib/libvirt/images/disk"
_HOSTS = ("host1", "host2")
_MEASURED_S = 4.0


@pytest.mark.parametrize("profile", ["embedded", "opennebula"])
@pytest.mark.parametrize("files", [(), ("docker-compose.yml", "testbed/kvm.yml")])
def test_docker_compose_accepts_every_profile(
    daemon: Docker, profile: str, files: tuple[str, ...]
) -> None:
    """It accepts both profiles, also with Grafana and with hardware virtualisation."""
    named = [word for file in files for word in ("--file", file)]
    output = daemon.compose(*named, "config", profiles=(profile, "grafana"))
    services = dict(re.findall(r"^  ([\w-]+):\n((?:    .*\n)+)", output, re.MULTILINE))
    ours = {"embedded": {"cloud", "merkat", "workload"}, "opennebula": {"frontend", *_HOSTS}}
    assert {"database", "prometheus", "grafana", *ours[profile]} <= services.keys()
    given = {name for name, text in services.items() if "/dev/kvm" in text}
    assert given == (set(_HOSTS) if files else set())


def test_its_hosts_for_opennebula_keep_guests_to_their_limits(
    daemon: Docker, tmp_path: Path
) -> None:
    """QEMU and libvirtd run in both containers, and guests get what Merkat's limits allow."""
    daemon.compose("up", "--detach", *_HOSTS, profiles=("opennebula",))
    addresses = [f"qemu+tcp://{daemon.address(host)}/system" for host in _HOSTS]
    connections = [_connected(address) for address in addresses]
    assert [connection.getHostname() for connection in connections] == list(_HOSTS)
    (tmp_path / "disk").write_bytes(disk())
    for host in _HOSTS:
        daemon.copy(tmp_path / "disk", host, _DISK)
    site = Containers(tmp_path / "site", addresses[:1], addresses[0], cores=1)
    try:
        site.start()
        shares = dict(
            zip((site.new(bid, vcpus=1) for bid in (1.0, 3.0)), (0.25, 0.75), strict=True)
        )
        site.after_periods(3)
        for vm, share in shares.items():
            guest = connections[0].lookupByName(name_of(vm))
            assert guest.schedulerParameters()["vcpu_quota"] == share * 100_000
            got = measured(partial(_burnt_s, guest), _MEASURED_S)
            # QEMU's other threads need some CPU in addition.
            assert got.within(share * 0.9, share * 1.05 + 0.02), (share, got)
        assert name_of(vm) in by_ssh(daemon)
        job = standing(TROUBLE, "virsh domjobinfo one-7").replace("one-7", name_of(vm))
        assert "Job type:" in daemon.inside(_HOSTS[0], "sh", "-c", job)
        assert not site.failed
    finally:
        site.close()
        for connection in connections:
            connection.close()


def by_ssh(daemon: Docker) -> str:
    """Return the answer of the first host's libvirtd to the account of OpenNebula's frontend."""
    daemon.inside(_HOSTS[1], "sh", "-euc", _KEYS)
    command = standing(TROUBLE, "virsh -c qemu+ssh://oneadmin@HOST/system list")
    shell_command = command.replace("HOST", _HOSTS[0])
    return daemon.inside(_HOSTS[1], "runuser", "-u", "oneadmin", "--", "sh", "-c", shell_command)


_KEYS = """\
cd /var/lib/one/.ssh
ssh-keygen -q -t ed25519 -N '' -f id_ed25519
cp id_ed25519.pub authorized_keys
echo StrictHostKeyChecking no > config
chown -R oneadmin: .
chmod 700 .
"""
"""Creates the key that the frontend's shared folder would give to the hosts."""


def _connected(address: str) -> Any:
    connections: list[Any] = []

    def answers() -> bool:
        try:
            connections.append(libvirt.open(address))
        except libvirt.libvirtError:
            return False
        return True

    until(answers, f"{address} answers", patience_s=PATIENCE_S)
    return connections[0]


def _burnt_s(guest: Any) -> float:
    return float(guest.info()[4]) / 1e9
