"""Mode ask: a plan waits for an administrator, and is judged again before it is done."""

from typing import Any

import pytest

from merkatd.database.scheduler import journal
from merkatd.database.scheduler.order_store import Mode
from merkatd.database.scheduler.plan_store import ProposedStep
from merkatd.scheduler.execution.approval import Approved
from merkatd.scheduler.execution.delegation import HostRoom
from merkatd.service.base.errors import ConflictError, InvalidRequestError
from tests.modes.site import Site


def placements(site: Site) -> list[tuple[str, int]]:
    """All steps that place or move a VM, by kind and VM, in the order in which they were made."""
    rows = site.read(lambda c: journal.recent(c, journal.StepFilter(), 1000))
    kinds = {"deploy", "migrate", "suspend", "resume"}
    return [(r.step.kind, r.step.vm) for r in reversed(rows) if r.step.kind in kinds]


def standing(site: Site) -> Any:
    """The plan that stands."""
    return site.ask("standing_plan")


@pytest.fixture
def asking(site: Site) -> Site:
    """In mode ask, with two VMs that wait and a plan for them."""
    site.mode(Mode.ASK)
    site.vm(NAME="one")
    site.vm(NAME="two")
    site.minutes(2)
    return site


class TestThePlanStands:
    def test_nothing_is_placed_before_it_is_approved(self, asking: Site) -> None:
        """The plan says what would be done; the owners are told who decides."""
        asking.minutes(3)
        plan = standing(asking)
        assert (plan["state"], plan["plan"]) == ("waiting", 1)
        assert [(step["kind"], step["name"]) for step in plan["steps"]] == [
            ("deploy", "one"),
            ("deploy", "two"),
        ]
        assert placements(asking) == []
        assert "plan 1 places it" in str(asking.bench.vm(0).user_template)
        assert asking.ask("status")["waiting_plan"] == 1

    def test_approved_it_is_done(self, asking: Site) -> None:
        """And only once; then there is nothing to ask."""
        asking.ask("approve_plan", plan=1, who="root")
        asking.minutes(4)
        assert placements(asking) == [("deploy", 0), ("deploy", 1)]
        assert {asking.state(vm) for vm in (0, 1)} == {"RUNNING"}
        plan = standing(asking)
        assert (plan["state"], plan["who"]) == ("done", "root")
        assert asking.ask("status")["waiting_plan"] is None
        asking.agree()

    def test_what_came_meanwhile_is_asked_about_as_soon_as_a_plan_is_done(
        self, asking: Site
    ) -> None:
        """In the same period: nothing that waits is asked about a period later than it could."""
        asking.ask("approve_plan", plan=1, who="root")
        new = asking.vm(NAME="three")
        asking.minutes(1)
        assert placements(asking) == [("deploy", 0), ("deploy", 1)]
        plan = standing(asking)
        assert (plan["state"], plan["plan"]) == ("waiting", 2)
        assert [step["vm"] for step in plan["steps"]] == [new]

    def test_single_steps_are_skipped(self, asking: Site) -> None:
        """And not asked again by themselves; with something else they are."""
        asking.ask("approve_plan", skip=[2])
        asking.minutes(4)
        assert placements(asking) == [("deploy", 0)]
        assert standing(asking)["plan"] == 1
        third = asking.vm()
        asking.minutes(1)
        plan = standing(asking)
        assert (plan["plan"], plan["state"]) == (2, "waiting")
        assert [step["vm"] for step in plan["steps"]] == [1, third]

    def test_refused_it_is_not_proposed_again(self, asking: Site) -> None:
        """Until something else would be done."""
        asking.ask("refuse_plan", who="root")
        asking.minutes(3)
        assert (standing(asking)["plan"], standing(asking)["state"]) == (1, "refused")
        assert placements(asking) == []
        asking.vm()
        asking.minutes(1)
        assert standing(asking)["plan"] == 2

    def test_a_newer_plan_ends_an_older_one(self, asking: Site) -> None:
        """Whoever approves of the older one is told which stands."""
        asking.vm()
        asking.minutes(1)
        with pytest.raises(ConflictError, match="plan 1 is no longer current: plan 2 is"):
            asking.ask("approve_plan", plan=1)
        asking.minutes(1)
        assert placements(asking) == []
        assert standing(asking)["plan"] == 2

    def test_limits_are_set_without_asking(self, asking: Site) -> None:
        """For VMs where they are: here somebody else started one."""
        asking.bench.ok("one.vm.deploy", 0, 0)
        asking.bench.ok("one.vm.deploy", 1, 0)
        for _ in range(4):
            asking.bench.ok("one.vm.deploy", asking.vm(3.0, VCPU=4), 0)
        asking.minutes(4)
        assert asking.limits(0).vcpu_quota is not None
        assert placements(asking) == []

    def test_it_needs_mode_ask(self, site: Site) -> None:
        """And a plan that waits; steps are skipped by numbers that there are."""
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

    def test_another_mode_drops_it(self, asking: Site) -> None:
        """On is on: the VMs are placed without."""
        asking.mode(Mode.ON)
        asking.minutes(2)
        assert standing(asking)["state"] == "replaced"
        assert len(placements(asking)) == 2


class TestJudgedAgain:
    def test_a_vm_that_is_gone_is_left_out(self, asking: Site) -> None:
        """The other one is placed."""
        asking.bench.ok("one.vm.action", "terminate-hard", 0)
        asking.ask("approve_plan")
        asking.minutes(3)
        assert placements(asking) == [("deploy", 1)]
        became = [step["became"] for step in standing(asking)["steps"]]
        assert became[0] == "not done: the VM is gone"

    def test_a_host_that_is_full_by_now_is_not_overfilled(self, site: Site) -> None:
        """The step is dropped with the reason, and another plan stands."""
        site.mode(Mode.ASK)
        site.vm(NAME="late", MEMORY=5000, MERKAT_MIN_MEMORY=5000)
        site.minutes(1)
        host = standing(site)["steps"][0]["host"]
        number = int(host.removeprefix("host"))
        big = site.vm(MEMORY=6000, MERKAT_MIN_MEMORY=6000)
        site.bench.ok("one.vm.deploy", big, number)
        site.clock.advance(30)
        site.ask("approve_plan", plan=1)
        site.minutes(2)
        assert placements(site) == []
        plan = standing(site)
        assert (plan["plan"], plan["state"]) == (2, "waiting")
        assert plan["steps"][0]["host"] != host
        site.ask("approve_plan")
        site.minutes(2)
        assert site.state(0) == "RUNNING"

    def test_migrations_wait_too(self, site: Site) -> None:
        """A host that is drained by order is emptied once that is approved of."""
        site.mode(Mode.ASK)
        for _ in range(2):
            site.bench.ok("one.vm.deploy", site.vm(), 0)
        site.minutes(2)
        site.ask("drain", host="0", who="root")
        site.minutes(2)
        plan = standing(site)
        assert [step["kind"] for step in plan["steps"]] == ["migrate", "migrate"]
        assert placements(site) == []
        site.ask("approve_plan", skip=[1])
        site.minutes(4)
        moved = plan["steps"][1]["vm"]
        assert placements(site) == [("migrate", moved)]
        assert site.host_of(moved) != 0
        assert site.host_of(plan["steps"][0]["vm"]) == 0


class TestKilled:
    def test_an_approval_outlives_the_daemon(self, asking: Site) -> None:
        """Killed before its first step was sent."""
        asking.ask("approve_plan")
        asking.start_daemon()
        asking.minutes(3)
        assert placements(asking) == [("deploy", 0), ("deploy", 1)]
        asking.agree()

    def test_killed_before_anything_was_sent_it_goes_on(
        self, asking: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Steps were written down and never sent: they are sent by the next daemon, once."""
        _cut_short(asking, monkeypatch, "execution.execute.act")
        assert {asking.state(vm) for vm in (0, 1)} == {"RUNNING"}
        assert standing(asking)["state"] == "done"
        assert asking.heard.calls.count("one.vm.deploy") == 2
        asking.agree()

    def test_killed_before_an_answer_came_nothing_is_done_twice(
        self, asking: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What was sent is judged by what is seen, and not sent again."""
        _cut_short(asking, monkeypatch, "phases.requests._all_or_the_limit")
        assert {asking.state(vm) for vm in (0, 1)} == {"RUNNING"}
        # The one that was killed had sent both; the next one sends neither.
        assert "one.vm.deploy" not in asking.heard.calls
        asking.agree()


def _cut_short(asking: Site, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """An approved plan whose period ends there, and the next daemon's first minutes."""
    asking.ask("approve_plan")
    with monkeypatch.context() as patched:
        patched.setattr(f"merkatd.scheduler.{where}", _killed)
        with pytest.raises(RuntimeError):
            asking.period()
    asking.start_daemon()
    asking.clock.advance(60)
    asking.minutes(8)


async def _killed(*_: object) -> None:
    raise RuntimeError("as a power cut would")


class TestHandedOver:
    """Where OpenNebula carries plans out itself."""

    def test_only_what_is_approved_is_handed_over(self, site: Site) -> None:
        """It asks for places; there are none before the approval."""
        site.world_settings = {"handing": True}
        site.start_daemon()
        site.mode(Mode.ASK)
        vm = site.vm()
        site.minutes(1)
        assert site.places([vm]) == []
        plan = standing(site)
        assert [step["vm"] for step in plan["steps"]] == [vm]
        site.ask("approve_plan")
        site.minutes(2)
        assert standing(site)["state"] == "approved"
        assert [step.vm for step in site.places([vm])] == [vm]

    def test_a_vm_is_handed_to_a_host_where_opennebula_has_room(self, site: Site) -> None:
        """However empty the other hosts are; a second VM with the same host waits."""
        site.world_settings = {"handing": True}
        site.start_daemon()
        vms = [site.vm(), site.vm()]
        full = HostRoom(cpu=1e6, memory_mib=100)
        one = HostRoom(cpu=1e6, memory_mib=3000)
        (step,) = site.places(vms, {0: full, 1: full, 2: one})
        assert (step.vm, step.host) == (vms[0], 2)

    def test_a_migration_needs_no_room_in_opennebula(self, site: Site) -> None:
        """It does not ask for any when it migrates a VM."""
        site.world_settings = {"handing": True}
        site.start_daemon()
        vms = [site.vm(VCPU=4) for _ in range(3)]
        for vm in vms:
            site.bench.ok("one.vm.deploy", vm, 0)
        site.clock.advance(60)
        none = dict.fromkeys(range(3), HostRoom(cpu=0, memory_mib=0))
        assert {step.kind for step in site.places(vms, none)} == {"migrate"}

    @pytest.mark.parametrize("mode", [Mode.DRY, Mode.SHADOW])
    def test_who_watches_hands_nothing_over(self, mode: Mode, site: Site) -> None:
        """OpenNebula is told why."""
        site.world_settings = {"handing": True}
        site.start_daemon()
        site.mode(mode)
        vm = site.vm()
        with pytest.raises(Exception, match=f"its mode is {mode}"):
            site.places([vm])


def test_only_approved_suspensions_of_owners_that_have_not_paid() -> None:
    """Neither another VM of an approved plan, nor one whose owner has paid meanwhile."""
    steps = [
        ProposedStep(kind=kind, vm=vm, reason="") for vm, kind in ((1, "suspend"), (2, "deploy"))
    ]
    approved = Approved(None, tuple(steps))
    assert approved.unpaid({1, 2, 3}) == {1}
    assert approved.unpaid({2}) == frozenset()
