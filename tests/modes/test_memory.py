"""What strategies remember in modes ask, dry and shadow: one decision a period, kept apart."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from merkatd.cluster import Decision, Deploy, Plan, Snapshot, VmState
from merkatd.cluster.columns import NO_ROW
from merkatd.cluster.plan import Step
from merkatd.cluster.snapshot_json import loads_with_decision
from merkatd.database.decision_basis import STRATEGY_MEMORIES, MemoryOwner, memories
from merkatd.database.scheduler import plan_store
from merkatd.database.scheduler.order_store import Mode
from merkatd.placement.markets_in_turn import basis_from_json, decide_again
from merkatd.placement.registry import STRATEGIES
from merkatd.scheduler.base.settings import MarketRules
from tests.modes.site import Site

PLAIN = STRATEGIES["tabu"]
OWNER = MemoryOwner("default", "tabu", 1)
HOSTS = 50


class Drawing:
    """A strategy that draws a host for each VM, and remembers and records each decision."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        """The number of decisions that each call remembered."""

    def decide(
        self,
        snapshot: Snapshot,
        settings: Any,
        memory: Mapping[str, Any],
        random: np.random.Generator,
    ) -> Decision:
        """Start each VM that may start on a host that it may use."""
        decision = PLAIN.strategy(snapshot, settings, {}, random)
        vms, drawn = snapshot.vms, random.random(len(snapshot.vms))
        self.counts.append(memory.get("count", 0))
        steps: list[Step] = []
        for row in np.flatnonzero((vms.state == VmState.PENDING) & vms.placeable):
            rule = int(vms.requirement[row])
            able = np.ones(len(snapshot.hosts), dtype=bool)
            hosts = np.flatnonzero(able if rule == NO_ROW else snapshot.requirements.allowed[rule])
            if len(hosts):
                host = int(snapshot.hosts.id[hosts[int(drawn[row] * len(hosts))]])
                why = "it is drawn by lot"
                vm = int(vms.id[row])
                steps.append(Deploy(period=snapshot.period, vm=vm, host=host, reason=why))
        waiting = [step.vm for step in steps]
        kept = {"count": memory.get("count", 0) + 1, "placed": waiting}
        return replace(decision, plan=Plan.ordered(steps), memory=kept)


@pytest.fixture
def drawing() -> Iterator[Drawing]:
    """Replace the default strategy by one that draws hosts."""
    entries, made = cast("dict[str, Any]", STRATEGIES), Drawing()
    entries["tabu"] = replace(PLAIN, strategy=made.decide)
    yield made
    entries["tabu"] = PLAIN


@pytest.fixture
def large(drawing: Drawing) -> Iterator[Site]:
    """Return a site with so many hosts that no host is drawn twice by accident."""
    assert drawing.counts == []
    site = Site(hosts=HOSTS)
    yield site
    site.close()


def remembered(site: Site, *, watches: bool = False) -> Mapping[str, Any]:
    """Return the memory that the default market's next decision in such a mode reads."""
    kept: dict[str, Mapping[str, Any]] = site.read(lambda c: memories(c, [OWNER], watches=watches))
    return kept.get("default", {})


def hosts_of_plan(site: Site) -> dict[int, str]:
    """Return the hosts of the current plan's VMs."""
    return {step["vm"]: step["host"] for step in site.ask("standing_plan")["steps"]}


class TestAsk:
    def test_a_drawn_plan_stands_until_it_is_approved(self, large: Site) -> None:
        """However long the administrator waits, exactly the proposed hosts are used."""
        large.mode(Mode.ASK)
        vms = [large.vm() for _ in range(3)]
        large.minutes(1)
        proposed = hosts_of_plan(large)
        large.minutes(4)
        plan = large.ask("standing_plan")
        assert (plan["plan"], plan["state"], hosts_of_plan(large)) == (1, "waiting", proposed)
        large.ask("approve_plan", plan=1)
        large.minutes(3)
        assert {vm: f"host{large.host_of(vm):03}" for vm in vms} == proposed
        large.agree()

    def test_a_new_vm_changes_no_other_ones_host(self, large: Site) -> None:
        """The plan that replaces another one draws the same numbers."""
        large.mode(Mode.ASK)
        first = large.vm()
        large.minutes(2)
        before = hosts_of_plan(large)
        large.vm()
        large.minutes(3)
        plan = large.ask("standing_plan")
        assert (plan["plan"], len(plan["steps"])) == (2, 2)
        assert hosts_of_plan(large)[first] == before[first]

    def test_the_next_plan_has_numbers_of_its_own(self, large: Site) -> None:
        """A plan that is done gives its numbers back; one that was refused keeps them."""
        large.mode(Mode.ASK)
        seen = set()
        for number in range(1, 4):
            large.vm()
            large.minutes(1)
            (host,) = hosts_of_plan(large).values()
            seen.add(host)
            large.ask("approve_plan", plan=number)
            large.minutes(3)
        assert len(seen) > 1
        large.vm()
        large.minutes(1)
        large.ask("refuse_plan", who="root")
        large.minutes(3)
        plan = large.ask("standing_plan")
        assert (plan["plan"], plan["state"]) == (4, "refused")

    def test_a_strategy_decides_once_a_period(self, large: Site, drawing: Drawing) -> None:
        """All decisions of a period begin with one memory, also while a plan is carried out."""
        large.mode(Mode.ASK)
        for period in range(6):
            large.vm()
            drawing.counts.clear()
            large.minutes(1)
            assert set(drawing.counts) == {period}
            if period % 2:
                large.ask("approve_plan")
        assert remembered(large)["count"] == 6

    def test_it_remembers_what_it_proposed(self, large: Site) -> None:
        """Not what was approved: nothing was."""
        large.mode(Mode.ASK)
        vm = large.vm()
        large.minutes(2)
        assert remembered(large)["placed"] == [vm]

    def test_the_plan_of_a_dry_run_is_the_one_that_is_proposed(self, large: Site) -> None:
        """`merkatd plan` draws the numbers of the standing plan."""
        large.mode(Mode.ASK)
        vm = large.vm()
        large.minutes(3)
        steps = large.ask("plan")["steps"]
        (host,) = [step["host"] for step in steps if (step["vm"], step["kind"]) == (vm, "deploy")]
        assert host == hosts_of_plan(large)[vm]


@pytest.mark.parametrize("mode", [Mode.DRY, Mode.SHADOW])
class TestWatching:
    def test_memory_goes_on_from_period_to_period(self, mode: Mode, large: Site) -> None:
        """It begins with the memory of mode on, which stays as it was."""
        large.vm()
        large.minutes(2)
        before = remembered(large)
        assert before["count"] == 2
        large.mode(mode)
        large.minutes(3)
        assert remembered(large, watches=True)["count"] == 5
        assert remembered(large) == before
        large.mode(Mode.ON)
        large.minutes(1)
        assert remembered(large)["count"] == 3
        large.mode(mode)
        large.minutes(1)
        assert remembered(large, watches=True)["count"] == 4

    def test_it_survives_a_restart(self, mode: Mode, large: Site) -> None:
        """Another daemon goes on with it."""
        large.mode(mode)
        large.minutes(2)
        large.start_daemon()
        large.minutes(1)
        assert remembered(large, watches=True)["count"] == 3
        assert remembered(large) == {}

    def test_comparisons_do_not_count(self, mode: Mode, large: Site, drawing: Drawing) -> None:
        """They begin with the memory of the period's decision."""
        large.mode(mode)
        large.minutes(2)
        for vm in [large.vm() for _ in range(2)]:
            large.bench.ok("one.vm.deploy", vm, 0)
        drawing.counts.clear()
        large.minutes(1)
        assert set(drawing.counts) == {2}
        assert remembered(large, watches=True)["count"] == 3

    def test_a_forgotten_memory_stays_forgotten(self, mode: Mode, large: Site) -> None:
        """After a failure the strategy does not begin with that of mode on, the cause perhaps."""
        large.minutes(2)
        large.mode(mode)
        large.minutes(1)
        entries = cast("dict[str, Any]", STRATEGIES)
        working, entries["tabu"] = entries["tabu"], replace(PLAIN, strategy=failing)
        large.minutes(1)
        entries["tabu"] = working
        large.minutes(1)
        assert remembered(large, watches=True)["count"] == 1
        assert remembered(large)["count"] == 2

    def test_each_market_has_two_rows_at_most(self, mode: Mode, large: Site) -> None:
        """One of each kind of mode; acting again ends the other one."""
        for each, rows in ((Mode.ON, 1), (mode, 2), (mode, 2), (Mode.ON, 1)):
            large.mode(each)
            large.minutes(2)
            stored = large.read(lambda c: c.execute(STRATEGY_MEMORIES.select()).all())
            assert len(stored) == rows


def failing(
    snapshot: Snapshot,
    settings: Any,  # noqa: ARG001 - of every strategy
    memory: Mapping[str, Any],  # noqa: ARG001 - of every strategy
    random: np.random.Generator,  # noqa: ARG001 - of every strategy
) -> Decision:
    """Fail like a strategy with a mistake."""
    raise IndexError(f"{len(snapshot.vms)} is out of bounds")


def grouped(act: Callable[[Site], None]) -> list[dict[int, int]]:
    """Return the hosts that `groups` wants, after each of six periods of a cloud."""
    site = Site(hosts=4, markets=(MarketRules(strategy="groups"),))
    vms = [site.vm(float(bid), VCPU=4) for bid in (1, 9, 1, 9, 1, 9)]
    for vm in vms:
        site.bench.ok("one.vm.deploy", vm, 0)
    act(site)
    wanted, owner = [], MemoryOwner("default", "groups", 1)
    for _ in range(6):
        site.minutes(1)
        watches = site.scheduler.mode.watches
        kept = site.read(lambda c, watches=watches: memories(c, [owner], watches=watches))
        wanted.append(kept["default"]["markets"]["default"]["wanted"])
    site.close()
    return wanted


def test_groups_proposes_what_it_would_do() -> None:
    """In mode ask, where nothing is approved, it wants the hosts that it wants in mode dry."""
    asked = grouped(lambda site: site.mode(Mode.ASK))
    assert asked == grouped(lambda site: site.mode(Mode.DRY))
    assert set(asked[-1].values()) != {0}
    assert asked[-1] == asked[-2]


def test_a_saved_snapshot_shows_the_plan_that_waits(large: Site) -> None:
    """And in the period after its approval the steps that are done, to the bit."""

    def replayed() -> dict[int, tuple[int, str]]:
        snapshot, stored = loads_with_decision(str(large.ask("snapshot")))
        again = decide_again(snapshot, basis_from_json(stored, snapshot))
        return {step.vm: (step.host, step.reason) for step in again.plan.of(Deploy)}

    large.mode(Mode.ASK)
    vms = [large.vm() for _ in range(6)]
    large.minutes(3)
    plan = large.read(plan_store.newest)
    assert plan is not None
    wanted = {step.vm: (step.host, step.reason) for step in plan.steps}
    assert wanted.keys() == set(vms)
    assert replayed() == wanted
    large.ask("approve_plan", plan=plan.id, skip=[1], who="root")
    large.minutes(1)
    done = replayed()
    assert len(done) == len(vms) - 1
    assert {vm: large.host_of(vm) for vm in done} == {vm: host for vm, (host, _) in done.items()}
    assert done.items() <= wanted.items()
