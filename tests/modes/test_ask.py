"""Mode ask: a plan waits for an administrator, and is validated again before its steps are sent."""

from typing import Any

import pytest

from merkatd.database.scheduler import journal
from merkatd.database.scheduler.order_store import Mode
from merkatd.database.scheduler.plan_store import ProposedStep
from merkatd.scheduler.base.settings import Rhythm
from merkatd.scheduler.execution.approval import Approved
from merkatd.scheduler.execution.delegation import HostRoom
from merkatd.service.base.errors import ConflictError, InvalidRequestError
from tests.modes.site import Site


def placements(site: Site) -> list[tuple[str, int]]:
    """Return kind and VM of all steps that placed or moved a VM, the oldest first."""
    rows = site.read(lambda c: journal.recent(c, journal.StepFilter(), 1000))
    kinds = {"deploy", "migrate", "suspend", "resume"}
    return [(r.step.kind, r.step.vm) for r in reversed(rows) if r.step.kind in kinds]


def current_plan(site: Site) -> Any:
    """Return the current plan."""
    return site.ask("standing_plan")


@pytest.fixture
def asking(site: Site) -> Site:
    """Return a site in mode ask, with two pending VMs and a plan for them."""
    site.mode(Mode.ASK)
    site.vm(NAME="one")
    site.vm(NAME="two")
    site.minutes(2)
    return site


class TestCurrentPlan:
    def test_nothing_is_placed_before_the_approval(self, asking: Site) -> None:
        """The plan lists its steps, and the VMs' messages name the plan."""
        asking.minutes(3)
        plan = current_plan(asking)
        assert (plan["state"], plan["plan"]) == ("waiting", 1)
        assert [(step["kind"], step["name"]) for step in plan["steps"]] == [
            ("deploy", "one"),
            ("deploy", "two"),
        ]
        assert placements(asking) == []
        assert "plan 1 places it" in str(asking.bench.vm(0).user_template)
        assert asking.ask("status")["waiting_plan"] == 1

    def test_an_approved_plan_is_carried_out(self, asking: Site) -> None:
        """Its steps are sent once; then no plan waits."""
        asking.ask("approve_plan", plan=1, who="root")
        asking.minutes(4)
        assert placements(asking) == [("deploy", 0), ("deploy", 1)]
        assert {asking.state(vm) for vm in (0, 1)} == {"RUNNING"}
        plan = current_plan(asking)
        assert (plan["state"], plan["who"]) == ("done", "root")
        assert asking.ask("status")["waiting_plan"] is None
        asking.agree()

    def test_a_plan_is_in_force_until_all_of_it_was_sent(self) -> None:
        """OpenNebula is slow: the time for acting is over before each step has had its turn."""
        site = Site(rhythm=Rhythm(act_limit_s=20.0, in_flight=1))
        site.mode(Mode.ASK)
        vms = [site.vm(MEMORY=512) for _ in range(4)]
        site.minutes(2)
        slow = {"kind": "delay", "method": "one.vm.deploy", "seconds": 15.0}
        site.bench.ok("embedded.fault.add", slow)
        site.ask("approve_plan")
        site.minutes(3)
        assert {site.state(vm) for vm in vms} == {"RUNNING"}
        site.close()

    def test_a_new_vm_is_proposed_as_soon_as_the_plan_is_done(self, asking: Site) -> None:
        """The next plan waits in the same period, without the loss of a period."""
        asking.ask("approve_plan", plan=1, who="root")
        new = asking.vm(NAME="three")
        asking.minutes(1)
        assert placements(asking) == [("deploy", 0), ("deploy", 1)]
        plan = current_plan(asking)
        assert (plan["state"], plan["plan"]) == ("waiting", 2)
        assert [step["vm"] for step in plan["steps"]] == [new]

    def test_an_administrator_skips_single_steps(self, asking: Site) -> None:
        """A skipped step is proposed again only together with a new one."""
        asking.ask("approve_plan", skip=[2])
        asking.minutes(4)
        assert placements(asking) == [("deploy", 0)]
        assert current_plan(asking)["plan"] == 1
        third = asking.vm()
        asking.minutes(1)
        plan = current_plan(asking)
        assert (plan["plan"], plan["state"]) == (2, "waiting")
        assert [step["vm"] for step in plan["steps"]] == [1, third]

    def test_a_refused_plan_is_not_proposed_again(self, asking: Site) -> None:
        """A plan with another step is proposed."""
        asking.ask("refuse_plan", who="root")
        asking.minutes(3)
        assert (current_plan(asking)["plan"], current_plan(asking)["state"]) == (1, "refused")
        assert placements(asking) == []
        asking.vm()
        asking.minutes(1)
        assert current_plan(asking)["plan"] == 2

    def test_a_newer_plan_replaces_an_older_one(self, asking: Site) -> None:
        """An approval of the older plan fails, and the error names the current one."""
        asking.vm()
        asking.minutes(1)
        with pytest.raises(ConflictError, match="plan 1 is no longer current: plan 2 is"):
            asking.ask("approve_plan", plan=1)
        asking.minutes(1)
        assert placements(asking) == []
        assert current_plan(asking)["plan"] == 2

    def test_limits_are_set_without_an_approval(self, asking: Site) -> None:
        """They apply to running VMs, here started by hand."""
        asking.bench.ok("one.vm.deploy", 0, 0)
        asking.bench.ok("one.vm.deploy", 1, 0)
        for _ in range(4):
            asking.bench.ok("one.vm.deploy", asking.vm(3.0, VCPU=4), 0)
        asking.minutes(4)
        assert asking.limits(0).vcpu_quota is not None
        assert placements(asking) == []

    def test_an_approval_needs_mode_ask_and_a_waiting_plan(self, site: Site) -> None:
        """Skipped steps must be numbers of steps of the plan."""
        with pytest.raises(ConflictError, match="only in mode ask"):
            site.ask("approve_plan")
        site.mode(Mode.ASK)
        with pytest.raises(ConflictError, match="no plan waits"):
            site.ask("approve_plan")
        site.vm()
        site.minutes(1)
        with pytest.raises(InvalidRequestError, match="has no step 2; its steps are 1 to 1"):
            site.ask("approve_plan", skip=[2])
        with pytest.raises(InvalidRequestError, match="a list of steps' numbers"):
            site.ask("approve_plan", skip="all")

    def test_another_mode_replaces_the_plan(self, asking: Site) -> None:
        """In mode on, the VMs are placed without an approval."""
        asking.mode(Mode.ON)
        asking.minutes(2)
        assert current_plan(asking)["state"] == "replaced"
        assert len(placements(asking)) == 2


class TestValidatedAgain:
    def test_an_ended_vm_is_left_out(self, asking: Site) -> None:
        """The other VM is placed."""
        asking.bench.ok("one.vm.action", "terminate-hard", 0)
        asking.ask("approve_plan")
        asking.minutes(3)
        assert placements(asking) == [("deploy", 1)]
        became = [step["became"] for step in current_plan(asking)["steps"]]
        assert became[0] == "not done: the VM is gone"

    def test_a_host_that_has_filled_up_is_not_overcommitted(self, site: Site) -> None:
        """The step is dropped with its reason, and a new plan waits."""
        site.mode(Mode.ASK)
        site.vm(NAME="late", MEMORY=5000, MERKAT_MIN_MEMORY=5000)
        site.minutes(1)
        host = current_plan(site)["steps"][0]["host"]
        number = int(host.removeprefix("host"))
        big = site.vm(MEMORY=6000, MERKAT_MIN_MEMORY=6000)
        site.bench.ok("one.vm.deploy", big, number)
        site.clock.advance(30)
        site.ask("approve_plan", plan=1)
        site.minutes(2)
        assert placements(site) == []
        plan = current_plan(site)
        assert (plan["plan"], plan["state"]) == (2, "waiting")
        assert plan["steps"][0]["host"] != host
        site.ask("approve_plan")
        site.minutes(2)
        assert site.state(0) == "RUNNING"

    def test_migrations_wait_for_the_approval_too(self, site: Site) -> None:
        """A drained host is emptied after the approval."""
        site.mode(Mode.ASK)
        for _ in range(2):
            site.bench.ok("one.vm.deploy", site.vm(), 0)
        site.minutes(2)
        site.ask("drain", host="0", who="root")
        site.minutes(2)
        plan = current_plan(site)
        assert [step["kind"] for step in plan["steps"]] == ["migrate", "migrate"]
        assert placements(site) == []
        site.ask("approve_plan", skip=[1])
        site.minutes(4)
        moved = plan["steps"][1]["vm"]
        assert placements(site) == [("migrate", moved)]
        assert site.host_of(moved) != 0
        assert site.host_of(plan["steps"][0]["vm"]) == 0


class TestKilledDaemon:
    def test_an_approval_outlives_the_daemon(self, asking: Site) -> None:
        """The daemon is killed before it sends the first step; the next daemon sends both."""
        asking.ask("approve_plan")
        asking.start_daemon()
        asking.minutes(3)
        assert placements(asking) == [("deploy", 0), ("deploy", 1)]
        asking.agree()

    def test_the_next_daemon_sends_unsent_steps(
        self, asking: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The steps are in the journal, and each is sent once."""
        _kill_at(asking, monkeypatch, "execution.execute.act")
        assert {asking.state(vm) for vm in (0, 1)} == {"RUNNING"}
        assert current_plan(asking)["state"] == "done"
        assert asking.recorder.calls.count("one.vm.deploy") == 2
        asking.agree()

    def test_the_next_daemon_does_not_repeat_unanswered_steps(
        self, asking: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It reads their outcome from the pools."""
        _kill_at(asking, monkeypatch, "phases.requests._all_or_the_limit")
        assert {asking.state(vm) for vm in (0, 1)} == {"RUNNING"}
        # The killed daemon had sent both steps; the next daemon sends neither.
        assert "one.vm.deploy" not in asking.recorder.calls
        asking.agree()


def _kill_at(asking: Site, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Approve the plan, end its period at a function, and run the next daemon."""
    asking.ask("approve_plan")
    with monkeypatch.context() as patched:
        patched.setattr(f"merkatd.scheduler.{where}", _fail)
        with pytest.raises(RuntimeError):
            asking.period()
    asking.start_daemon()
    asking.clock.advance(60)
    asking.minutes(8)


async def _fail(*_: object) -> None:
    raise RuntimeError("as a power cut would")


class TestDelegatedPlans:
    """OpenNebula carries the plans out itself."""

    def test_only_approved_steps_are_delegated(self, site: Site) -> None:
        """Before the approval OpenNebula receives no step."""
        site.world_settings = {"handing": True}
        site.start_daemon()
        site.mode(Mode.ASK)
        vm = site.vm()
        site.minutes(1)
        assert site.places([vm]) == []
        plan = current_plan(site)
        assert [step["vm"] for step in plan["steps"]] == [vm]
        site.ask("approve_plan")
        site.minutes(2)
        assert current_plan(site)["state"] == "approved"
        assert [step.vm for step in site.places([vm])] == [vm]

    def test_a_vm_goes_to_a_host_with_room_in_opennebula(self, site: Site) -> None:
        """The other hosts are full for OpenNebula; a second VM for the same host waits."""
        site.world_settings = {"handing": True}
        site.start_daemon()
        vms = [site.vm(), site.vm()]
        full = HostRoom(cpu=1e6, memory_mib=100)
        little = HostRoom(cpu=1e6, memory_mib=3000)
        (step,) = site.places(vms, {0: full, 1: full, 2: little})
        assert (step.vm, step.host) == (vms[0], 2)

    def test_a_migration_needs_no_room_in_opennebula(self, site: Site) -> None:
        """OpenNebula reserves no capacity for a migration."""
        site.world_settings = {"handing": True}
        site.start_daemon()
        vms = [site.vm(VCPU=4) for _ in range(3)]
        for vm in vms:
            site.bench.ok("one.vm.deploy", vm, 0)
        site.clock.advance(60)
        none = dict.fromkeys(range(3), HostRoom(cpu=0, memory_mib=0))
        assert {step.kind for step in site.places(vms, none)} == {"migrate"}

    @pytest.mark.parametrize("mode", [Mode.DRY, Mode.SHADOW])
    def test_a_watching_daemon_delegates_nothing(self, mode: Mode, site: Site) -> None:
        """The error tells OpenNebula the reason."""
        site.world_settings = {"handing": True}
        site.start_daemon()
        site.mode(mode)
        vm = site.vm()
        with pytest.raises(Exception, match=f"its mode is {mode}"):
            site.places([vm])


def test_only_approved_suspensions_of_unpaid_vms_are_made() -> None:
    """Other VMs of the plan are kept, and so are VMs that were paid for since."""
    steps = [
        ProposedStep(kind=kind, vm=vm, reason="") for vm, kind in ((1, "suspend"), (2, "deploy"))
    ]
    approved = Approved(None, tuple(steps))
    assert approved.unpaid({1, 2, 3}) == {1}
    assert approved.unpaid({2}) == frozenset()
