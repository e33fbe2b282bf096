"""VMs that the scheduler saves for an order start again; VMs that their owners stop do not."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import sqlalchemy as sa

from merkatd.database import Database
from merkatd.database.scheduler import limit_order_store
from merkatd.database.scheduler.limit_order_vm_store import LIMIT_ORDER_VMS
from merkatd.embedded.model.vm_states import Lcm
from merkatd.scheduler.base.ports import ReplyKind, StepReply
from tests.lengths import pair, shorten
from tests.scheduler.test_ordered_vms import Site


class SavedSite(Site):
    """A host on which an order of Ann runs."""

    def __init__(self) -> None:
        """Start the order."""
        super().__init__()
        self.first = self.vms("ann")
        self.lower = self.state_order(self.first, 3.0)
        self.periods(2)

    def displace(self) -> int:
        """State a dearer order of Bob; return its id. The VMs of Ann's order are saved."""
        dearer = self.state_order(self.vms("bob"), 90.0)
        self.periods(1)
        return dearer

    def withdraw(self, order: int) -> None:
        """Withdraw a limit order."""
        self.read(lambda connection: limit_order_store.withdraw(connection, [order]))

    def act(self, action: str, vms: list[int]) -> None:
        """Do an action of the owner with each VM."""
        for vm in vms:
            self.bench.ok("one.vm.action", action, vm)

    def not_saved(self, vms: list[int]) -> bool:
        """Return whether all these VMs wait for a host or run."""
        return set(self.states(vms)) <= {"PENDING", "RUNNING"}

    def rows(self) -> list[tuple[int, int | None, bool]]:
        """Return the stored rows: each VM, its order and whether it is saved."""
        return [
            (row.vm, row.limit_order, bool(row.saved))
            for row in self.read(
                lambda connection: connection.execute(
                    sa.select(LIMIT_ORDER_VMS).order_by(LIMIT_ORDER_VMS.c.vm)
                ).all()
            )
        ]


@pytest.fixture
def site() -> Iterator[SavedSite]:
    """Return a cloud in which an order runs."""
    place = SavedSite()
    yield place
    place.placed_again = set(place.cloud.world.vms.rows)
    place.agree()
    place.close()


@pytest.mark.parametrize(("saving_s", "killed"), pair([10.0, 200.0, 2500.0], [False, True]))
def test_saved_vms_of_a_withdrawn_order_wait_again(
    site: SavedSite, saving_s: float, killed: bool
) -> None:
    """However long the saving takes, and also if the next period is another daemon's."""
    site.set_duration(Lcm.SAVE_STOP, saving_s)
    dearer = site.displace()
    site.withdraw(site.lower)
    for _ in range(int(saving_s // 60) + 2):
        if killed:
            site.start_daemon()
        site.periods(1)
    assert site.not_saved(site.first)
    site.periods(1)
    assert site.rows() == [(vm, dearer, False) for vm in (3, 4, 5)]
    site.withdraw(dearer)
    site.act("terminate-hard", [3, 4, 5])
    site.periods(2)
    assert site.states(site.first) == ["RUNNING"] * 3


def test_an_order_withdrawn_while_the_period_decides_leaves_no_vm_saved(site: SavedSite) -> None:
    """The stop is sent after the withdrawal."""
    site.state_order(site.vms("bob"), 9.0)
    world = site.scheduler.world
    act = world.cloud.send

    async def send(step: object) -> StepReply:
        if step.kind == "stop":  # type: ignore[attr-defined]
            site.withdraw(site.lower)
        return await act(step)  # type: ignore[arg-type]

    world.cloud.send = send  # type: ignore[method-assign]
    site.periods(1)
    world.cloud.send = act  # type: ignore[method-assign]
    assert [order.id for order in site.read(limit_order_store.living)] == [2]
    site.periods(3)
    assert site.not_saved(site.first)


def test_a_saved_vm_that_is_given_away_waits_again(site: SavedSite) -> None:
    """Its new owner did not save it."""
    site.displace()
    site.bench.ok("one.vm.chown", site.first[0], site.bob, -1)
    site.periods(2)
    assert site.not_saved(site.first)
    assert site.limit_order(site.lower).vms == tuple(site.first[1:])
    site.periods(1)
    assert site.rows()[0][0] == site.first[1]


def test_a_saved_vm_that_gets_into_another_order_starts_with_it(site: SavedSite) -> None:
    """The mark that the scheduler has saved it is kept."""
    site.set_duration(Lcm.SAVE_STOP, 100.0)
    dearer = site.displace()
    site.withdraw(site.lower)
    again = site.state_order(site.first, 120.0)
    site.periods(5)
    assert site.states(site.first) == ["RUNNING"] * 3
    assert site.limit_order(again).runs
    assert not site.limit_order(dearer).runs


@pytest.mark.parametrize("action", ["stop", "suspend", "poweroff", "undeploy"])
def test_a_vm_that_its_owner_stops_stays_so_until_its_owner_resumes_it(
    site: SavedSite, action: str
) -> None:
    """The other VMs of its order run without it, and it joins them when it is resumed."""
    one, *others = site.first
    site.act(action, [one])
    site.periods(2)
    state = site.state(one)
    site.periods(3)
    assert site.state(one) == state not in {"RUNNING", "PENDING"}
    assert site.states(others) == ["RUNNING"] * 2
    assert site.limit_order(site.lower).runs
    site.displace()
    site.periods(2)
    assert site.states(others) == ["PENDING"] * 2
    assert site.state(one) == state
    site.withdraw(2)
    site.act("terminate-hard", [3, 4, 5])
    site.periods(2)
    assert site.states(others) == ["RUNNING"] * 2
    assert site.state(one) == state
    site.act("resume", [one])
    site.periods(2)
    assert site.states(site.first) == ["RUNNING"] * 3


@pytest.mark.parametrize("withdrawn", [False, True])
def test_a_vm_stopped_before_the_order_stays_stopped(site: SavedSite, withdrawn: bool) -> None:
    """The order waits for its owner to resume it."""
    (vm,) = site.vms("bob", 1)
    site.periods(2)
    site.act("stop", [vm])
    site.periods(1)
    order = site.state_order([vm], 3.0)
    site.periods(2)
    assert "resume VMs that are stopped" in site.limit_order(order).why
    if withdrawn:
        site.withdraw(order)
        site.periods(2)
    assert site.state(vm) == "STOPPED"


def test_a_stop_that_opennebula_refuses_marks_no_vm(site: SavedSite) -> None:
    """If the owner stops such a VM afterwards, it stays stopped."""
    site.state_order(site.vms("bob"), 9.0)
    world = site.scheduler.world
    act = world.cloud.send

    async def send(step: object) -> StepReply:
        if step.kind == "stop":  # type: ignore[attr-defined]
            return StepReply(ReplyKind.REFUSED, "not now")
        return await act(step)  # type: ignore[arg-type]

    world.cloud.send = send  # type: ignore[method-assign]
    site.periods(1)
    world.cloud.send = act  # type: ignore[method-assign]
    assert site.states(site.first) == ["RUNNING"] * 3
    site.act("stop", site.first)
    site.clock.advance(30.0)
    site.periods(3)
    assert site.states(site.first) == ["STOPPED"] * 3


def test_an_order_says_that_its_vms_are_saved(site: SavedSite) -> None:
    """For the period in which they are resumed; then it says which limit would start it."""
    site.displace()
    site.periods(1)
    assert site.limit_order(site.lower).why.startswith("its VMs are saved; they wait")
    site.periods(1)
    assert "its limit is 3 credits" in site.limit_order(site.lower).why


class Killed(Exception):  # noqa: N818 - a kill, not an error
    """The daemon is killed."""


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("last", range(shorten(1, 5), 9))
def test_a_kill_in_any_transaction_leaves_no_vm_saved(
    site: SavedSite, monkeypatch: pytest.MonkeyPatch, last: int, committed: bool
) -> None:
    """The daemon that saves the VMs is killed; their order is withdrawn before the next starts."""
    stopped = site.first.pop()
    site.act("stop", [stopped])
    site.clock.advance(60.0)
    site.state_order(site.vms("bob"), 90.0)
    real, count = Database.run, [0]

    async def run(self: Database, work: Any) -> Any:
        count[0] += 1
        if count[0] == last and not committed:
            raise Killed
        done = await real(self, work)
        if count[0] >= last:
            raise Killed
        return done

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(Database, "run", run)
        site.periods(1)
    site.clock.advance(60.0)
    site.start_daemon()
    site.withdraw(site.lower)
    site.periods(4)
    assert site.not_saved(site.first)
    assert site.state(stopped) == "STOPPED"
