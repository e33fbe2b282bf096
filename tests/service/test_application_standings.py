"""Where applications stand under the strategy `utility`, asked at all doors."""

from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from typing import Any, NoReturn, cast

import pytest

from merkatd.placement.registry import STRATEGIES
from merkatd.scheduler.base.settings import MarketRules
from tests.platforms.site import BOB, Site
from tests.scheduler.frontend import PASSWORD, Frontend
from tests.scheduler.test_utility_cloud import (
    ALONE,
    ARRIVALS,
    HOST,
    JOB,
    MONITOR,
    SERVICE,
    cluster,
    measure,
)
from tests.service.interfaces import Interfaces

ANN = f"ann:{PASSWORD}"


def late_applications(site: Site) -> Interfaces:
    """Return interfaces of a job of Ann, a job and a service of Bob, which all lack power."""
    for number, owner in enumerate((site.ann, site.bob)):
        site.submit(
            owner,
            top=f'name = "job-{number}"',
            controller=ALONE,
            application=JOB,
            cluster=cluster(1, 'WORK="30000",DEMAND="1"'),
        )
    service = site.submit(
        site.bob,
        top='name = "shop"',
        controller=ALONE,
        application=SERVICE,
        cluster=cluster(2, f'ARRIVALS="{ARRIVALS}",REQUEST_WORK="0.02"', MONITOR),
    )
    site.until(service, "running")
    asked = Interfaces(site, site.manager)
    for _ in range(6):
        measure(site, service)
        asked.periods(1)
    return asked


@pytest.fixture
def asked() -> Iterator[Interfaces]:
    """Yield interfaces of a host whose market runs `utility`."""
    site = Site(hosts=1, size=HOST, markets=(MarketRules(strategy="utility"),))
    yield late_applications(site)
    site.close()


def applications(asked: Interfaces) -> dict[str, int]:
    """Return the ids of all applications by name."""
    rows = asked.control("applications")
    return {row["name"]: row["application"] for row in rows if row["application"] is not None}


def of_ann(asked: Interfaces) -> int:
    """Return the id of Ann's application."""
    (number,) = (its for name, its in applications(asked).items() if name.startswith("job-0"))
    return number


def test_it_says_what_the_goal_takes_and_whom_that_would_cost(asked: Interfaces) -> None:
    """An administrator reads the names of those that would have less."""
    said = asked.control("explain_application", application=of_ann(asked))
    assert said["utility"] < 0
    assert (
        f"has a utility of {round(said['utility'], 2) + 0.0:.2f}: it ends in about"
        in said["sentence"]
    )
    assert "Its goal takes" in said["sentence"]
    assert "2 other applications on its hosts would have less" in said["sentence"]
    others = {f"{its} ({name})" for name, its in applications(asked).items() if "job-0" not in name}
    assert set(said["payers"]) == others


def test_a_tenant_reads_the_same_without_names_of_others(asked: Interfaces) -> None:
    """And nothing about applications of others."""
    number = of_ann(asked)
    by_socket = asked.control("explain_application", application=number)
    said, code = asked.call(ANN, "merkat.application.explain", number)
    assert code == 0
    assert said == {name: its for name, its in by_socket.items() if name != "payers"}
    for name, its in applications(asked).items():
        if its != number:
            assert name not in str(said)
            refusal, code = asked.call(ANN, "merkat.application.explain", its)
            assert code != 0
            assert name not in refusal
    assert asked.call(BOB, "merkat.application.explain", number)[1] != 0


def test_the_explanation_of_a_vm_has_it_too(asked: Interfaces) -> None:
    """At the socket, by XML-RPC and on the page."""
    number = of_ann(asked)
    sentence = asked.control("explain_application", application=number)["sentence"]
    (vm,) = (row["id"] for row in asked.control("vms") if row["application"] == number)
    said = asked.control("explain", vm=str(vm))
    assert said["application"] == number
    assert said["standing"].removeprefix("Its application ") == sentence.partition(") ")[2]
    assert asked.call(ANN, "merkat.vm.explain", vm)[0]["standing"] == said["standing"]
    assert said["standing"] in unescape(asked.page(ANN, f"/vms/{vm}").body.decode())


def test_no_bid_helps_where_the_strategy_alone_states_amounts(asked: Interfaces) -> None:
    """A VM's sentence and its rows say so."""
    limits = set()
    for row in asked.control("vms"):
        said = asked.control("explain", vm=str(row["id"]))
        (cpu,) = (each for each in said["resources"] if each["resource"] == "cpu")
        limits.add(cpu["limited_by"])
        assert cpu["bid_for_all"] is None
        assert ("bids have no effect" in said["sentence"]) == (cpu["limited_by"] == "strategy")
    assert limits == {"cap", "strategy"}


def test_unknown_applications_are_refused(asked: Interfaces) -> None:
    """With the number."""
    assert "application 999" in asked.control("explain_application", application=999)
    assert "application" in asked.control("explain_application")
    assert asked.call(ANN, "merkat.application.explain", -1)[1] != 0


def test_a_strategy_that_can_not_explain_costs_no_answer(
    asked: Interfaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the explanation is there."""

    def fails(*_: Any) -> NoReturn:
        raise ArithmeticError

    entry = replace(STRATEGIES["utility"], explain=fails)
    monkeypatch.setitem(cast("dict[str, Any]", STRATEGIES), "utility", entry)
    assert asked.control("explain", vm="0")["standing"] is None
    assert (
        "has no utility"
        in asked.control("explain_application", application=of_ann(asked))["sentence"]
    )


def test_a_period_is_explained_once(asked: Interfaces, monkeypatch: pytest.MonkeyPatch) -> None:
    """An explanation costs as much as a decision, and anyone may ask often."""
    calls = []

    def counted(*arguments: Any) -> Any:
        calls.append(1)
        assert known is not None
        return known(*arguments)

    known = STRATEGIES["utility"].explain
    entry = replace(STRATEGIES["utility"], explain=counted)
    monkeypatch.setitem(cast("dict[str, Any]", STRATEGIES), "utility", entry)
    for _ in range(3):
        asked.control("explain", vm="0")
        asked.control("explain", vm="1")
    assert len(calls) == 1


def test_markets_by_bids_know_no_utility() -> None:
    """The sentence names the strategy, and VMs are explained by bids."""
    frontend = Frontend(hosts=1)
    frontend.vm(1.0, MERKAT_APPLICATION=3)
    asked = Interfaces(frontend)
    asked.periods(2)
    assert asked.control("explain", vm="0")["standing"] is None
    frontend.close()
