"""A tenant's calls and pages cost the same in a cloud with ten thousand tenants."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from merkatd.base.rate_limit import RateLimit
from merkatd.currency.settings import MoneySettings
from merkatd.database.ledger import account_store, budget_store, tenant_store
from merkatd.service.market import listings
from merkatd.service.market.past_periods import PastShares
from tests.scheduler.frontend import PASSWORD, SESSION, Frontend
from tests.service.interfaces import Interfaces, contended

ANN = f"ann:{PASSWORD}"
WHOLE_TABLES: tuple[tuple[ModuleType, str], ...] = (
    (account_store, "every"),
    (account_store, "holding"),
    (budget_store, "open_accounts"),
    (budget_store, "open_ones"),
    (tenant_store, "every"),
    (tenant_store, "active"),
    (tenant_store, "names"),
)
"""The functions that read a row of each tenant or application."""


@pytest.fixture
def asked() -> Iterator[Interfaces]:
    """A daemon whose tenants have credits."""
    yield from contended(Frontend(hosts=1, money=MoneySettings(supply=1e6, starting_credits=1e4)))


@pytest.fixture
def read_whole(asked: Interfaces, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The whole tables that were read, by the functions that read them."""
    del asked  # its periods read whole tables
    names: list[str] = []

    def noting(name: str, real: Any) -> Any:
        def work(*arguments: Any, **named: Any) -> Any:
            names.append(name)
            return real(*arguments, **named)

        return work

    for module, name in WHOLE_TABLES:
        shown = f"{module.__name__}.{name}"
        monkeypatch.setattr(module, name, noting(shown, getattr(module, name)))
    return names


def test_a_tenant_reads_no_other_tenants(asked: Interfaces, read_whole: list[str]) -> None:
    """Each may call fifty times a second; a read of all tenants takes a thread a third of one."""
    for method, arguments in (
        ("merkat.tenant.info", ()),
        ("merkat.tenant.list", ()),
        ("merkat.budget.info", ()),
        ("merkat.statement.info", ()),
        ("merkat.bid.info", (0,)),
        ("merkat.vm.explain", (0,)),
    ):
        assert asked.call(ANN, method, *arguments)[1] == 0
    for path in ("/", "/vms", "/vms/0", "/tenants", "/tenants/2", "/hosts", "/hosts/0"):
        assert asked.page(ANN, path).status == 200
    assert read_whole == []


def test_an_administrator_reads_all(asked: Interfaces, read_whole: list[str]) -> None:
    """The list of all tenants needs all rows: so this test would notice a read."""
    rows, code = asked.call(SESSION, "merkat.tenant.list")
    assert (len(rows), code) == (2, 0)
    assert read_whole


def test_a_page_of_a_tenant_with_many_vms_counts_as_more_calls(
    asked: Interfaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise one tenant with thousands of VMs could keep the daemon busy with its pages."""
    monkeypatch.setattr("merkatd.web.site._VMS_OF_A_CALL", 0.5)  # Ann has two VMs
    asked._site._admission._users = RateLimit(0.001, 10_000.0)
    assert [asked.page(ANN, "/vms").status for _ in range(3)] == [200, 200, 429]
    assert [asked.page(SESSION, "/vms").status for _ in range(6)] == [200] * 6


def test_a_long_page_of_a_tenant_counts_as_more_calls(
    asked: Interfaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant with 250 limit orders opened its page 50 times a second: three seconds of work."""
    size = len(asked.page(ANN, "/vms").body)
    monkeypatch.setattr("merkatd.web.site._BYTES_OF_A_CALL", size / 4)
    asked._site._admission._users = RateLimit(0.001, 10_000.0)
    assert [asked.page(ANN, "/vms").status for _ in range(3)] == [200, 200, 429]
    assert [asked.page(SESSION, "/vms").status for _ in range(6)] == [200] * 6


@pytest.mark.parametrize("path", ["/", "/decisions", "/hosts/0"])
def test_the_steps_of_a_tenants_vms_are_read_for_one_page_at_a_time(
    asked: Interfaces, path: str
) -> None:
    """A tenant may have thousands of VMs; each read of their steps takes a thread 50 ms."""
    taken = asked.noted_turns().taken
    asked.page(ANN, "/vms")
    before = len(taken)
    assert asked.page(ANN, path).status == 200
    assert len(taken) > before


def test_a_page_keeps_no_vms_of_others(asked: Interfaces) -> None:
    """The daemon keeps the reads of 256 pages: of a period, a tenant's page reads its own VMs."""
    asked.periods(2)
    for login, vms in ((ANN, [0, 1]), (SESSION, [0, 1, 2, 3])):
        assert asked.page(login, "/periods/3").status == 200
        kept = [entry.value for entry in asked._site._recall._kept.values()]
        (shares,) = [value for value in kept if isinstance(value, PastShares)][-1:]
        assert shares.vm.tolist() == vms


def test_a_period_is_read_for_one_page_of_a_user_at_a_time(asked: Interfaces) -> None:
    """It has a row of each VM of the cloud, so windows of one user take turns, as for its steps."""
    asked.periods(2)
    turns = asked.noted_turns()
    assert asked.page(ANN, "/periods/3").status == 200
    assert turns.taken == [2, 2]


def test_a_tenant_lists_no_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of each of ten thousand hosts takes a tenth of a second, for a list of one."""
    frontend = Frontend(hosts=5)
    frontend.vm(owner=frontend.user("ann"))
    asked = Interfaces(frontend)
    asked.periods(2)
    made: list[int] = []
    real = listings.host_state

    def noted(now: Any, row: int, drained: Any) -> str:
        made.append(row)
        return real(now, row, drained)

    monkeypatch.setattr(listings, "host_state", noted)
    host = frontend.host_of(0)
    assert f'"/hosts/{host}"' in asked.page(ANN, "/hosts").body.decode()
    assert asked.page(ANN, f"/hosts/{host}").status == 200
    assert len(made) == 2
    assert asked.page(SESSION, "/hosts").status == 200
    assert len(made) == 7
    frontend.close()
