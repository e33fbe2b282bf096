"""A snapshot of a real host has every column: also those that only a hypervisor can measure."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from merkatd.cluster import Snapshot, VmKind, VmState
from merkatd.cluster.columns import column_types
from merkatd.cluster.snapshot_json import loads
from tests.real.host import RealHost, until
from tests.real.site import Site, running

ABSENT = {"vms.moved_at_s", "vms.held", "vms.kept", "hosts.reserved"}
"""The VM has not moved and is in no limit order, CPU is not held as memory is, and no VM that left
holds anything."""
DISK = 'DISK=[TYPE="FS", SIZE="64", FORMAT="raw"]'


@pytest.fixture
def site(mortal_hosts: list[RealHost], tmp_path: Path) -> Iterator[Site]:
    """Yield a site with a host whose guests' writes are measured."""
    more = 'dirty_rates = true\ncheck_every = 2\nballoon_stats = "1s"'
    options = {"memory_mib": 2048, "booted": True}
    with running(tmp_path, mortal_hosts[:1], more=more, **options) as running_site:
        yield running_site


def saved(site: Site) -> Snapshot:
    """Return the snapshot of the latest decision, as a file has it."""
    file = site.directory / "cloud.json"
    file.unlink(missing_ok=True)
    site.command("snapshot", "save", str(file))
    return loads(file.read_text())


def unknown(snapshot: Snapshot) -> set[str]:
    """Return the columns of hosts and VMs that have an unknown number."""
    missing = set()
    for name in ("hosts", "vms"):
        table = getattr(snapshot, name)
        for column, form in column_types(type(table)).items():
            values = getattr(table, column)
            if form.what in {"number", "vector"} and np.isnan(values).any():
                missing.add(f"{name}.{column}")
    return missing


def test_every_column_is_filled(site: Site) -> None:
    """With the rate at which the guest writes, its disks and its start, and ten samples of use."""
    text = f'MERKAT_KIND="batch" {DISK}'
    vm = site.new(1.0, vcpus=1, memory_mib=256, more=text)
    with contextlib.suppress(AssertionError):  # the columns are compared below, by name
        until(lambda: unknown(saved(site)) == ABSENT, "every column is known", patience_s=60.0)
    snapshot = saved(site)
    assert unknown(snapshot) == ABSENT
    hosts, vms = snapshot.hosts, snapshot.vms
    assert (vms.id.tolist(), vms.state.tolist()) == ([vm], [VmState.RUNNING])
    assert (vms.kind.tolist(), vms.disk_mib.tolist()) == ([VmKind.BATCH], [64.0])
    assert vms.dirty_mib_s[0] >= 0
    assert 0 < vms.started_s[0] <= snapshot.now_s
    assert vms.held[0].tolist()[1:] == [256.0]
    assert {kind: pairs.tolist() for kind, pairs in hosts.domains.items()} == {
        "network": [[0, 1]],
        "power": [[0, 1]],
    }
    assert (hosts.topology.shape, hosts.link_mbps[0] > 0) == ((1, 3), True)
    assert 0 < hosts.idle_watts[0] < hosts.full_watts[0]
    site.after_periods(10)
    history = saved(site).history
    assert history is not None
    assert len(history.at_s) >= 10
    assert not np.isnan(history.vms[-1]).any()
    assert not np.isnan(history.hosts[-1]).any()
    assert not site.failed
