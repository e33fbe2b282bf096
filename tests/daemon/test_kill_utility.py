"""A daemon with the strategy `utility`, killed at work: jobs and a service go on and end.

The cloud is 20 times faster than the daemon's clock. So a guest has 20 times the work that its
platform declares.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from merkatd.api.control.control_client import DaemonNotRunningError, ask
from merkatd.database.fleets import platform_store
from merkatd.database.scheduler import journal
from merkatd.platforms.processes import program
from tests.daemon.agreement import done_once
from tests.daemon.harness import ADMIN, SPEED, Site
from tests.daemon.processes import until

_CLOUD = """
[[users]]
name = "ann"
password = "secret"
[[hosts]]
count = 1
cpu = 4
memory = "4GiB"
"""
_MORE = """
[market.default]
strategy = "utility"
[strategy.utility]
cycle = "0.5s"
exchange = "0.5s"
[bus]
beat = "500ms"
restart_least = "50ms"
restart_most = "200ms"
restart_tries = 1000
"""
_JOB = '''
name = "{name}"
[controller]
kind = "none"
parameters = {{ steps = 40 }}
[budget]
credits = 1
[job]
goal = "{goal}"
[[job.stage]]
work = {work}
greatest_speed = 200
memory = {memory}
[[cluster]]
name = "nodes"
template = """
CPU="2"
VCPU="2"
MEMORY="{memory}"
EMBEDDED=[WORK="{all}",ITERATIONS="40",MEMORY_USE="128"]
"""
[cluster.monitor]
kind = "steps"
parameters = {{ every_s = 1, log = "/var/log/run.log" }}
'''
_SERVICE = '''
name = "shop"
[controller]
kind = "none"
[budget]
credits = 1
[service]
response_goal = "0.05s"
work_per_request = 0.02
[[cluster]]
name = "web"
template = """
CPU="2"
VCPU="2"
MEMORY="512"
EMBEDDED=[ARRIVALS="20",REQUEST_WORK="0.02",MEMORY_USE="128"]
"""
[cluster.monitor]
kind = "requests"
parameters = { source = "nginx", log = "/var/log/nginx/access.log", every_s = 1 }
'''


class GoalSite(Site):
    """A host that `utility` divides between jobs and a service."""

    def start_cloud(self) -> None:
        """Start a cloud of one host of four cores."""
        (self.directory / "cloud.toml").write_text(_CLOUD)
        super().start_cloud()

    def configure(self, **_: object) -> None:
        """Write the configuration of a daemon with the strategy."""
        super().configure(call_limit_s=2.0)
        state = self.directory / "state"  # where monitors find an embedded cloud
        (state / "one_xmlrpc").write_text(f"http://{self._address}/RPC2\n")
        (state / "one_auth").write_text(f"{ADMIN}\n")
        with (self.directory / "merkatd.toml").open("a") as file:
            file.write(_MORE)

    def submit(self, text: str) -> int:
        """Submit a platform of Ann."""
        return int(self.control("platform_submit", tenant="2", template=text)["id"])

    def job(self, name: str, goal: str, work: float, memory_mib: int) -> int:
        """Submit a job of so many core-seconds."""
        return self.submit(
            _JOB.format(name=name, goal=goal, work=work, all=work * SPEED, memory=memory_mib)
        )

    def state(self, platform: int) -> str:
        """Return the state of a platform."""
        found = self.read(lambda connection: platform_store.get(connection, platform))
        assert found is not None
        return str(found.state)

    def vms(self) -> dict[str, tuple[str, str]]:
        """Return OpenNebula's states of the VMs by name of their platform."""
        pool = etree.fromstring(self.call("one.vmpool.infoextended", -2, -1, -1, -1).encode())
        return {
            vm.findtext("NAME", "").rpartition("-nodes")[0]
            or vm.findtext("NAME", "").rpartition("-web")[0]: (
                vm.findtext("STATE", ""),
                vm.findtext("LCM_STATE", ""),
            )
            for vm in pool.findall("VM")
        }

    def steps(self) -> Counter[tuple[str, int]]:
        """Return how often each VM had a step of each kind that took effect."""
        rows = self.read(lambda c: journal.recent(c, journal.StepFilter(), 9999))
        return Counter((each.step.kind, each.step.vm) for each in rows if each.state == "confirmed")

    def control(self, question: str, **arguments: object) -> Any:
        """Return the answer of the daemon as soon as it answers."""

        def answered() -> Any:
            with contextlib.suppress(DaemonNotRunningError):
                return ask(self.directory / "state" / "control.sock", question, arguments)
            assert self.daemon is not None
            assert self.daemon.running, self.daemon.output()
            return None

        return until(answered, f"an answer to {question}")

    def kill_and_restart(self) -> None:
        """Kill the daemon, wait until its processes have ended, and start it again."""
        self.kill_daemon()
        until(lambda: not program.marked(str(self.directory / "state")), "no process left")
        self.start_daemon()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[GoalSite]:
    """Start a cloud and a daemon; leave no process behind."""
    made = GoalSite(tmp_path, 1)
    try:
        made.start_cloud()
        made.start_daemon()
        yield made
    finally:
        made.close()
        program.kill(program.marked(str(tmp_path / "state")))


RUNNING = ("3", "3")
AWAY = frozenset({"1", "4"})
"""OpenNebula's states of a stopped VM, and of one that is pending with its state saved."""


def test_killed_at_work_and_while_a_job_is_saved_it_goes_on(site: GoalSite) -> None:
    """Both jobs end, none starts twice, and the saved one is resumed; the service runs on."""
    shop = site.submit(_SERVICE)
    patient = site.job("patient", "20m", 40, 3072)
    until(lambda: site.vms().get("patient") == site.vms().get("shop") == RUNNING, "both run")
    site.kill_and_restart()
    urgent = site.job("urgent", "25s", 20, 2048)
    until(lambda: site.vms().get("patient", ("",))[0] in AWAY, "the patient job is saved")
    site.kill_and_restart()
    until(lambda: site.vms().get("urgent") == RUNNING, "the urgent job runs")
    assert site.vms().get("patient", ("",))[0] in AWAY
    site.kill_and_restart()
    until(lambda: site.state(urgent) == "done", "the urgent job is done")
    until(lambda: site.vms().get("patient") == RUNNING, "the patient job goes on")
    site.kill_and_restart()
    until(lambda: site.state(patient) == "done", "the patient job is done")
    assert site.state(shop) == "running"
    assert site.vms()["shop"] == RUNNING
    steps = site.steps()
    saved = {vm: count for (kind, vm), count in steps.items() if kind == "stop"}
    assert len(saved) == 1
    assert {vm: count for (kind, vm), count in steps.items() if kind == "resume"} == saved
    starts = {vm: count for (kind, vm), count in steps.items() if kind == "deploy"}
    assert starts == {vm: 1 + saved.get(vm, 0) for vm in range(3)}
    done_once(site)
