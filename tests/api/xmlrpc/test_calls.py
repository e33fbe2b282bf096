"""Requests of tenants and their answers, over real HTTP from a whole daemon."""

import re
import time
from pathlib import Path
from typing import Any

import pytest

from merkatd.api.xmlrpc.method_table import Method
from merkatd.api.xmlrpc.methods import METHODS
from merkatd.api.xmlrpc.xmlrpc_reference import PAGE, example, page
from merkatd.client import (
    Administration,
    BadCallError,
    ForbiddenError,
    MissingError,
)
from tests.api.xmlrpc.site import ANN, BOB, Site, until, xmlrpc_of

ROOT = Path(__file__).parents[3]

PLATFORM = '''
name = "later"
controller = { kind = "none" }
budget = { credits = 1 }
start = { not_before = "30d" }

[[cluster]]
name = "nodes"
template = """
CPU=1
MEMORY=64
"""
'''

PATIENT_PLATFORM = PLATFORM.replace('"none"', '"patient"').replace(
    "start", 'slo = { deadline = "31d", ideal_run = "1h" }\nstart'
)


def application(site: Site, owner: int) -> int:
    """Create an application of a tenant with a budget of 100 credits, as its platform would."""
    from merkatd.database.base.engine import make_engine  # noqa: PLC0415 - blocking, for this alone
    from merkatd.ledger import open_application  # noqa: PLC0415 - the same

    engine = make_engine(f"sqlite:///{site.state / 'merkat.db'}")
    with engine.begin() as connection:
        budget = open_application(connection, owner, "runs", 100_000_000, 0, time.time())
    engine.dispose()
    return budget.application


def running_application(site: Site) -> int:
    """Return an application of Ann's with a VM in the latest period."""
    now = PLATFORM.replace('start = { not_before = "30d" }', "")
    number: int = site.raw("merkat.platform.submit", ANN, now)[1]["id"]
    until(lambda: site.raw("merkat.application.explain", ANN, number)[0], "its VM is seen")
    return number


def end(site: Site, platform: int) -> None:
    """End a platform of Ann's, and wait until no VM of it counts."""
    site.raw("merkat.platform.stop", ANN, platform)
    explain = "merkat.application.explain"
    until(lambda: site.raw(explain, ANN, platform)[0] is False, "its VM has ended")


def waiting_plan(site: Site) -> int:
    """Return the number of a waiting plan in a paused daemon."""
    from merkatd.database.base.engine import make_engine  # noqa: PLC0415 - the same
    from merkatd.database.scheduler import plan_store as plan_store_module  # noqa: PLC0415 - blocking, for this alone

    site.pause()
    ended = ("acted", "charged", "failed", "watched")
    until(lambda: site.order("status")["newest_state"] in ended, "the period in hand over")
    site.order("mode", to="ask")
    engine = make_engine(f"sqlite:///{site.state / 'merkat.db'}")
    with engine.begin() as connection:
        step = plan_store_module.ProposedStep(kind="deploy", vm=0, host=0, reason="it waits")
        plan_store_module.withdraw(connection, time.time())
        plan_store_module.put(connection, 1, [step], time.time())
        plan = plan_store_module.newest(connection)
    engine.dispose()
    assert plan is not None
    return plan.id


def stands_for(site: Site, method: Method) -> dict[str, Any]:
    """Return the values of the names in an example."""
    session = site.admin if method.admin else ANN
    known: dict[str, Any] = {"session": session, "vm": 0}
    known["application"] = application(site, site.users["ann"])
    known["template"] = PATIENT_PLATFORM if method.name == "merkat.platform.quote" else PLATFORM
    if "platform" in method.example:
        # The example of an update sets a deadline in six hours, which must be after the start.
        soon = PLATFORM.replace('"30d"', '"5h"')
        template = soon if method.name == "merkat.platform.update" else PLATFORM
        known["platform"] = site.raw("merkat.platform.submit", ANN, template)[1]["id"]
    known["vm_template"] = "CPU=1\nMEMORY=64"
    if method.example.startswith("group"):
        asked = {"template": known["vm_template"], "rate": 1.0, "count": 1}
        known["group"] = site.raw("merkat.group.create", ANN, asked)[1]["id"]
    if method.example.startswith("order"):
        known["order"] = site.raw("merkat.order.set", ANN, [0], 3.5)[1]
    if method.name == "merkat.platform.resume":
        site.raw("merkat.platform.suspend", ANN, known["platform"])
    if method.name == "merkat.application.explain":
        known["application"] = running_application(site)
    if "merkat.plan" in method.name:
        known["plan"] = waiting_plan(site)
    return known


def leave_orders(site: Site) -> None:
    """Delete Ann's limit orders, and wait until VM 0 runs with its own bid.

    The period in hand may have been decided with the order, and stop VM 0 afterwards. So the first
    period whose share of VM 0 is certain is the second one after the deletion.
    """
    for old in site.raw("merkat.order.list", ANN)[1]:
        site.raw("merkat.order.delete", ANN, old["id"])
    deleted = site.period() or 0

    def bids_again() -> bool:
        answer = site.raw("merkat.quote.bid", ANN, 0, {"cpu": 1.0})
        return answer[0] is True and answer[1]["period"] > deleted + 1

    until(bids_again, "a share for VM 0")


class TestAdministration:
    def test_only_administrators_answer_plans(self, site: Site) -> None:
        """Only they change the mode; every user can read the daemon's state."""
        number = waiting_plan(site)
        try:
            with site.merkat() as ann, site.merkat(site.admin) as root:
                for forbidden in (Administration(ann).plan, Administration(ann).approve):
                    with pytest.raises(ForbiddenError, match="Not authorized"):
                        forbidden()
                with pytest.raises(ForbiddenError, match="Not authorized"):
                    Administration(ann).mode("on")
                with pytest.raises(ForbiddenError, match="Not authorized"):
                    Administration(ann).resume()
                shown = Administration(ann).daemon()
                assert (shown.mode, shown.paused) == ("ask", True)
                administration = Administration(root)
                mode = administration.mode()
                assert (mode.mode, mode.configured, mode.waiting_plan) == ("ask", "on", number)
                assert administration.plan().steps[0].kind == "deploy"
                with pytest.raises(BadCallError, match="has no step 9"):
                    administration.approve(number, skip=[9])
                approved = administration.approve(number, skip=[1])
                assert (approved.state, approved.who) == ("approved", "oneadmin")
                assert approved.steps[0].skipped
                with pytest.raises(BadCallError, match="already approved by oneadmin"):
                    administration.refuse()
                assert administration.mode("dry").mode == "dry"
                assert Administration(ann).daemon().mode == "dry"
                assert administration.resume() is True
                assert administration.resume() is False
                assert administration.pause() is True
        finally:
            site.as_before()


class TestTenantsPage:
    def test_the_programs_of_the_page_run(
        self, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They run in the order of docs/tenant.md, with a tenant's own login."""
        (tmp_path / "one_auth").write_text(ANN)
        monkeypatch.setenv("ONE_AUTH", str(tmp_path / "one_auth"))
        monkeypatch.setenv("MERKAT_XMLRPC", site.endpoint)
        page = (ROOT / "docs/tenant.md").read_text()
        programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        assert len(programs) == 6
        names: dict[str, Any] = {"VM": 0}
        for program in programs:
            exec(program, names)  # noqa: S102 - our own page


class TestReference:
    def test_the_page_is_up_to_date(self) -> None:
        """`python -m merkatd.api.xmlrpc.xmlrpc_reference` writes the same text."""
        assert (ROOT / PAGE).read_text(encoding="utf-8") == page()

    @pytest.mark.parametrize("name", sorted(METHODS.keys() - {"merkat.plan.reverse"}))
    def test_each_example_matches_the_page(self, name: str, site: Site) -> None:
        """It succeeds, and every member of its answer is on the page."""

        class Caller:
            def __getattr__(self, part: str) -> Any:
                return Part(part)

        class Part:
            def __init__(self, path: str) -> None:
                self.path = path

            def __getattr__(self, part: str) -> Any:
                return Part(f"{self.path}.{part}")

            def __call__(self, *arguments: Any) -> Any:
                return site.raw(self.path, *arguments)

        method = METHODS[name]
        known = {"server": Caller(), **stands_for(site, method)}
        try:
            answer = eval(example(method), {}, known)  # noqa: S307 - our own page
            assert len(answer) == 3, answer
            success, value, code = answer
        finally:
            if method.admin:
                site.as_before()
            if method.name.startswith("merkat.order."):
                leave_orders(site)
            if method.name == "merkat.application.explain":
                end(site, known["application"])
        if method.name == "merkat.vm.create":
            site.terminate(ANN, value["id"])
        assert (success, code) == (True, 0)
        for element in value if isinstance(value, list) else [value]:
            described(method, element)


def test_only_an_executed_plan_is_reversed(site: Site) -> None:
    """By administrators alone; tests/modes/test_reversal.py reverses one."""
    plan = waiting_plan(site)
    try:
        assert site.raw("merkat.plan.reverse", ANN, plan)[0] is False
        refused = site.raw("merkat.plan.reverse", site.admin, plan)
        reason = f"[merkat.plan.reverse] plan {plan} was not executed: it is waiting"
        assert refused[:2] == [False, reason]
    finally:
        site.as_before()


def described(method: Method, value: Any) -> None:
    """Check that every member is on the page, with those of inner structs."""
    if not method.returns.members:
        assert isinstance(value, {"int": int}.get(method.returns.kind, str))
        return
    assert value.keys() <= method.returns.members.keys()
    inside = value.get("resources", value.get("vms", value.get("steps", [])))
    for inner in inside if isinstance(inside, list) else []:
        assert not isinstance(inner, dict) or inner.keys() <= method.returns.inner.keys()


class TestMarket:
    def test_a_bid_applies_in_the_next_period_as_quoted(self, site: Site) -> None:
        """The two VMs share two cores."""
        with site.merkat() as ann:

            def share_of_three() -> float:
                return ann.quote(0, cpu=3.0).resources[0].share

            # VMs of earlier tests may still be on their way out.
            until(lambda: share_of_three() == pytest.approx(200 * 3 / 9, rel=1e-6), "two VMs")
            quoted = ann.quote(0, cpu=3.0)
            ann.bid(0, cpu=3.0)
            until(lambda: ann.bid_of(0).resources[0].bid == 3.0, "the new bid in force")
            until(
                lambda: (
                    ann.explain(0).resources[0]["share"] == pytest.approx(quoted.resources[0].share)
                ),
                "the share that was quoted",
            )
            back = ann.quote_for(0, cpu=50.0).resources[0]
            assert back.bid == pytest.approx(2.0)
            ann.bid(0, cpu=2.0)
            until(lambda: ann.bid_of(0).resources[0].bid == 2.0, "the old bid in force")

    def test_a_future_vm_is_quoted_too(self, site: Site) -> None:
        """The quote uses its size; an unobtainable share has no bid."""
        with site.merkat() as ann:
            quoted = ann.quote(cpu=1000.0, size={"most_cpu": 100.0, "least_memory": 64.0})
            assert (quoted.id, quoted.host, quoted.market) == (None, "host000", "default")
            assert quoted.resources[0].share == pytest.approx(100.0)
            never = ann.quote_for(cpu=201.0).resources[0]
            assert (never.bid, never.cost) == (None, None)
            assert never.share <= 200.0

    def test_prices_and_their_history_are_shown(self, site: Site) -> None:
        """They cover each resource and each period."""
        with site.merkat(BOB) as bob:
            assert {price.resource for price in bob.prices()} == {"cpu", "memory"}
            until(lambda: len(bob.price_history(5, "default")) == 5, "five periods")
            assert bob.price_history(5, "default")[-1].cpu is not None
            assert bob.version()


class TestRights:
    def test_vms_and_money_of_other_users_are_protected(self, site: Site) -> None:
        """Bob can neither read nor change them; administrators can."""
        owned = application(site, site.users["ann"])
        with site.merkat(BOB) as bob:
            for ask in (
                lambda: bob.bid(0, cpu=100.0),
                lambda: bob.bid_of(0),
                lambda: bob.quote(0, cpu=1.0),
                lambda: bob.explain(0),
                lambda: bob.tenant(site.users["ann"]),
                lambda: bob.budgets(site.users["ann"]),
                lambda: bob.statement(site.users["ann"]),
                lambda: bob.set_budget(owned, budget=0.0),
            ):
                with pytest.raises(ForbiddenError) as refused:
                    ask()
                assert "Not authorized" in str(refused.value)
            assert [tenant.id for tenant in bob.tenants()] == [site.users["bob"]]
            with pytest.raises(MissingError):
                bob.bid(999, cpu=1.0)
        with site.merkat(site.admin) as admin:
            assert admin.bid_of(0).id == 0
            assert len(admin.tenants()) >= 2
            assert admin.tenant(site.users["ann"]).balance > 0

    def test_permissions_by_group_are_respected(self, site: Site) -> None:
        """USE allows reading and MANAGE changing, until they are revoked."""
        raw_calls = xmlrpc_of(site)
        with site.merkat(BOB) as bob:
            raw_calls.one.vm.chmod(ANN, 0, -1, -1, -1, 1, 0, 0, 0, 0, 0)
            assert bob.bid_of(0).id == 0
            with pytest.raises(ForbiddenError, match="MANAGE VM"):
                bob.bid(0, memory=1.0)
            raw_calls.one.vm.chmod(ANN, 0, -1, -1, -1, 1, 1, 0, 0, 0, 0)
            assert bob.bid(0, memory=1.0)[1].new == 1.0
            raw_calls.one.vm.chmod(ANN, 0, -1, -1, -1, 0, 0, 0, 0, 0, 0)
            with pytest.raises(ForbiddenError):
                bob.bid_of(0)
        raw_calls("close")()

    def test_budgets_are_changed_by_their_tenants(self, site: Site) -> None:
        """The credits come from the tenant, exact to the micro-credit, and return to it."""
        with site.merkat() as ann:
            owned = application(site, site.users["ann"])
            ann.set_budget(owned, budget=100.0)
            changed = ann.set_budget(owned, budget=40.25, replenishment=1.0)
            assert (changed.balance, changed.budget, changed.replenishment) == (40.25, 40.25, 1.0)
            with pytest.raises(Exception, match="can't be moved"):
                ann.set_budget(owned, budget=1e9)
            assert {budget.application: budget.balance for budget in ann.budgets()}[owned] == 40.25
            statement = ann.statement()
            moved = statement.opening + sum(statement.movements.values())
            assert moved == pytest.approx(statement.closing, abs=1e-5)
            ann.set_budget(owned, budget=100.0)
