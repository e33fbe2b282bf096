"""Conditions for the start or resumption of a platform."""

from dataclasses import replace
from typing import Any

import pytest

from merkatd.base.quantities import LATEST_S
from merkatd.database.fleets.platform_store import PlatformRow
from merkatd.platforms.lifecycle.funds import terms_of
from merkatd.platforms.lifecycle.template_reader import read_template
from merkatd.platforms.rules.start_conditions import (
    TEMPER,
    MarketOffer,
    StartAnswer,
    Terms,
    judge_start,
    limit_of,
)
from merkatd.policies.deadline import Funds
from merkatd.policies.patience import limit_price, need_of
from merkatd.policies.suspension import REST
from tests.platforms.site import VM, template

NOW_S, INTERVAL_S = 1_000_000.0, 60.0
PURSE = Funds(credits=1_000.0)


def offer(cpu: float = 0.01, memory: float = 0.001) -> MarketOffer:
    """Return the offer of a cloud of eight cores."""
    return MarketOffer(
        now_s=NOW_S,
        interval_s=INTERVAL_S,
        prices={"cpu": cpu, "memory": memory},
        capacity={"cpu": 800.0, "memory": 16_384.0},
    )


def terms(
    kind: str = "deadline", slo: str = "", start: str = "", parameters: str = "", **stored: Any
) -> Terms:
    """Return the terms of a platform of two VMs of two cores and 1,024 MiB."""
    controller = f'[controller]\nkind = "{kind}"\nparameters = {{ {parameters} }}'
    text = template(controller=controller, slo=slo, start=start)
    known: dict[str, Any] = {
        "token": "1",
        "owner": 2,
        "name": "weather",
        "account": None,
        "template": text,
        "vm_templates": {"nodes": VM},
        "state": "suspended",
        "why": "",
        "submitted_s": 0.0,
        "since_s": 0.0,
        "deadline_s": NOW_S + 6_000.0,
        "sizes": {"nodes": 2},
    }
    row = PlatformRow(**(known | stored))
    return terms_of(row, read_template(text), PURSE)


@pytest.mark.parametrize("name", ["cpu", "memory"])
def test_each_resource_has_its_price_ceiling(name: str) -> None:
    """Above a ceiling the platform waits, and its reason names the resource."""
    ceiling = {"cpu": 0.02, "memory": 0.002}[name]
    asked = terms(start=f"[start.price_ceiling]\n{name} = {ceiling}")
    assert judge_start(asked, offer()).answer is StartAnswer.START
    judgement = judge_start(asked, offer(**{name: 1.5 * ceiling}))
    assert judgement.answer is StartAnswer.WAIT
    assert judgement.why.startswith(f"{name} costs")
    assert f"{name} at" in judgement.needs


def test_finished_work_needs_no_more_time() -> None:
    """With half of the work done, half of the ideal run remains."""
    slo = '[slo]\nideal_run = "3h"'
    assert judge_start(terms(slo=slo), offer()).answer is StartAnswer.CANCEL
    half_done = terms(slo=slo, report={"done": 0.5})
    assert half_done.ideal_s == 5_400.0
    assert judge_start(half_done, offer(0.0001, 0.0)).answer is StartAnswer.START
    assert terms(slo=slo, report={"done": 2.0}).ideal_s == 0.0


def test_without_an_ideal_run_the_controllers_estimate_counts() -> None:
    """The controller uses the same estimate, and would otherwise suspend the platform at once."""
    assert terms().ideal_s is None
    learned = terms(report={"done": 0.5, "work_left_s": 3_000.0})
    assert learned.ideal_s == 3_000.0
    assert judge_start(learned, offer(0.001, 0.0001)).answer is StartAnswer.START
    assert judge_start(learned, offer(1.0)).answer is StartAnswer.WAIT


def test_late_work_with_partial_value_continues_at_any_price() -> None:
    """It was suspended, and less time remains than the ideal run."""
    slo = '[slo]\nideal_run = "3h"'
    performing = judge_start(terms("full_performance", slo), offer())
    assert performing.answer is StartAnswer.CANCEL
    partial = terms("partial_deadline", slo)
    assert judge_start(partial, offer()).answer is StartAnswer.START
    dear = judge_start(partial, offer(100.0))
    assert dear.answer is StartAnswer.WAIT
    assert "needs 30%" in dear.why
    assert (
        judge_start(terms("deadline", f"{slo}\ngive_up = false"), offer(100.0)).answer
        is StartAnswer.START
    )


def test_lower_prices_are_awaited_as_long_as_time_allows() -> None:
    """Work with partial value starts when more waiting would make it late."""
    slo, start = '[slo]\nideal_run = "1h"\ngive_up = false', "[start.price_ceiling]\ncpu = 0.001"
    dear = offer(0.002, 0.0)
    for left_s, answer in (
        (3_660.0, StartAnswer.WAIT),
        (3_600.0, StartAnswer.START),
        (60.0, StartAnswer.START),
    ):
        asked = terms("deadline", slo, start, deadline_s=NOW_S + left_s)
        assert judge_start(asked, dear).answer is answer
    never = terms("deadline", slo, start, deadline_s=None)
    assert judge_start(never, dear).answer is StartAnswer.WAIT
    given_up = terms("deadline", '[slo]\nideal_run = "1h"', start, deadline_s=NOW_S + 3_600.0)
    assert judge_start(given_up, dear).answer is StartAnswer.WAIT


@pytest.mark.parametrize("kind", ["partial_deadline", "full_performance"])
def test_a_platform_waits_for_its_least_part(kind: str) -> None:
    """Its parameter sets the least part."""
    asked = terms(kind)
    assert asked.least_part == 0.3
    assert judge_start(asked, offer(1.0)).answer is StartAnswer.WAIT
    modest = terms(kind, parameters="least_part = 0.01")
    assert judge_start(modest, offer(1.0)).answer is StartAnswer.START
    assert terms("deadline").least_part is None


def test_a_patient_platforms_limit_is_its_credits_over_its_work() -> None:
    """It takes half of the market: its limit is that of the policy, for all that it needs."""
    asked = terms(slo='[slo]\nideal_run = "1h"')
    price = limit_price(need_of(PURSE, 400.0, 800.0, 3_600.0, 6_000.0), INTERVAL_S, TEMPER)
    assert limit_of(asked, offer()) == pytest.approx(400.0 * price)
    assert limit_of(asked, offer()) * 60 < PURSE.credits
    whole = terms("patient", slo='[slo]\nideal_run = "100m"')
    assert limit_of(whole, offer()) == pytest.approx(5.0 * 3_600.0 / 6_000.0)
    assert limit_of(terms(), offer()) == limit_of(whole, offer())
    assert limit_of(replace(asked, deadline_s=None), offer()) == 0.0
    assert limit_of(replace(asked, full={}), offer()) == 0.0
    assert limit_of(asked, replace(offer(), capacity=None)) == 0.0


def test_a_patient_platform_waits_for_no_price() -> None:
    """Its limit order does, and needs no rest between two runs."""
    asked = terms("patient", slo='[slo]\nideal_run = "1h"', since_s=NOW_S)
    assert judge_start(asked, offer(1e6)).answer is StartAnswer.START
    late = terms("patient", slo='[slo]\nideal_run = "2h"')
    assert judge_start(late, offer()).answer is StartAnswer.CANCEL


def test_a_platform_rests_after_a_suspension() -> None:
    """Its reason has the remaining time."""
    asked = terms(since_s=NOW_S - 4 * INTERVAL_S)
    judgement = judge_start(asked, offer())
    assert (judgement.answer, judgement.needs) == (StartAnswer.WAIT, "6 min more")
    rested = terms(since_s=NOW_S - REST * INTERVAL_S)
    assert judge_start(rested, offer()).answer is StartAnswer.START
    started = terms(since_s=NOW_S, state="postponed")
    assert judge_start(started, offer()).answer is StartAnswer.START


def test_resuming_needs_more_credits_than_starting() -> None:
    """At the same prices the platform would start, but is not resumed yet."""
    slo = '[slo]\nideal_run = "50m"'

    def answer(state: str, credits_: float) -> StartAnswer:
        asked = replace(terms(slo=slo, state=state), purse=Funds(credits=credits_))
        return judge_start(asked, offer()).answer

    least = next(c for c in range(1, 10_000) if answer("postponed", c) is StartAnswer.START)
    assert answer("suspended", least) is StartAnswer.WAIT
    assert answer("suspended", 1.2 * least) is StartAnswer.WAIT
    assert answer("suspended", 1.3 * least) is StartAnswer.START


@pytest.mark.parametrize(("reported", "counted"), [(1.7e308, LATEST_S), (-5.0, 0.0), (90.0, 90.0)])
def test_an_impossible_report_of_the_work_left_ends_no_period(
    reported: float, counted: float
) -> None:
    """The search for the least deadline ends, whatever a controller has reported."""
    known = terms(
        "full_performance", slo="[slo]\nperformance = 5", report={"work_left_s": reported}
    )
    assert known.ideal_s == counted
    verdict = judge_start(replace(known, purse=Funds(credits=0.0)), offer())
    assert verdict.answer is not StartAnswer.START
