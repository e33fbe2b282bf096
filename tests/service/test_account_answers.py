"""The three interfaces give equal answers about accounts: values, rights and errors."""

from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from merkatd.api.xmlrpc.errors import Code
from merkatd.service.base.callers import LOCAL, Caller
from merkatd.service.base.errors import (
    ConflictError,
    NotPermittedError,
    RequestError,
    UnknownObjectError,
)
from merkatd.service.base.identity import Identity
from merkatd.web.layout.widgets import credits_text
from tests.platforms.site import BOB, Site
from tests.scheduler.frontend import PASSWORD, SESSION
from tests.service.interfaces import Interfaces, without_none

ANN = f"ann:{PASSWORD}"


class Accounts(Interfaces):
    """Ann has a platform with an application of its own, and a VM; Bob has only credits."""

    def __init__(self) -> None:
        self.site = Site()
        super().__init__(self.site, self.site.manager)
        self.site.vm(2.0, owner=ANN)
        self.platform = self.site.submit()
        self.periods(2)
        self.caller = Caller(Identity(self.site.bob, "bob", frozenset({1}), 1), BOB)

    def wait(self, coroutine: Any) -> Any:
        """Return the result of a service's call."""
        return self.site.result(ensureDeferred(coroutine))

    def text(self, login: str, path: str) -> str:
        """Return the text of a page."""
        return unescape(self.page(login, path).body.decode())


@pytest.fixture
def asked() -> Iterator[Accounts]:
    """Yield interfaces for one test."""
    made = Accounts()
    yield made
    made.site.close()


def test_a_tenant_has_the_same_balances_everywhere(asked: Accounts) -> None:
    """Control socket, XML-RPC and page show the same balances."""
    row = asked.control("tenant", tenant="ann")
    for login in (SESSION, ANN):
        answer, code = asked.call(login, "merkat.tenant.info", asked.site.ann)
        assert (code, answer) == (0, {name: without_none(row)[name] for name in answer})
        page = asked.text(login, f"/tenants/{asked.site.ann}")
        assert credits_text(row["balance"]) in page
        assert credits_text(row["in_applications"]) in page


def test_the_list_of_tenants_follows_rights(asked: Accounts) -> None:
    """An administrator sees all tenants of the control socket, and a tenant itself."""
    rows = {row["id"]: row["balance"] for row in asked.control("tenants")["tenants"]}
    accounts, _ = asked.call(SESSION, "merkat.tenant.list")
    assert {account["id"]: account["balance"] for account in accounts} == rows
    accounts, _ = asked.call(BOB, "merkat.tenant.list")
    assert [account["id"] for account in accounts] == [asked.site.bob]
    assert all(f"/tenants/{id_}" in asked.text(SESSION, "/tenants") for id_ in rows)
    assert f'"/tenants/{asked.site.ann}"' not in asked.text(BOB, "/tenants")


def test_budgets_and_statements_are_the_same_everywhere(asked: Accounts) -> None:
    """All interfaces show the same application and the same month."""
    (row,) = asked.control("budgets", tenant="ann")
    (budget,), code = asked.call(ANN, "merkat.budget.info")
    assert (code, budget) == (0, {name: without_none(row)[name] for name in budget})
    assert row["name"] in asked.text(ANN, f"/tenants/{asked.site.ann}")
    month = asked.control("statement", tenant="ann")
    budget, _ = asked.call(ANN, "merkat.statement.info")
    assert budget["opening"] * 1e6 == pytest.approx(month["opening"])
    assert budget["closing"] * 1e6 == pytest.approx(month["closing"])
    assert [line["vm"] for line in budget["vms"]] == [line["vm_id"] for line in month["lines"]]
    assert credits_text(budget["closing"]) in asked.text(ANN, f"/tenants/{asked.site.ann}")


def test_a_changed_budget_has_its_author(asked: Accounts) -> None:
    """Any interface can change it; the note has the tenant's id or "an administrator"."""
    (row,) = asked.control("budgets", tenant="ann")
    asked.call(ANN, "merkat.budget.set", row["application"], {"replenishment": 7.0})
    assert asked.control("budget", application=row["application"])["replenishment"] == 7.0
    asked.control("budget", application=row["application"], replenishment=8.0)
    (budget,), _ = asked.call(ANN, "merkat.budget.info")
    assert budget["replenishment"] == 8.0
    notes = asked.control("money_notes", kind="budget", limit=2)
    assert [note["who"] for note in notes] == ["an administrator", f"user {asked.site.ann}"]


def test_errors_have_the_same_text(asked: Accounts) -> None:
    """Each interface has its own code for the same text."""
    message = asked.control("budget", application=99, amount=1)
    answer, code = asked.call(SESSION, "merkat.budget.set", 99, {"budget": 1.0})
    assert (answer, code) == (f"[merkat.budget.set] {message}", Code.NO_EXISTS)
    (row,) = asked.control("budgets", tenant="ann")
    message = asked.control("budget", application=row["application"], amount=1e12)
    answer, code = asked.call(ANN, "merkat.budget.set", row["application"], {"budget": 1e12})
    assert (answer, code) == (f"[merkat.budget.set] {message}", Code.RPC_API)
    assert asked.page(SESSION, "/tenants/77").status == 404


def test_another_tenants_accounts_are_protected(asked: Accounts) -> None:
    """XML-RPC denies access, and the page does not reveal whether they exist."""
    (row,) = asked.control("budgets", tenant="ann")
    for method in ("merkat.tenant.info", "merkat.budget.info", "merkat.statement.info"):
        assert asked.call(BOB, method, asked.site.ann)[1] == Code.AUTHORIZATION
    change = {"budget": 1.0}
    assert asked.call(BOB, "merkat.budget.set", row["application"], change)[1] == Code.AUTHORIZATION
    assert asked.page(BOB, f"/tenants/{asked.site.ann}").status == 404
    assert asked.control("budget", application=row["application"])["budget"] == row["budget"]


def test_services_check_rights_for_every_interface(asked: Accounts) -> None:
    """Also without an interface's check, the service refuses and changes nothing."""
    accounts, bob, ann = asked.services.accounts, asked.caller, asked.site.ann
    (row,) = asked.control("budgets", tenant="ann")
    before = asked.site.balances()
    for refused in (
        accounts.supply(bob),
        accounts.tenant(bob, ann),
        accounts.details(bob, ann),
        accounts.budgets(bob),
        accounts.budgets(bob, ann),
        accounts.budget(bob, row["application"]),
        accounts.set_budget(bob, row["application"], 1, 1),
        accounts.statement(bob, ann),
        accounts.notes(bob, 5),
        accounts.set_weight(bob, ann, 2.0),
        accounts.set_group_weight(bob, 1, 2.0),
        accounts.grant(bob, asked.site.bob, 5_000_000),
        accounts.renew(bob),
        accounts.void(bob, 1, "why"),
    ):
        with pytest.raises(NotPermittedError):
            asked.wait(refused)
    assert asked.site.balances() == before


def test_errors_of_the_ledger_are_errors_of_requests(asked: Accounts) -> None:
    """The request's error has the ledger's text."""
    accounts = asked.services.accounts
    with pytest.raises(UnknownObjectError, match="there is no application 99"):
        asked.wait(accounts.budget(LOCAL, 99))
    with pytest.raises(ConflictError, match="can't be moved"):
        asked.wait(accounts.grant(LOCAL, asked.site.ann, -(10**15)))
    assert issubclass(ConflictError, RequestError)
