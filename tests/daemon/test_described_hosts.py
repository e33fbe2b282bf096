"""The daemon's own embedded cloud describes its hosts, and the snapshot has all of it."""

import xmlrpc.client
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from merkatd.cluster import Snapshot, VmKind
from merkatd.cluster.snapshot_json import loads
from tests.daemon.processes import Program, until

_CONFIGURATION = """
[daemon]
state_directory = "{directory}"
[period]
interval = "0.2s"
settle = "0.01s"
step_limit = "60s"
[cloud]
hosts = 5
host_link = "25Gbit/s"
host_idle_watts = 50.5
host_full_watts = 250
speed = 20
[failures]
host_per_year = 2
power_per_year = 0
"""
_VM = 'CPU="1"\nMEMORY="512"\nMERKAT_KIND="BATCH"\nMERKAT_DIRTY_RATE="8"\n'
_VM += 'DISK=[TYPE="FS", SIZE="2048", FORMAT="raw"]'


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Yield the state directory of a running daemon with a running VM."""
    (tmp_path / "merkatd.toml").write_text(_CONFIGURATION.format(directory=tmp_path))
    daemon = Program(tmp_path / "log", "run", "--config", str(tmp_path / "merkatd.toml"))
    try:
        daemon.until_output("The embedded cloud listens at")
        endpoint = (tmp_path / "one_xmlrpc").read_text().strip()
        server = xmlrpc.client.ServerProxy(endpoint)
        session = (tmp_path / "one_auth").read_text().strip()
        server.one.vm.allocate(session, _VM)
        yield tmp_path
        daemon.tell_to_end()
        assert daemon.end() == 0, daemon.output()
    finally:
        daemon.kill()
    assert "Wrong host attribute" not in (tmp_path / "log").read_text()


def saved(directory: Path) -> Snapshot | None:
    """Return the snapshot of the latest decision once its only VM has started."""
    file = directory / "cloud.json"
    config = str(directory / "merkatd.toml")
    command = Program(directory / "save", "snapshot", "save", str(file), "--config", config)
    if command.end() != 0:
        return None
    snapshot = loads(file.read_text())
    return snapshot if np.isfinite(snapshot.vms.started_s).any() else None


def test_every_column_is_filled(directory: Path) -> None:
    """All hosts have domains, places, links and power; the VM has its kind, disks and start."""
    snapshot = until(lambda: saved(directory), "the VM runs", tick_s=0.2)
    assert snapshot is not None
    hosts, vms = snapshot.hosts, snapshot.vms
    assert hosts.domains["network"].tolist() == [[0, 1], [1, 0], [0, 1], [1, 0], [0, 1]]
    assert hosts.domains["power"].tolist() == [[0, 1], [1, 0], [0, -1], [1, 0], [0, 1]]
    assert hosts.topology.tolist() == [[0, 0, 0]] * 4 + [[0, 0, 1]]
    assert hosts.link_mbps.tolist() == [25_000.0] * 5
    assert hosts.idle_watts.tolist() == [50.5] * 5
    assert hosts.full_watts.tolist() == [250.0] * 5
    assert snapshot.failure_rates.kind == ("host", "network", "power")
    assert snapshot.failure_rates.per_year.tolist() == [2.0, 0.2, 0.0]
    assert (vms.kind.tolist(), vms.dirty_mib_s.tolist()) == ([VmKind.BATCH], [8.0])
    assert (vms.disk_mib.tolist(), vms.shared_disk.tolist()) == ([2048.0], [True])
