"""The three interfaces give equal answers about the market: values and rights."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from merkatd.api.xmlrpc.errors import Code
from merkatd.base.hourly_prices import hourly_price
from merkatd.currency.settings import MoneySettings
from merkatd.service.base.callers import LOCAL, Caller
from merkatd.service.base.errors import NotPermittedError, UnknownObjectError
from merkatd.service.base.identity import Identity
from merkatd.web.layout.widgets import amount, credits_text
from tests.scheduler.frontend import PASSWORD, SESSION, Frontend
from tests.service.interfaces import Interfaces, contended, without_none

ANN, BOB = f"ann:{PASSWORD}", f"bob:{PASSWORD}"


@pytest.fixture
def asked() -> Iterator[Interfaces]:
    """Yield interfaces of a daemon whose tenants have credits."""
    yield from contended(Frontend(hosts=1, money=MoneySettings(supply=1e6, starting_credits=1e4)))


def text_of(asked: Interfaces, login: str, path: str) -> str:
    """Return the text of a page."""
    page = asked.page(login, path)
    assert page.status == 200
    return unescape(page.body.decode())


def test_prices_are_the_same_everywhere(asked: Interfaces) -> None:
    """XML-RPC has present and past prices, and the page shows each of them."""
    for login in (SESSION, ANN):
        history, code = asked.call(login, "merkat.price.history", 60, "")
        assert (history, code) == (without_none(asked.control("price_history")), 0)
        present, _ = asked.call(login, "merkat.price.info")
        rows = asked.control("price")
        assert present == [{name: row[name] for name in present[0]} for row in rows]
        page = text_of(asked, login, "/prices")
        interval_s = asked.control("status")["interval_s"]
        prices = [hourly_price(row["cpu"], "cpu", interval_s) for row in history]
        assert all(price is not None and credits_text(price) in page for price in prices)


@pytest.mark.parametrize("login", [SESSION, ANN])
def test_an_explanation_is_the_same_everywhere(asked: Interfaces, login: str) -> None:
    """XML-RPC has all of it, and the page has the sentence and the reasons."""
    answer, code = asked.call(login, "merkat.vm.explain", 0)
    assert (answer, code) == (without_none(asked.control("explain", vm="0")), 0)
    page = text_of(asked, login, "/vms/0")
    assert answer["sentence"] in page
    assert all(resource["why_not_more"] in page for resource in answer["resources"])


def test_a_vms_balance_is_its_owners(asked: Interfaces) -> None:
    """VM 1 of Ann's may be used by all: its explanation tells others nothing of her credits."""
    theirs, code = asked.call(BOB, "merkat.vm.explain", 1)
    assert (code, "balance" in theirs) == (0, False)
    assert "Balance" not in text_of(asked, BOB, "/vms/1")
    for login in (ANN, SESSION):
        own, _ = asked.call(login, "merkat.vm.explain", 1)
        assert own == {**theirs, "balance": asked.control("explain", vm="1")["balance"]}
        assert f"Balance {credits_text(own['balance'])} credits" in re.sub(
            "<[^>]*>+", " ", text_of(asked, login, "/vms/1")
        ).replace("  ", " ")


def test_a_quote_is_the_same_everywhere(asked: Interfaces) -> None:
    """It is the result of another bid, or of a planned VM."""
    bid = {"cpu": 6.0, "memory": 2.0}
    quoted, _ = asked.call(ANN, "merkat.quote.bid", 0, bid)
    assert quoted == without_none(asked.control("quote", vm="vm-0", **bid))
    page = unescape(asked.page(ANN, "/vms/0/quote", cpu="6", memory="2").body.decode())
    for resource in quoted["resources"]:
        assert amount(resource["resource"], resource["share"]) in page
        assert credits_text(resource["cost"]) in page
    wanted, _ = asked.call(ANN, "merkat.quote.want", -1, {"cpu": 50.0}, {"most_cpu": 100.0})
    assert wanted == without_none(asked.control("quote", want_cpu=50.0, most_cpu=100.0))


def test_a_bid_is_the_same_everywhere(asked: Interfaces) -> None:
    """Whichever interface sets it, all show it at once."""
    asked.control("bid", vm="0", cpu=2.5)
    assert bids(asked, 0) == (2.5, 2.5, "2.5")
    _, code = asked.call(ANN, "merkat.bid.set", 0, {"cpu": 3.5})
    assert (code, bids(asked, 0)) == (0, (3.5, 3.5, "3.5"))
    assert asked.page(ANN, "/vms/0/bid", cpu="4.5").status == 303
    assert bids(asked, 0) == (4.5, 4.5, "4.5")


def bids(asked: Interfaces, vm: int) -> tuple[float, float, str]:
    """Return the bid for CPU from each interface."""
    answer, _ = asked.call(ANN, "merkat.bid.info", vm)
    field = text_of(asked, ANN, f"/vms/{vm}").partition('name="cpu"')[2]
    return (
        asked.control("bid", vm=str(vm))["resources"][0]["old"],
        answer["resources"][0]["bid"],
        field.partition('value="')[2].partition('"')[0],
    )


def test_limit_orders_are_the_same_everywhere(asked: Interfaces) -> None:
    """Whichever interface states, changes or deletes one, both list it at once."""

    def listed() -> Any:
        rows, code = asked.call(SESSION, "merkat.order.list")
        assert (rows, code) == (without_none(asked.control("limit_orders")), 0)
        book, code = asked.call(BOB, "merkat.order.book")
        assert (book, code) == (without_none(asked.control("limit_order_book")), 0)
        assert len(book) == len(rows)
        return rows

    first, _ = asked.call(ANN, "merkat.order.set", [0], 3.5, 60.0, 2.0)
    second = asked.control("limit_order_set", vms=["vm-2"], limit=4.0)
    assert without_none(second) == listed()[1]
    assert asked.call(ANN, "merkat.order.list")[0] == listed()[:1]
    again = asked.control("limit_order_set", vms=[0], limit=3.5, least_run_s=60, factor=2)
    assert again["id"] == first
    asked.control("limit_order_change", order=first, limit=5.0)
    assert asked.call(BOB, "merkat.order.change", second["id"], {"factor": 3.0})[1] == 0
    assert [(row["limit"], row["factor"]) for row in listed()] == [(5.0, 2.0), (4.0, 3.0)]
    assert asked.control("limit_order_delete", order=first)["limit"] == 5.0
    assert asked.call(BOB, "merkat.order.delete", second["id"])[1] == 0
    assert listed() == []
    for order in (first, second["id"]):
        text = f"Error getting limit order [{order}]."
        assert asked.control("limit_order_delete", order=order) == text
        answer, code = asked.call(ANN, "merkat.order.delete", order)
        assert (answer, code) == (f"[merkat.order.delete] {text}", Code.NO_EXISTS)


CALLS = [
    ("merkat.bid.info", ()),
    ("merkat.bid.set", ({"cpu": 9.0},)),
    ("merkat.quote.bid", ({"cpu": 9.0},)),
    ("merkat.quote.want", ({"cpu": 9.0},)),
    ("merkat.vm.explain", ()),
]


@pytest.mark.parametrize(("method", "arguments"), CALLS)
def test_another_tenants_vms_are_protected(
    asked: Interfaces, method: str, arguments: tuple[Any, ...]
) -> None:
    """VM 2 is Bob's; all may use VM 1, and only its owner may manage it."""
    assert asked.call(ANN, method, 2, *arguments)[1] == Code.AUTHORIZATION
    managed = method == "merkat.bid.set"
    assert asked.call(BOB, method, 1, *arguments)[1] == (Code.AUTHORIZATION if managed else 0)
    assert asked.call(ANN, method, 99, *arguments)[1] == Code.NO_EXISTS
    assert asked.call(SESSION, method, 2, *arguments)[1] == 0


def test_the_page_hides_another_tenants_vms(asked: Interfaces) -> None:
    """It answers equally for another tenant's VM and a missing one, and sets no bid."""
    before = asked.control("bid", vm="2")
    for path in ("/vms/2", "/vms/99"):
        assert asked.page(ANN, path).status == 404
        assert asked.page(ANN, f"{path}/quote", cpu="9").status == 404
        assert asked.page(ANN, f"{path}/bid", cpu="9").status == 404
    assert asked.page(BOB, "/vms/1").status == 200
    assert asked.page(BOB, "/vms/1/bid", cpu="9").status == 404
    assert asked.control("bid", vm="2") == before


@pytest.mark.parametrize(
    ("bid", "text"),
    [({"cpu": -1.0}, "cpu: must be a number from 0"), ({"network": 1.0}, "network")],
)
def test_errors_are_the_same_everywhere(
    asked: Interfaces, bid: dict[str, float], text: str
) -> None:
    """Nothing is changed."""
    before = asked.control("bid", vm="0")
    for question in ("bid", "quote"):
        assert text in asked.control(question, vm="0", **bid)
    for method in ("merkat.bid.set", "merkat.quote.bid"):
        text_answered, code = asked.call(ANN, method, 0, bid)
        assert (text in text_answered, code) == (True, Code.RPC_API)
    if "cpu" in bid:
        assert asked.page(ANN, "/vms/0/bid", cpu="-1").status == 422
    assert asked.control("bid", vm="0") == before


def test_lists_follow_rights(asked: Interfaces) -> None:
    """An administrator's page has the rows of the control socket, a tenant's page its own."""
    rows = asked.control("vms")
    pages = {login: text_of(asked, login, "/vms") for login in (SESSION, ANN)}
    for row in rows:
        assert row["name"] in pages[SESSION]
        assert (row["name"] in pages[ANN]) == (row["owner_name"] == "ann")
    (host,) = asked.control("hosts")
    assert f"{host['given_cpu'] / 100:.1f} of" in text_of(asked, SESSION, "/hosts")
    mine = text_of(asked, ANN, "/hosts")
    assert host["name"] in mine
    assert "allocated" not in mine


def test_steps_follow_rights(asked: Interfaces) -> None:
    """A tenant's page has only decisions about its own VMs."""
    steps = asked.control("steps", kind="deploy")
    assert {step["vm"] for step in steps} == {0, 1, 2, 3}
    page = text_of(asked, ANN, "/decisions")
    for step in steps:
        assert (f'"/vms/{step["vm"]}"' in page) == (step["vm"] in {0, 1})
    assert all(f'"/vms/{vm}"' in text_of(asked, SESSION, "/decisions") for vm in range(4))
    assert "Decisions" in text_of(asked, BOB, "/vms/1")


def test_a_period_follows_rights(asked: Interfaces) -> None:
    """Each tenant sees its own payments, also from the database."""
    asked.periods(2)
    pages = {login: text_of(asked, login, "/periods/4") for login in (SESSION, ANN)}
    assert ">bob<" in pages[SESSION]
    assert ">ann<" in pages[ANN]
    assert ">bob<" not in pages[ANN]
    assert asked.page(ANN, "/periods/99").status == 404


def test_services_check_rights_for_every_interface(asked: Interfaces) -> None:
    """The services filter rows and refuse calls, whatever an interface would show."""
    asked.periods(2)
    ann = Caller(Identity(2, "ann", frozenset({1}), 1), ANN)
    services, result = asked.services, asked.frontend.result
    now = result(ensureDeferred(services.views.prepared())).now
    shares = result(ensureDeferred(services.past.shares(ann, 4)))
    assert shares.vm.tolist() == [0, 1]
    assert len(result(ensureDeferred(services.past.shares(LOCAL, 4))).vm) == 4
    (host,) = result(ensureDeferred(services.listings.hosts(ann, now)))
    assert host.use is None
    applications = result(ensureDeferred(services.listings.applications(ann, now)))
    assert [application.owner for application in applications] == [2]
    for refused in (
        services.steps.steps_of_vm(ann, now.snapshot, 2),
        services.steps.steps_of_vm(ann, now.snapshot, 77, last_owner=3),
        services.balances.changes(ann, 3, 0.0),
        services.listings.balances(ann),
        services.limits.release(ann, [0]),
        services.plans.dry_run(ann),
    ):
        with pytest.raises((NotPermittedError, UnknownObjectError)):
            result(ensureDeferred(refused))
    gone = result(ensureDeferred(services.steps.steps_of_vm(ann, now.snapshot, 77, last_owner=2)))
    assert gone == []


@pytest.mark.parametrize("same", [False, True])
def test_the_reason_of_a_move_tells_nothing_of_anothers_vm(same: bool) -> None:
    """Ann's VM gets all that it can use; it moves so that another, on its host, gets more."""
    frontend = Frontend(hosts=2)
    ann, bob = frontend.user("ann"), frontend.user("bob")
    moved = frontend.vm(50.0, owner=ann, VCPU=1)
    gains = frontend.vm(4.0, owner=ann if same else bob, VCPU=4)
    beside = frontend.vm(50.0, owner=bob, VCPU=3)
    for vm, host in ((moved, 0), (gains, 0), (beside, 1)):
        frontend.bench.ok("one.vm.deploy", vm, host)
    frontend.clock.advance(30)
    asked = Interfaces(frontend)
    asked.periods(3)
    answer, _ = asked.call(ANN, "merkat.vm.explain", moved)
    reason = answer["why_here"]["reason"]
    own = f"makes room on host000: VM {gains} gets 400 % of CPU instead of 300"
    assert reason == (own if same else "makes room on host000 for a VM of another owner")
    assert unescape(reason) in text_of(asked, ANN, "/decisions")
    frontend.close()


def test_no_name_of_a_vm_hides_a_host(asked: Interfaces) -> None:
    """Ann names a VM like the host, and another like the host's id: its limits are still shown."""
    every = [row["id"] for row in asked.control("limits")]
    for vm, name in ((0, "host000"), (1, "0")):
        asked.frontend.bench.ok("one.vm.rename", vm, name)
    asked.periods(1)
    assert [row["id"] for row in asked.control("limits", of="host000")] == every
    assert [row["id"] for row in asked.control("limits", of="0")] == [0]
    assert [row["id"] for row in asked.control("limits", of="vm-2")] == [2]


class FailingCloud:
    """A cloud that answers all calls of users like OpenNebula while it elects a leader."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.fails = True

    async def call(self, method: str, *arguments: Any) -> Any:
        """Return the answer of the cloud, or the failure."""
        if self.fails:
            return [False, "Cannot process request, no leader found", 2048, -1, -1]
        return await self._real.call(method, *arguments)


@pytest.fixture
def failing() -> Iterator[tuple[Interfaces, FailingCloud]]:
    """Interfaces whose logins and rights are asked of a cloud that can fail."""
    frontend = Frontend(hosts=1)
    cloud: Any = FailingCloud(frontend.transport)
    frontend.transport = cloud
    for asked in contended(frontend):
        yield asked, cloud


def test_a_failing_opennebula_ends_no_session(failing: tuple[Interfaces, FailingCloud]) -> None:
    """It can't say who the visitor is; that is no word about the visitor's password."""
    asked, cloud = failing
    assert asked.page(ANN, "/vms/1").status == 503
    assert len(asked._sessions._kept) == 1
    assert asked.call(ANN, "merkat.vm.explain", 1)[1] == Code.INTERNAL
    cloud.fails = False
    assert asked.page(ANN, "/vms/1").status == 200


def test_a_failing_opennebula_takes_no_right(failing: tuple[Interfaces, FailingCloud]) -> None:
    """All may use VM 1: Bob learns that his right can't be checked, not that he has none."""
    asked, cloud = failing
    cloud.fails = False
    assert asked.call(BOB, "merkat.price.info")[1] == 0
    cloud.fails = True
    assert asked.call(BOB, "merkat.vm.explain", 1)[1] == Code.INTERNAL
    assert asked.page(BOB, "/vms/1").status == 503
    cloud.fails = False
    assert asked.call(BOB, "merkat.vm.explain", 1)[1] == 0
