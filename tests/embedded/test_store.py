"""A stored cloud, and its state after a kill."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
import xmlrpc.client
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from twisted.internet.task import Clock

from merkatd.embedded.cloud import EmbeddedCloud
from merkatd.embedded.state_file import SqliteStore, StateError
from tests.daemon.processes import Program
from tests.embedded import launch
from tests.embedded.process import Remote, remote
from tests.embedded.support import Bench, xml

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


LIVES = 2


class Kept(Bench):
    """A bench whose cloud is stored in a file, and can be restored from it."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        super().__init__(hosts=0)
        self.store = SqliteStore(path)
        if clock is not None:
            self.clock = clock
            self.cloud = EmbeddedCloud(clock, np.random.default_rng(9))
            self.store.restore(self.cloud)
        else:
            self.cloud = EmbeddedCloud(self.clock, np.random.default_rng(7))
            self.store.follow(self.cloud)
            self.cloud.found("secret")
            self.cloud.add_hosts(3)
            self.cloud.commit()
        self.transport = type(self.transport)(self.cloud)


def read_everything(bench: Bench) -> list[object]:
    """Return all that users can see."""
    calls: list[tuple[Any, ...]] = [
        ("one.vmpool.infoextended", -2, -1, -1, -2), ("one.hostpool.info",), ("one.userpool.info",),
        ("one.grouppool.info",), ("one.clusterpool.info",), ("one.datastorepool.info",),
        ("one.acl.info",), ("one.vmgrouppool.info", -2, -1, -1), ("one.vnpool.info", -2, -1, -1),
        ("embedded.limits.read",),
    ]  # fmt: skip
    return [bench.ok(*call) for call in calls]


def test_all_answered_calls_survive(tmp_path: Path) -> None:
    """All pools and guests are restored from the file without a shutdown."""
    first = Kept(tmp_path / "state")
    first.user("ann")
    first.ok("one.acl.addrule", "100000002", "2400000000", "3")
    first.ok("one.vmgroup.allocate", 'NAME=g ROLE=[NAME="web"]')
    first.ok("one.vn.allocate", "NAME=lan")
    vm_id = first.running('CPU=1 MEMORY=512 A="]>" EMBEDDED=[WORK=100, ITERATIONS=10]')
    first.cloud.guests.set_limits(vm_id, vcpu_quota=50_000, pins=[[1]], memory_mib=400)
    first.ok("one.vm.migrate", vm_id, 1, True)
    first.ok("one.vm.action", "terminate", first.new())
    first.ok("one.host.delete", 2)
    second = Kept(tmp_path / "state", first.clock)
    assert read_everything(second) == read_everything(first)
    assert second.new() == first.new()
    assert second.ok("one.host.allocate", "x", "kvm", "kvm", 0) == 3


def test_running_operations_continue(tmp_path: Path) -> None:
    """Operations end at their own times, and guests have worked meanwhile."""
    first = Kept(tmp_path / "state")
    working = first.running("CPU=1 MEMORY=512 EMBEDDED=[WORK=30, ON_FINISH=poweroff]")
    moving, booting = first.running(), first.new()
    first.ok("one.vm.migrate", moving, 1, False)
    first.ok("one.vm.deploy", booting, 2)
    first.advance(0.5)
    clock = Clock()
    clock.advance(first.clock.seconds() + 100)
    second = Kept(tmp_path / "state", clock)
    second.advance(0)
    second.advance(0)
    assert second.state(moving) == second.state(booting) == (3, 3)
    assert second.state(working) == (8, 0)
    third = Kept(tmp_path / "state", clock)
    assert read_everything(third) == read_everything(second)
    first.advance(100)
    assert second.vm(working) == first.vm(working)
    assert second.cloud.guests.read()[moving].cpu_s == pytest.approx(
        first.cloud.guests.read()[moving].cpu_s
    )


def test_other_formats_are_rejected(tmp_path: Path) -> None:
    """A file of a later version is an error."""
    store = SqliteStore(tmp_path / "state")
    store.set_fact("format", "99")
    store.close()
    with pytest.raises(StateError, match="99"):
        SqliteStore(tmp_path / "state")


def test_a_kill_loses_no_answered_call(tmp_path: Path) -> None:
    """After kills at random moments under load, every answered VM exists exactly once."""
    moments = random.Random(3)  # noqa: S311 - moments, not secrets
    answered: dict[str, int] = {}
    for life in range(LIVES):
        with remote("--hosts", "2", "--state", str(tmp_path / "state"), "--speed", "20") as cloud:
            client = threading.Thread(target=_create, args=(cloud.endpoint, life, answered))
            client.start()
            _check_charges(cloud)
            ending = time.monotonic() + 20
            while len(answered) < 10 * (life + 1) and time.monotonic() < ending:
                time.sleep(0.01)
            time.sleep(moments.uniform(0.0, 0.2))
            cloud.kill()
            client.join()
    with remote("--state", str(tmp_path / "state")) as cloud:
        pool = xml(cloud.ok("one.vmpool.infoextended", -2, -1, -1, -2))
        shown = {row.findtext("NAME", ""): int(row.findtext("ID", "")) for row in pool}
        assert len(answered) >= 10 * LIVES
        assert len(shown) == len(pool)
        assert answered.items() <= shown.items()
        assert len(shown) - len(answered) <= LIVES
        _check_charges(cloud)
        last = cloud.ok("one.vm.allocate", "CPU=1 MEMORY=64")
        cloud.ok("one.vm.deploy", last, 0)
        cloud.until_state(last, "3", "3")
        assert cloud.terminate() == 0


def _check_charges(cloud: Remote) -> None:
    """Check that each host has the allocations of its VMs, and is their last or only host."""
    for host in xml(cloud.ok("one.hostpool.info")):
        vms = [int(item.text or "") for item in host.iterfind("VMS/ID")]
        assert host.findtext("HOST_SHARE/CPU_USAGE") == str(100 * len(vms))
        assert host.findtext("HOST_SHARE/RUNNING_VMS") == str(len(vms))


def _create(endpoint: str, life: int, answered: dict[str, int]) -> None:
    with xmlrpc.client.ServerProxy(endpoint) as proxy:
        for number in range(100_000):
            name = f"vm-{life}-{number}"
            try:
                answer = proxy.one.vm.allocate("oneadmin:secret", f'NAME="{name}" CPU=1 MEMORY=64')
            except (OSError, xmlrpc.client.Error):
                return
            assert isinstance(answer, list)
            answered[name] = answer[1]
            try:
                proxy.one.vm.deploy("oneadmin:secret", answer[1], number % 2)
                old = answer[1] // 2
                proxy.one.vm.migrate("oneadmin:secret", old, life % 2, number % 3 > 0)
                proxy.one.vm.action("oneadmin:secret", ("stop", "terminate")[number % 2], old)
            except (OSError, xmlrpc.client.Error):
                return


def test_time_passes_while_the_process_is_stopped(tmp_path: Path) -> None:
    """Compressed time neither stops nor jumps back between two runs."""
    path = str(tmp_path / "state")
    with remote("--hosts", "1", "--state", path, "--speed", "100") as cloud:
        vm_id = cloud.ok("one.vm.allocate", "CPU=1 MEMORY=64")
        cloud.ok("one.vm.deploy", vm_id, 0)
        cloud.until_state(vm_id, "3", "3")
        before = cloud.ok("embedded.limits.read", [vm_id])[str(vm_id)]["cpu_s"]
        cloud.kill()
    time.sleep(0.1)  # the next process may start sooner than that
    with remote("--state", path, "--speed", "1") as cloud:
        after = cloud.ok("embedded.limits.read", [vm_id])[str(vm_id)]["cpu_s"]
        assert after - before > 5
        again = cloud.ok("embedded.limits.read", [vm_id])[str(vm_id)]["cpu_s"]
        assert 0 <= again - after < 5


FILE = """
[[clusters]]
name = "fast"
[[groups]]
name = "team"
template = "WEIGHT=2"
[[users]]
name = "ann"
password = "pw"
groups = ["team"]
[[hosts]]
count = 2
cpu = 16
memory = "64GiB"
cluster = "fast"
prefix = "node"
template = "RACK=1"
"""


def test_a_file_describes_the_cloud(tmp_path: Path) -> None:
    """Clusters, groups, users and hosts exist, and SIGINT ends the cloud cleanly."""
    path = tmp_path / "cloud.toml"
    path.write_text(FILE)
    with remote("--file", str(path)) as cloud:
        hosts = xml(cloud.ok("one.hostpool.info"))
        assert [row.findtext("NAME") for row in hosts] == ["node001", "node000"]
        assert hosts.findtext("HOST/CLUSTER") == "fast"
        assert hosts.findtext("HOST/HOST_SHARE/MAX_CPU") == "1600"
        assert hosts.findtext("HOST/TEMPLATE/RACK") == "1"
        assert "<GNAME>team</GNAME>" in cloud.ok("one.user.info", -1, session="ann:pw")
        vm_id = cloud.ok("one.vm.allocate", "CPU=1 MEMORY=64")
        cloud.ok("one.vm.deploy", vm_id, 0)
        cloud.until_state(vm_id, "3", "3")
        assert cloud.terminate(signal.SIGINT) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hosts = 3", "hosts must be an array of tables"),
        ("[[hosts]]\ncount = 0", "hosts: count must be a whole number of at least 1 (got 0)"),
        ('[[hosts]]\nmemory = "much"', "(got 'much')"),
        ('[[hosts]]\ncluster = "none"', "unknown name 'none' in clusters; known names: default"),
        ("[[users]]\nname = 'a'", "users: password"),
        ("[[host]]", "unknown key 'host'"),
        ("[[", "cloud.toml"),
        ("[[groups]]\nname = 'g'\ntemplate = 'A'", "groups: template: Parse error"),
    ],
)
def test_errors_in_a_file_are_named(tmp_path: Path, text: str, message: str) -> None:
    """The message has the key, the value and the accepted values."""
    path = tmp_path / "cloud.toml"
    path.write_text(text)
    bench = Bench(0)
    from merkatd.embedded import cloud_file as cloud_file_module  # noqa: PLC0415 - beside its one use

    with pytest.raises(cloud_file_module.CloudFileError) as raised:
        cloud_file_module.build(bench.cloud, cloud_file_module.read(path))
    assert message in str(raised.value)


def test_a_used_port_ends_with_2(tmp_path: Path) -> None:
    """The error is printed, and the state file is closed."""
    with remote("--hosts", "1") as cloud:
        address = cloud.endpoint.split("/")[2]
        second = Remote(tmp_path / "log", "--listen", address, "--state", str(tmp_path / "s"))
        assert second.endpoint == ""
        assert second.program.end() == 2
        assert "Address already in use" in second.program.output()


def _try_each(words: Sequence[str]) -> int:
    """Print an error for each list of wrong arguments; return 0 if each ended with 2."""
    return {launch.main(json.loads(arguments)) for arguments in words} != {2}


def test_wrong_arguments_end_with_2(tmp_path: Path) -> None:
    """Each error is printed."""
    wrong = [["--listen", "nowhere"], ["--speed", "0"], ["--memory", "x"], ["--file", "/no"]]
    program = Program(tmp_path / "log", *map(json.dumps, wrong), main=_try_each)
    assert program.end() == 0
    errors = program.output().splitlines()
    assert len(errors) == len(wrong), errors
    assert all(error.startswith("merkatd embedded: ") for error in errors)
