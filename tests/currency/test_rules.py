"""The rules of money: credits are conserved, and no tenant gets more than its rule allows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.currency import micro, solvency
from merkatd.currency.credits import (
    Month,
    divided_exactly,
    divided_rounding_down,
    month_of,
    parse_month,
)
from merkatd.currency.income import (
    Prices,
    Refill,
    RenewalPart,
    SupplyPolicy,
    entitlements,
    incomes,
    replenishments,
    supply_change,
)
from merkatd.currency.solvency import STAGES_S, affordable_bids, time_until_empty, warning_stage

AMOUNTS = st.integers(0, 10**18)
WEIGHTS = st.floats(0, 1e6, allow_nan=False)
TENANTS = st.lists(st.tuples(WEIGHTS, AMOUNTS), max_size=8).map(
    lambda rows: [RenewalPart(owner, *row) for owner, row in enumerate(rows)]
)


class TestRenewals:
    @given(supply=AMOUNTS, treasury=AMOUNTS, tenants=TENANTS)
    def test_renewals_pay_no_more_than_the_treasury_holds(
        self, supply: int, treasury: int, tenants: list[RenewalPart]
    ) -> None:
        """No tenant exceeds its entitlement, and no income is negative."""
        paid = incomes(supply, treasury, tenants)
        entitled = entitlements(supply, tenants)
        assert sum(paid.values()) <= treasury
        assert sum(entitled.values()) <= supply
        for tenant in tenants:
            assert 0 <= paid[tenant.owner] <= max(0, entitled[tenant.owner] - tenant.holdings)

    @given(supply=AMOUNTS, tenants=TENANTS)
    def test_a_full_treasury_pays_up_to_the_exact_entitlement(
        self, supply: int, tenants: list[RenewalPart]
    ) -> None:
        """A second renewal immediately afterwards pays nothing."""
        paid = incomes(supply, supply + 10**19, tenants)
        after = [RenewalPart(t.owner, t.weight, t.holdings + paid[t.owner]) for t in tenants]
        entitled = entitlements(supply, tenants)
        assert all(t.holdings >= entitled[t.owner] for t in after)
        assert not any(incomes(supply, 10**19, after).values())

    @given(supply=AMOUNTS, tenants=TENANTS, more=WEIGHTS)
    def test_a_larger_weight_never_gets_less(
        self, supply: int, tenants: list[RenewalPart], more: float
    ) -> None:
        """This holds against the tenant's own smaller weight, and against other tenants."""
        entitled = entitlements(supply, tenants)
        for tenant in tenants:
            for other in tenants:
                assert (
                    tenant.weight < other.weight or entitled[tenant.owner] >= entitled[other.owner]
                )
        if tenants:
            first = tenants[0]
            raised = [RenewalPart(first.owner, first.weight + more, first.holdings), *tenants[1:]]
            assert entitlements(supply, raised)[first.owner] >= entitled[first.owner]

    def test_a_short_treasury_pays_all_tenants_the_same_fraction(self) -> None:
        """With weights 3 and 1, each tenant gets half of its missing credits."""
        tenants = [RenewalPart(1, 3.0, 0), RenewalPart(2, 1.0, 0)]
        assert incomes(1000, 1000, tenants) == {1: 750, 2: 250}
        assert incomes(1000, 501, tenants) == {1: 375, 2: 125}

    def test_zero_weights_pay_nothing(self) -> None:
        """If all weights are zero, no tenant is paid."""
        assert incomes(1000, 1000, [RenewalPart(1, 0.0, 0)]) == {1: 0}


class TestParts:
    @given(amounts=st.lists(AMOUNTS, min_size=1, max_size=8), part=st.floats(0, 1))
    def test_an_exact_division_is_complete_and_within_each_amount(
        self, amounts: list[int], part: float
    ) -> None:
        """The parts add up to the total, and each is within a micro-credit of its exact value."""
        total = min(int(sum(amounts) * part), sum(amounts))
        dealt = divided_exactly(total, amounts)
        assert sum(dealt) == total
        assert dealt == divided_exactly(total, amounts)
        for got, amount in zip(dealt, amounts, strict=True):
            assert 0 <= got <= amount
            if sum(amounts):
                assert abs(got * sum(amounts) - total * amount) < sum(amounts)

    @given(total=AMOUNTS, weights=st.dictionaries(st.integers(0, 9), WEIGHTS))
    def test_rounding_down_leaves_less_than_one_per_part(
        self, total: int, weights: dict[int, float]
    ) -> None:
        """The remainder is smaller than the number of parts."""
        left = total - sum(divided_rounding_down(total, weights).values())
        assert 0 <= left < max(len(weights), 1) or not any(weights.values())

    def test_an_impossible_total_is_an_error(self) -> None:
        """A total below 0 or above the sum raises an error."""
        for total in (-1, 4):
            with pytest.raises(ValueError, match="must be between 0 and the sum"):
                divided_exactly(total, [1, 2])


@given(
    purse=AMOUNTS,
    budgets=st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), max_size=6),
)
def test_replenishment_never_exceeds_a_budget(
    purse: int, budgets: list[tuple[int, int, int]]
) -> None:
    """A replenishment takes at most the tenant's credits and adds at most the chosen amount."""
    refills = [Refill(number, *row) for number, row in enumerate(budgets)]
    moved = replenishments(purse, refills)
    assert sum(moved.values()) <= purse
    for refill in refills:
        assert 0 <= moved[refill.application] <= refill.amount
        assert refill.balance + moved[refill.application] <= max(refill.balance, refill.initial)


@st.composite
def markets(draw: st.DrawFn) -> tuple[np.ndarray, ...]:
    """Draw bids, floors, prices, payers and balances."""
    vms, payers = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    numbers = st.floats(0, 1e9)

    def table() -> np.ndarray:
        rows = draw(st.lists(st.tuples(numbers, numbers), min_size=vms, max_size=vms))
        return np.array(rows)

    who = draw(st.lists(st.integers(-1, payers - 1), min_size=vms, max_size=vms))
    balances = draw(st.lists(numbers, min_size=payers, max_size=payers))
    return table(), table(), table() / 1e9, np.array(who), np.array(balances)


class TestAffordableBids:
    @given(market=markets())
    def test_affordable_bids_can_be_paid(self, market: tuple[np.ndarray, ...]) -> None:
        """Bids are never raised, lowered equally, and unchanged for solvent payers."""
        bids, floors, prices, payers, balances = market
        lowered = affordable_bids(*market)
        assert (lowered <= bids).all()
        assert (lowered >= 0).all()
        least = np.where(floors > 0, prices * floors, 0.0)
        for payer, balance in enumerate(balances):
            mine = payers == payer
            if np.maximum(bids, least)[mine].sum() <= balance * (1 - 1e-12):
                assert (lowered[mine] == bids[mine]).all()
            elif least[mine].sum() <= balance:
                assert np.maximum(lowered, least)[mine].sum() <= balance * (1 + 1e-12)
            asked = mine[:, np.newaxis] & (bids > 1e-3)
            parts = lowered[asked] / bids[asked]
            assert parts.size == 0 or np.ptp(parts) < 1e-9
        assert (lowered[payers < 0] == bids[payers < 0]).all()

    def test_a_payer_with_half_the_credits_bids_half(self) -> None:
        """The other payer's bids stay unchanged."""
        bids = np.array([[6.0, 2.0], [3.0, 1.0]])
        nothing = np.zeros_like(bids)
        lowered = affordable_bids(bids, nothing, nothing, np.array([0, 1]), np.array([4.0, 4.0]))
        assert lowered == pytest.approx(np.array([[3.0, 1.0], [3.0, 1.0]]))

    def test_floors_are_paid_before_bids(self) -> None:
        """Credits that the floor costs are not available for bids."""
        bids, floors = np.array([[10.0, 0.0]]), np.array([[0.0, 100.0]])
        prices = np.array([[1.0, 0.03]])
        lowered = affordable_bids(bids, floors, prices, np.array([0]), np.array([5.0]))
        assert lowered[0] == pytest.approx([2.0, 0.0])


class TestArrears:
    def test_a_debtor_is_suspended_after_ten_periods(self) -> None:
        """Warnings start at the first period; payment clears the count, a pause keeps it."""
        counts: dict[int, float] = {}
        for period in range(1, 11):
            assert not solvency.due_for_suspension(counts)
            counts = solvency.arrears_after(counts, {7}, {7})
            assert counts == {7: period}
            assert solvency.warning(period, 1.5)
        assert solvency.due_for_suspension(counts) == {7}
        assert solvency.arrears_after(counts, set(), {7}) == {7: 10}
        assert solvency.arrears_after(counts, {7}, {7}) == {7: 11}
        assert solvency.arrears_after(counts, set(), set()) == {}

    def test_short_periods_count_by_their_length(self) -> None:
        """Six periods of ten seconds count as one of a minute; small deviations do not matter."""
        counts: dict[int, float] = {}
        for _ in range(57):
            assert not solvency.due_for_suspension(counts)
            counts = solvency.arrears_after(counts, {7}, {7}, 1 / 6)
        assert solvency.due_for_suspension({7: 9.99}) == {7}
        assert "suspended in 1 period unless" in solvency.warning(9.2, 1.5)
        assert "suspended in 10 periods unless" in solvency.warning(1 / 6, 1.5)
        assert "in full for 10 periods" in solvency.warning(9.99, 1.5)

    def test_arrears_count_separately_for_each_owner(self) -> None:
        """An owner without debt is removed; another owner's count continues."""
        assert solvency.arrears_after({7: 4, 8: 2}, {8}, {8}) == {8: 3}

    def test_arrears_messages_name_the_debt(self) -> None:
        """The messages name the amount owed and the consequence."""
        assert "owes 1.5 credits" in solvency.warning(9, 1.5)
        assert "suspended in 1 period unless" in solvency.warning(9, 1.5)
        assert "resume it once the debt is paid" in solvency.warning(10, 1.5)
        assert "not placed: its owner owes 1.5 credits" in solvency.refusal(1.5)


class TestWarnings:
    def test_each_stage_of_warnings_is_reached_once(self) -> None:
        """While credits run out, each stage appears once, from days to nothing."""
        left = [time_until_empty(balance, 1.0, 60.0) for balance in range(3000, -1, -1)]
        stages = [warning_stage(left_s) for left_s in left]
        changes = [now for now, before in zip(stages[1:], stages, strict=False) if now != before]
        assert [stages[0], *changes] == [None, *reversed(STAGES_S)]
        assert warning_stage(time_until_empty(5, 0.0, 60.0)) is None


class TestSupply:
    POLICY = SupplyPolicy(enabled=True, days=2, drift_part=0.2, step_part=0.1)

    def days(self, *prices: float) -> list[Prices]:
        """Return the same market's price on several days."""
        return [{("default", "cpu"): price, ("default", "memory"): price} for price in prices]

    def test_stable_prices_leave_the_supply_unchanged(self) -> None:
        """A single outlier, a short history or a disabled policy change nothing either."""
        for prices in ((1, 1, 1, 1), (1, 1, 9, 1), (1, 9, 9), (1, 1, 1.1, 1.19)):
            assert supply_change(self.POLICY, 1000, 1000, self.days(*prices)) is None
        assert supply_change(SupplyPolicy(), 1000, 1000, self.days(1, 1, 9, 9) * 7) is None

    def test_lasting_price_changes_adjust_the_supply(self) -> None:
        """Rising prices lower the supply by one step, falling ones raise it; the reason says so."""
        down = supply_change(self.POLICY, 1000, 1000, self.days(1, 1, 1.5, 1.5))
        assert down is not None
        assert (down.old, down.new) == (1000, 900)
        assert "risen by 50%" in down.reason
        assert "lowered by 10.0%" in down.reason
        up = supply_change(self.POLICY, 1000, 900, self.days(1, 1, 0.5, 0.5))
        assert up is not None
        assert up.new == 990

    def test_resources_without_a_price_on_earlier_days_do_not_count(self) -> None:
        """A resource that was not sold or cost nothing before has no ratio of prices."""
        days = self.days(1, 1, 1.5, 1.5)
        for day, before in ((0, {}), (1, {("default", "disk"): 0.0})):
            others = [dict(day) | {("default", "disk"): 1.0} for day in days]
            others[day] = dict(days[day]) | before
            change = supply_change(self.POLICY, 1000, 1000, others)
            assert change is not None
            assert "risen by 50%" in change.reason

    @given(
        supply=st.integers(500, 2000),
        prices=st.lists(st.floats(1e-6, 1e6), min_size=4, max_size=9),
    )
    def test_the_supply_stays_within_its_bounds(self, supply: int, prices: list[float]) -> None:
        """The supply stays between half and twice the configured one, whatever prices do."""
        change = supply_change(self.POLICY, 1000, supply, self.days(*prices))
        assert change is None or 500 <= change.new <= 2000


class TestMonths:
    @given(at_s=st.floats(0, 4e9))
    def test_each_time_is_in_its_month(self, at_s: float) -> None:
        """Months follow each other without gaps."""
        month = month_of(at_s)
        assert month.begin_s <= at_s < month.end_s
        assert month.end_s == month.next.begin_s
        assert parse_month(str(month)) == month

    @pytest.mark.parametrize("text", ["2026", "2026-0", "2026-13", "1-1", "x-1", "-", "2026-05-01"])
    def test_an_invalid_month_is_an_error(self, text: str) -> None:
        """The error shows an example of a valid month."""
        with pytest.raises(ValueError, match="a month must look like 2026-05"):
            parse_month(text)

    def test_december_is_followed_by_january(self) -> None:
        """The month after December is January of the next year."""
        assert Month(2026, 12).next == Month(2027, 1)
        last = parse_month("9998-12")
        assert last.begin_s < last.end_s


@pytest.mark.parametrize("amount", [float("nan"), float("inf"), 1e13, -1e13])
def test_an_invalid_amount_is_an_error(amount: float) -> None:
    """NaN, infinity and amounts beyond the maximum raise an error."""
    with pytest.raises(ValueError, match="must be within"):
        micro(amount)
