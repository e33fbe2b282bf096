"""Under `clearing` a quote equals the later charge, to the micro-credit."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import ensureDeferred

from merkatd.cluster import Snapshot, VmState
from merkatd.currency import MICRO
from merkatd.market.quote import Quotes
from merkatd.placement.contract import Pricing
from merkatd.placement.tabu.paper import MarketSettings, paper
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.charging.owed_amounts import owed_by_vm
from tests.clouds import crowded, tangled
from tests.lengths import pair
from tests.scheduler.frontend import Frontend
from tests.served import questions_at

PRICING = Pricing(reserve={"cpu": 0.001, "memory": 1e-5})
RESERVE = PRICING.reserve_prices(("cpu", "memory"))


def still(snapshot: Snapshot) -> Snapshot:
    """Return the same cloud without waiting or movable VMs, so that only the bid changes."""
    vms = snapshot.vms
    waits = vms.state == VmState.PENDING
    state = np.where(waits, int(VmState.ABSENT), vms.state)
    fixed = np.zeros(len(vms), dtype=bool)
    return replace(snapshot, vms=replace(vms, state=state, movable=fixed))


def charge_for(snapshot: Snapshot, row: int) -> int:
    """Return the daemon's charge for this VM in the current period, in micro-credits."""
    settings_ = MarketSettings(pricing=PRICING)
    decision = paper(snapshot, settings_, {}, np.random.default_rng(0))
    vms = snapshot.vms
    runs = np.isin(vms.state, (VmState.RUNNING, VmState.BUSY))
    arrays: dict[str, Any] = {
        "vm": vms.id,
        "market": vms.market,
        "owner": vms.owner,
        "bid": vms.bid,
        "floor": vms.floor,
        "allocation": decision.allocations,
        "price": decision.prices,
        "runs": runs & (vms.host >= 0),
    }
    markets = [MarketRules(name=name, pricing=PRICING) for name in snapshot.markets.name]
    rows, owed, *_ = owed_by_vm(arrays, vms.id[runs], 1.0, markets)
    owed_micro: int = owed[rows.tolist().index(row)].sum()
    return owed_micro


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    pick=st.floats(0, 1, exclude_max=True),
    bid=st.tuples(*[st.one_of(st.just(0.0), st.floats(1e-6, 1e3))] * 2),
)
def test_a_quote_equals_the_charge(seed: int, pick: float, bid: tuple[float, float]) -> None:
    """This holds on clouds with every kind of host, VM and state."""
    snapshot = still(tangled(seed) if seed % 2 else crowded(4, seed))
    vms, hosts = snapshot.vms, snapshot.hosts
    here = np.where(vms.host >= 0, hosts.market[vms.host], -1)
    mine = (here == 0) & (vms.market == 0) & np.isin(vms.state, (VmState.RUNNING, VmState.BUSY))
    rows = np.flatnonzero(mine)
    if not len(rows):
        return
    row = int(rows[int(pick * len(rows))])
    quotes = Quotes.of(snapshot, 0, vms.host, PRICING.rule, RESERVE)
    place = quotes.place_of(row)
    if place is None:
        return
    quoted = [round(quote.cost * MICRO) for quote in quotes.quote(place, bid)]
    bids = vms.bid.copy()
    bids[row] = bid
    charged = charge_for(replace(snapshot, vms=replace(vms, bid=bids)), row)
    assert abs(charged - sum(quoted)) <= 2, (charged, quoted)
    most = np.maximum(bid, RESERVE * np.array(place.floor)).sum()
    assert charged <= round(most * MICRO) + 2


@pytest.mark.parametrize(("claim", "others"), pair([300, 800], [(20.0, 20.0), (5.0, 20.0, 20.0)]))
def test_a_quote_for_a_vm_with_a_claim_equals_what_the_bid_gets(
    claim: int, others: tuple[float, ...]
) -> None:
    """The quoted bid bounds the claim, not the present one."""
    frontend = Frontend(hosts=1, markets=(MarketRules(pricing=PRICING),))
    ann, bob = frontend.user("ann"), frontend.user("bob")
    vm = frontend.vm(79.0, owner=ann, VCPU=8, MERKAT_MIN_CPU=claim)
    for bid in others:
        frontend.vm(bid, owner=bob, VCPU=8)
    questions = questions_at(frontend.scheduler)

    def ask(what: str, **arguments: Any) -> Any:
        return frontend.result(ensureDeferred(questions.answer(what, arguments)))

    def cpu(answer: Any) -> Any:
        return answer["resources"][0]

    frontend.scheduler.latest = frontend.periods(4)
    for bid in (1.0, 20.0, 0.0, 60.0):
        quoted = cpu(ask("quote", vm=str(vm), cpu=bid))
        ask("bid", vm=str(vm), cpu=bid)
        frontend.scheduler.latest = frontend.periods(2)
        got = cpu(ask("explain", vm=str(vm)))
        assert quoted["share"] == pytest.approx(got["share"], rel=1e-6, abs=1e-6)
        assert quoted["price"] == pytest.approx(got["price"], rel=1e-6)
    wish = cpu(ask("quote", vm=str(vm), want_cpu=100.0))
    assert wish["bid"] > 1.0
    ask("bid", vm=str(vm), cpu=wish["bid"])
    frontend.scheduler.latest = frontend.periods(2)
    assert cpu(ask("explain", vm=str(vm)))["share"] == pytest.approx(100.0, rel=1e-4)


def test_a_claim_of_a_new_vm_needs_a_bid() -> None:
    """Beside four bids of 20 no VM gets half of a host for free."""
    frontend = Frontend(hosts=1, markets=(MarketRules(pricing=PRICING),))
    bob = frontend.user("bob")
    for _ in range(4):
        frontend.vm(20.0, owner=bob, VCPU=8)
    questions = questions_at(frontend.scheduler)
    frontend.scheduler.latest = frontend.periods(4)

    def quote(**arguments: float) -> Any:
        asked = questions.answer("quote", {"least_cpu": 200.0, "most_cpu": 400.0} | arguments)
        return frontend.result(ensureDeferred(asked))["resources"][0]

    assert quote(cpu=0.0)["share"] == 0
    assert quote(want_cpu=200.0)["bid"] == pytest.approx(80.0, rel=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_the_bid_quoted_for_a_wanted_share_costs_what_the_quote_said(seed: int) -> None:
    """`quote --want-cpu`, the bid it names, and the ledger of the next period agree."""
    rng = np.random.default_rng(seed)
    frontend = Frontend(hosts=1, markets=(MarketRules(pricing=PRICING),))
    ann = frontend.user("ann")
    vm = frontend.vm(1.0, owner=ann, VCPU=4)
    for bid in rng.uniform(0.5, 5.0, 1 + seed):
        frontend.vm(round(float(bid), 3), VCPU=4)
    questions = questions_at(frontend.scheduler)
    frontend.scheduler.latest = frontend.periods(4)

    def ask(what: str, **arguments: Any) -> Any:
        return frontend.result(ensureDeferred(questions.answer(what, arguments)))

    quoted = ask("quote", vm=str(vm), want_cpu=150.0)
    bid = quoted["resources"][0]["bid"]
    ask("bid", vm=str(vm), cpu=bid)
    owner = int(frontend.bench.vm(vm).uid)
    frontend.periods(2)
    before = frontend.balances()[owner]
    frontend.periods(1)
    cost = before - frontend.balances()[owner]
    assert cost == pytest.approx(quoted["cost"], abs=2.5e-6)
    assert quoted["resources"][0]["cost"] <= bid + 1e-6
    frontend.close()
