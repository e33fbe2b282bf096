"""A tenant's whole stay in virtual time, controlled by its calls alone."""

from types import SimpleNamespace

from twisted.internet.defer import ensureDeferred

from merkatd.database.scheduler import bid_store
from merkatd.demo import demo_picture
from merkatd.demo.demo_picture import order_changes
from merkatd.demo.demo_script import CAST, ScriptedTenant
from merkatd.demo.demo_summary import account, summary
from merkatd.demo.demo_tenant import ScriptPlayer
from merkatd.demo.screen.display_state import GoalStatus
from merkatd.embedded.model.vm_states import OneVmState
from merkatd.opennebula import Client
from tests.scheduler.frontend import START_S, Frontend
from tests.service.interfaces import Interfaces

URGENT = next(tenant for tenant in CAST if tenant.name == "cy")


WHOLE = next(tenant for tenant in CAST if tenant.name == "gus")


class Stay:
    """One tenant on a small cloud, beside a rival with a large VM."""

    def __init__(self, tenant: ScriptedTenant, hosts: int = 1, rival_bid: float = 40.0) -> None:
        self.frontend = Frontend(hosts)
        self.session = self.frontend.user(tenant.name)
        client = Client(self.frontend.transport, self.session, self.frontend.clock)
        ours = SimpleNamespace(call=Interfaces(self.frontend).answer_of)
        market = Client(ours, self.session, self.frontend.clock)
        self.player = ScriptPlayer(tenant, 2, client, 1, 4, market=market)
        self.frontend.vm(rival_bid, VCPU=4)
        self.actions: list[str] = []
        self.ran: dict[int, bool] = {}

    @property
    def now_min(self) -> float:
        """Return the minutes since the start."""
        return (self.frontend.clock.seconds() - START_S) / 60.0

    def minutes(self, number: int) -> None:
        """Run this number of periods; the tenant acts in each."""
        for _ in range(number):
            self.latest = self.frontend.scheduler.latest = self.frontend.period()
            for change in order_changes(self.latest, {2: 0}, self.ran):
                self.ran[change.order] = change.what == "runs"
                self.actions.append(f"{change.what}: {change.why}")
            logs = {}
            for vm in self.player.now.alive if self.player.now else ():
                guest = self.frontend.cloud.guests.guest(vm)
                if guest is not None:
                    logs[vm] = guest.done / 60.0
            acting = self.player.act(self.now_min, logs, self._tell)
            self.frontend.result(ensureDeferred(acting))
            self.frontend.clock.advance(60.0)

    def _tell(self, what: str, why: str) -> None:
        self.actions.append(f"{what}: {why}")


def test_an_urgent_tenant_arrives_raises_its_bid_and_leaves() -> None:
    """Its bids reach the market, and its VMs end with its work."""
    stay = Stay(URGENT)
    stay.minutes(9)
    assert not stay.actions
    stay.minutes(4)
    assert stay.actions[0].startswith("arrives with 3 VMs and bids ")
    assert any(text.startswith("raises its bid from ") for text in stay.actions)
    now = stay.player.now
    assert now is not None
    known = stay.frontend.read(bid_store.newest_bids)
    for vm in now.alive:
        assert now.errand.bid < known[vm].bid["cpu"] <= now.bid
    while not stay.player.past:
        stay.minutes(1)
    assert stay.actions[-1].startswith(("leaves: 100% done", "gives up: "))
    stay.minutes(1)
    for vm in now.vms:
        assert stay.frontend.bench.state(vm)[0] == OneVmState.DONE
    stay.frontend.close()


def test_a_tenant_without_rivals_keeps_its_deadline() -> None:
    """The summary counts the deadline as kept."""
    stay = Stay(URGENT, hosts=5, rival_bid=0.1)
    stay.minutes(30)
    (application,) = stay.player.past
    assert application.kept
    assert stay.actions[-1].startswith("leaves: 100% done")
    (row,) = [
        line for line in summary([account(stay.player, 30.0, 99.0)], 30.0, 30) if "cy" in line
    ]
    assert row.split()[3:6] == ["1", "0", "99"]
    stay.frontend.close()


def test_a_rejected_call_is_reported_and_retried() -> None:
    """An invalid login does not end the tenant's stay."""
    stay = Stay(URGENT)
    client = Client(stay.frontend.transport, "cy:wrong", stay.frontend.clock)
    stay.player = ScriptPlayer(URGENT, 2, client, 1, 4)
    stay.minutes(12)
    assert stay.actions[-1].startswith("is refused: one.vm")
    stay.frontend.close()


def test_the_picture_shows_the_tenants_vms() -> None:
    """Their shares add up to the tenant's allocated cores."""
    stay = Stay(URGENT)
    stay.minutes(13)
    cast = {stay.player.user: 0}
    (host,) = demo_picture.hosts(stay.latest, cast)
    ours = [vm for vm in host.vms if vm.tenant == 0]
    cores = demo_picture.cores_of(stay.latest, stay.player.user)
    assert sum(vm.cpu for vm in ours) == cores * 100.0 > 0.0
    assert sum(vm.cpu for vm in host.vms) <= host.cpu + 1e-6
    row = demo_picture.tenant_row(stay.player, stay.latest, stay.now_min, 5.0)
    assert row.standing in {GoalStatus.BEHIND, GoalStatus.ON_TRACK}
    assert (row.vms, row.pending, row.cores) == (3, 0, cores)
    assert row.bid >= URGENT.errand.bid * 0.85
    words = [decision.what for decision in demo_picture.decisions(stay.latest, cast, {})]
    assert all("limit" not in what for what in words)
    stay.frontend.close()


def test_an_order_waits_runs_and_is_displaced() -> None:
    """All VMs of the tenant run or none, and each change says its price."""
    stay = Stay(WHOLE, hosts=5, rival_bid=0.1)
    while stay.player.now is None:
        stay.minutes(1)
    now = stay.player.now
    states = {stay.frontend.state(vm) for vm in now.alive}
    assert states == {"HOLD"}, "none may start before the order is stated"
    stay.minutes(1)
    assert now.order is not None
    assert any(text.startswith("states a limit order: at most ") for text in stay.actions)
    stay.minutes(2)
    assert stay.actions[-1].startswith("runs: its 4 VMs cost ")
    assert {stay.frontend.state(vm) for vm in now.alive} == {"RUNNING"}
    rivals = [stay.frontend.vm(400.0, VCPU=4) for _ in range(5)]
    stay.minutes(3)
    assert stay.actions[-1].startswith("is displaced: its limit is ")
    assert "it would start with" in stay.actions[-1]
    assert {stay.frontend.state(vm) for vm in now.alive} == {"PENDING"}, "saved"
    for vm in rivals:
        stay.frontend.bench.ok("one.vm.action", "terminate-hard", vm)
    stay.minutes(3)
    assert stay.actions[-1].startswith("runs: ")
    row = demo_picture.tenant_row(stay.player, stay.latest, stay.now_min, 99.0)
    assert row.bid == now.bid, "its limit stands where others have their bid"
    stay.frontend.close()
