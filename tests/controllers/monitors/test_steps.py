"""The monitor of iterative applications with real sshds and growing logs."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controllers.monitors.guest_access import GuestAccess, SshReach
from controllers.monitors.iteration_count import (
    PATTERN,
    Count,
    Notebook,
    ProbeMemory,
    measured_values,
    memory_of_vms,
    next_count,
    of_guest,
)
from controllers.monitors.ssh_pool import SshLimits
from controllers.monitors.ssh_probe import ProbeTerms, ThroughSsh
from controllers.monitors.steps_monitor import Steps
from merkatd.base.line_patterns import pattern_of
from merkatd.protocol.bus_messages import Latest, LatestRequest, Measured, Stored
from merkatd.protocol.guest_keys import GuestKeys
from merkatd.protocol.platform_messages import PlatformStatus, VmNow
from tests.bus.rig import assignment, market, news, watched
from tests.controllers.monitors.sshd import SSHD, Sshd, running, user

needs_sshd = pytest.mark.skipif(SSHD is None, reason="there is no sshd")
KEYS = GuestKeys(b"a secret of thirty-two bytes....")
LINE = re.compile(PATTERN)


class Daemon:
    """Answer which VMs run, and record the measured values."""

    def __init__(self, vms: int) -> None:
        self.vms = [
            VmNow(vm=vm, cluster="workers", state="running", bid={}, allocation={}, key=f"key-{vm}")
            for vm in range(1, vms + 1)
        ]
        self.measured: list[Measured] = []
        self.silent = False
        """Whether it has no news yet."""

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """Answer as the hub does."""
        assert not action_id
        if isinstance(body, Measured):
            self.measured.append(body)
            return Stored()
        assert isinstance(body, LatestRequest)
        latest = news(vms=tuple(self.vms))
        own = {name: getattr(latest, name) for name in PlatformStatus.__dataclass_fields__}
        standing = None if self.silent else PlatformStatus(**own)
        return Latest(market=market(), standing=standing, published=1, priced=1)


class Watch:
    """A monitor of the cluster `workers` whose looks the test starts."""

    def __init__(self, directory: Path, sshds: list[Sshd], vms: int, **parameters: Any) -> None:
        self.daemon = Daemon(vms)
        self.directory = directory
        self.now_s = 1000.0
        self._reach = SshReach(
            address="127.0.3.{vm}",
            user=user(),
            port=sshds[0].port,
            limits=SshLimits(pool=4, connect_s=20.0, command_s=20.0),
        )
        self._parameters = {"log": str(directory / "run.log"), **parameters}
        self.start()

    def start(self) -> None:
        """Start a monitor that has only its notebook."""
        guests = GuestAccess(self._reach, KEYS, self.daemon, "workers")
        self.way = ThroughSsh(
            guests,
            ProbeTerms.of(self._parameters),
            Notebook(self.directory / "notes.json"),
            lambda: self.now_s,
        )
        assigned = watched(assignment(), "steps", **self._parameters)
        self.monitor = Steps(assigned, assigned.clusters[0], self.daemon, way=self.way)

    def look(self) -> Mapping[str, float]:
        """Return the values of a look."""
        seen = asyncio.run(self.monitor.look())
        return {} if seen is None else seen[1]

    def write(self, *lines: str) -> None:
        """Append lines to the application's log."""
        with (self.directory / "run.log").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)


@pytest.fixture(scope="module")
def sshds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Sshd]]:
    """Return two VMs that no test changes."""
    if SSHD is None:
        pytest.skip("there is no sshd")
    with running(tmp_path_factory.mktemp("sshd"), KEYS, 2) as servers:
        yield servers


def test_iterations_are_counted_and_timed_once(tmp_path: Path, sshds: list[Sshd]) -> None:
    """The log rotates and the monitor restarts."""
    watch = Watch(tmp_path, sshds, 2)
    try:
        assert "done" not in watch.look()
        watch.write("step 1 2.0 s", "something else", "step 2 2.0 s")
        values = watch.look()
        assert (values["done"], values["step_s"], values["answering"]) == (2.0, 2.0, 2.0)
        assert values["load"] >= 0.0
        watch.write("step 3 4.0 s")
        (tmp_path / "run.log").rename(tmp_path / "run.log.1")
        watch.write("step 4 4.0 s", "step 5 4.0 s")
        watch.way.close()
        watch.start()
        values = watch.look()
        assert (values["done"], values["step_s"]) == (5.0, 4.0)
        watch.now_s += 30.0
        assert watch.look()["waiting_s"] == 30.0
    finally:
        watch.way.close()


def test_the_exit_code_is_reported(tmp_path: Path, sshds: list[Sshd]) -> None:
    """It is reported once it exists."""
    watch = Watch(tmp_path, sshds, 1, status=str(tmp_path / "status"))
    try:
        assert "exit" not in watch.look()
        watch.write("step 1 2.0 s")
        (tmp_path / "status").write_text("0\n")
        values = watch.look()
        assert (values["done"], values["exit"]) == (1.0, 0.0)
        (tmp_path / "status").write_text("3\n")
        assert watch.look()["exit"] == 3.0
    finally:
        watch.way.close()


def test_vms_are_configured_once_and_missing_ones_are_reported(
    tmp_path: Path, sshds: list[Sshd]
) -> None:
    """The third address has no server; the second VM's configuration fails at first."""
    parameters = {
        "configure": f'echo x >> {tmp_path}/$(echo $SSH_CONNECTION | cut -d" " -f3);'
        f' test -e {tmp_path}/good || [ "${{SSH_CONNECTION#* * 127.0.3.1 }}" != "$SSH_CONNECTION" ]'
    }
    watch = Watch(tmp_path, sshds, 3, **parameters)
    try:
        assert set(watch.look()) >= {"absent/2", "absent/3"}
        watch.now_s += 100.0
        (tmp_path / "good").touch()
        values = watch.look()
        assert values["absent/3"] == 100.0
        assert "absent/2" not in values
        watch.look()
        assert (tmp_path / "127.0.3.1").read_text() == "x\n"
        assert (tmp_path / "127.0.3.2").read_text() == "x\nx\n"
        watch.daemon.vms = [replace(vm, state="suspended") for vm in watch.daemon.vms]
        assert watch.look() == {}
    finally:
        watch.way.close()


class TestAway:
    """A VM that is away for some looks is the same when it returns."""

    @pytest.mark.parametrize("state", ["busy", "suspended", "powered_off", "pending"])
    def test_it_is_not_configured_again(
        self, tmp_path: Path, sshds: list[Sshd], state: str
    ) -> None:
        """It is not reported missing, and the next monitor continues its log."""
        # It fails the second time, and if it runs for a working VM.
        configure = f"echo x >> {tmp_path}/ran; mkdir {tmp_path}/work"
        watch = Watch(tmp_path, sshds, 1, configure=configure)
        try:
            watch.look()
            watch.write("step 1 2.0 s")
            assert watch.look()["done"] == 1.0
            there = watch.daemon.vms
            watch.daemon.vms = [replace(vm, state=state) for vm in there]
            for _ in range(2):
                watch.now_s += 7200.0
                assert watch.look() == {}
            watch.way.close()
            watch.start()
            assert watch.look() == {}
            watch.daemon.vms = there
            watch.write("step 2 2.0 s")
            values = watch.look()
            assert values["done"] == 2.0
            assert "absent/1" not in values
            assert (tmp_path / "ran").read_text() == "x\n"
        finally:
            watch.way.close()

    def test_news_that_leave_it_out_once_change_nothing(
        self, tmp_path: Path, sshds: list[Sshd]
    ) -> None:
        """Nor does a restarted daemon without news."""
        watch = Watch(tmp_path, sshds, 1, configure=f"echo x >> {tmp_path}/ran")
        try:
            watch.look()
            there = watch.daemon.vms
            watch.daemon.vms = []
            assert watch.look() == {}
            watch.daemon.silent = True
            watch.now_s += 7200.0
            assert watch.look() == {}
            watch.daemon.vms, watch.daemon.silent = there, False
            watch.look()
            assert (tmp_path / "ran").read_text() == "x\n"
        finally:
            watch.way.close()

    def test_another_vm_is_configured(self, tmp_path: Path, sshds: list[Sshd]) -> None:
        """It has another key, even with the same id."""
        watch = Watch(tmp_path, sshds, 1, configure=f"echo x >> {tmp_path}/ran")
        try:
            watch.write("step 1 2.0 s")
            assert watch.look()["done"] == 1.0
            watch.daemon.vms = [replace(vm, key="key-2") for vm in watch.daemon.vms]
            # The sshd at its address has the host key of the previous VM.
            assert watch.look() == {"absent/1": 0.0}
        finally:
            watch.way.close()

    def test_a_vm_that_never_answered_is_timed_again(
        self, tmp_path: Path, sshds: list[Sshd]
    ) -> None:
        """Its time of suspension doesn't count."""
        watch = Watch(tmp_path, sshds, 1, configure="false")
        try:
            assert watch.look() == {"absent/1": 0.0}
            there = watch.daemon.vms
            watch.daemon.vms = [replace(vm, state="suspended") for vm in there]
            watch.now_s += 3000.0
            assert watch.look() == {}
            watch.daemon.vms = there
            watch.now_s += 3000.0
            assert watch.look() == {"absent/1": 0.0}
        finally:
            watch.way.close()

    def test_a_vm_that_is_gone_is_forgotten(self) -> None:
        """This happens after an hour without news about it."""
        known = {1: ProbeMemory(first_s=0.0, up=True, key="a", named_s=1000.0)}
        assert memory_of_vms(known, {}, 4000.0) == known
        assert memory_of_vms(known, {}, 5000.0) == {}

    def test_a_notebook_without_keys_is_read(self) -> None:
        """No VM is configured again because of it."""
        stored = ProbeMemory(first_s=5.0, up=True).written()
        del stored["key"], stored["named_s"]
        vm = VmNow(vm=1, cluster="workers", state="busy", bid={}, allocation={}, key="a")
        known = memory_of_vms({1: ProbeMemory.read(stored)}, {1: vm}, 60.0)
        assert known == {1: ProbeMemory(first_s=5.0, up=True, key="a", named_s=60.0)}


class TestCounting:
    def test_the_slowest_vm_counts(self) -> None:
        """It determines the application's progress; a VM without a log doesn't count."""
        counts = {
            1: Count(done=7, took_s=(1.0,), at_s=90.0),
            2: Count(done=5, took_s=(3.0, 9.0, 3.0), at_s=80.0),
        }
        assert measured_values(counts, {3: 60.0}, 100.0) == {
            "absent/3": 60.0,
            "made/1": 7.0,
            "made/2": 5.0,
            "done": 5.0,
            "waiting_s": 20.0,
            "step_s": 3.0,
        }

    def test_a_restarted_application_has_its_new_progress(self) -> None:
        """The old progress is dropped."""
        count = next_count(Count(done=9), ["step 3 1 s"], LINE, 50.0)
        assert (count.done, count.at_s) == (3, 50.0)

    def test_the_embedded_clouds_log_is_read(self) -> None:
        """It has the times of the ends of iterations."""
        count = of_guest({"log": [[10.0, 1], [14.0, 2], [18.0, 3]]})
        assert (count.done, count.step_s, count.at_s) == (3, 4.0, 18.0)
        assert of_guest({"log": []}) == Count()

    def test_useless_patterns_are_refused(self) -> None:
        """The error names the accepted form."""
        for text in ("step (", "no group"):
            with pytest.raises(ValueError, match="pattern"):
                pattern_of(text)
        with pytest.raises(ValueError, match=r"parameters\.log"):
            ProbeTerms.of({})
