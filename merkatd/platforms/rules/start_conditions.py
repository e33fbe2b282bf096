"""The conditions under which a platform starts or resumes, and the needs if they are not met.

The speed of the work is assumed to be proportional to the part of their full size that its VMs get.
The rule for suspending and resuming is in `merkatd/policies/suspension.py`, which controllers use
as well: it says whether a platform can pay for the part that it needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import ceil, inf

from merkatd.base.quantities import LATEST_S, amount_text, credits_text, duration_text, utc_text
from merkatd.policies.deadline import Funds
from merkatd.policies.horizontal import Prices
from merkatd.policies.patience import PatienceSettings, most_credits, share_of
from merkatd.policies.suspension import Case, can_pay, cost, payable_part, rest_left_s, spending
from merkatd.protocol.platform_messages import Amounts

TEMPER = PatienceSettings()
_JUST, _LONGEST = 1e-10, 1e9
"""The relative precision of the least deadline, and its limit as a multiple of the ideal run."""


class StartAnswer(StrEnum):
    """The decision on a platform that waits or is suspended."""

    START = "start"
    WAIT = "wait"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class StartVerdict:
    """A decision, its reason, and the needs that would change it."""

    answer: StartAnswer
    why: str = ""
    needs: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """A platform's terms for its start or resumption."""

    deadline_s: float | None = None
    ideal_s: float | None = None
    """The least time for the rest of its work."""
    give_up: bool = True
    not_before_s: float | None = None
    latest_s: float | None = None
    price_ceiling: Amounts
    full: Amounts
    """The full size of all its VMs together: units by resource."""
    purse: Funds
    patient: bool = False
    """Whether it starts at once and states a limit order instead of waiting for a price."""
    least_part: float | None = None
    """The part of its VMs' full size that it needs, if its kind tracks an allocation."""
    suspended_s: float | None = None
    """The time of its suspension on the daemon's clock; None if it is not suspended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketOffer:
    """The market's present offer."""

    now_s: float
    interval_s: float
    prices: Amounts | None
    """The prices of the platform's market; None before the first period."""
    capacity: Amounts | None = None
    """The capacity of the platform's market; None if unknown: its own bids then move no price."""
    reserve: Amounts = field(default_factory=dict)
    """The reserve prices of its market."""
    advance_periods: float = 1.0
    """The number of periods that an account must be able to pay in advance."""
    free: bool = False
    """Whether nothing costs anything there, so that a platform needs no credits."""


def judge_start(terms: Terms, offer: MarketOffer) -> StartVerdict:
    """Return the decision of the first unmet condition; START if all are met.

    Conditions that waiting can't fulfil come first.
    """
    for check in _TIMELY if offer.free else (*_TIMELY, *_PRICED):
        verdict = check(terms, offer)
        if verdict is not None:
            return verdict
    return StartVerdict(StartAnswer.START)


def cost_of_all(terms: Terms, offer: MarketOffer) -> float:
    """Return the credits per period for the full size of its VMs at present prices."""
    prices: Mapping[str, float] = offer.prices or {}
    return sum(
        prices.get(name, 0.0) * amount for name, amount in terms.full.items() if amount > 0.0
    )


def credits_needed(terms: Terms, offer: MarketOffer) -> float:
    """Return the cost of all its work at present prices, which does not depend on the speed."""
    return cost_of_all(terms, offer) * (terms.ideal_s or 0.0) / offer.interval_s


def least_deadline_s(terms: Terms, offer: MarketOffer) -> float | None:
    """Return the least affordable time for the work at present prices; None if there is none.

    With more time the work needs a smaller part of the market, and its own bids raise the price
    less. So if some time is affordable, any longer time is affordable too.
    """
    ideal_s = terms.ideal_s or 0.0
    fails = ideal_s
    case = case_of(terms, offer, ideal_s)

    def pays_within(left_s: float) -> bool:
        return can_pay(replace(case, left_s=left_s))

    if ideal_s == 0.0 or pays_within(ideal_s * (1 + _JUST)):
        return ideal_s
    fits = 2.0 * ideal_s
    while not pays_within(fits):
        fails, fits = fits, 2.0 * fits
        if fits > _LONGEST * ideal_s:
            return None
    while fits - fails > _JUST * fits:
        tried = (fails + fits) / 2
        if pays_within(tried):
            fits = tried
        else:
            fails = tried
    return fits


def case_of(terms: Terms, offer: MarketOffer, left_s: float | None = None) -> Case:
    """Return the input of the suspension rule; the default of `left_s` is the time to deadline."""
    names = [name for name, amount in terms.full.items() if amount > 0.0]
    if left_s is None:
        left_s = inf if terms.deadline_s is None else terms.deadline_s - offer.now_s
    prices, capacity = offer.prices or {}, offer.capacity or {}
    since_s = inf if terms.suspended_s is None else abs(offer.now_s - terms.suspended_s)
    return Case(
        purse=terms.purse,
        left_s=left_s,
        work_s=terms.ideal_s,
        least_part=terms.least_part,
        full=[terms.full[name] for name in names],
        prices=Prices(
            others=tuple(prices.get(name, 0.0) for name in names),
            capacity=tuple(capacity.get(name, inf) for name in names),
        ),
        interval_s=offer.interval_s,
        since_s=since_s,
        suspended=terms.suspended_s is not None,
    )


def limit_of(terms: Terms, offer: MarketOffer) -> float:
    """Return the limit that a patient platform states now; 0 if unknown, or without credits.

    As long as the time for its work is unknown, it plans to work until its deadline.
    """
    if offer.capacity is None or terms.deadline_s is None:
        return 0.0
    left_s = terms.deadline_s - offer.now_s
    work_s = left_s if terms.ideal_s is None else terms.ideal_s
    share = share_of(terms.full, offer.capacity)
    least = least_cost(terms, offer)
    return most_credits(terms.purse, share, least, work_s, left_s, offer.interval_s, TEMPER)


def least_cost(terms: Terms, offer: MarketOffer) -> float:
    """Return the credits per period for the full size of its VMs at the reserve prices."""
    return sum(offer.reserve.get(name, 0.0) * amount for name, amount in terms.full.items())


def _begin_s(terms: Terms, offer: MarketOffer) -> float:
    return max(offer.now_s, terms.not_before_s or offer.now_s)


def too_late(terms: Terms, offer: MarketOffer) -> StartVerdict | None:
    """Cancel if less time than the ideal run is left: waiting can't help."""
    if terms.deadline_s is None:
        return None
    left_s = terms.deadline_s - _begin_s(terms, offer)
    ideal_s = terms.ideal_s or 0.0
    if left_s > 0 and (left_s >= ideal_s or not terms.give_up):
        return None
    first = (
        f"{duration_text(max(left_s, 0.0))} are left until its deadline, and the work takes"
        f" {duration_text(ideal_s)} at full speed"
    )
    return StartVerdict(StartAnswer.CANCEL, first, _what_deadline(terms, offer))


def _what_deadline(terms: Terms, offer: MarketOffer) -> str:
    """Describe the least deadline that could be met."""
    begin_s = _begin_s(terms, offer)
    least_s = terms.ideal_s or 0.0
    if offer.prices is not None:
        at_prices = least_deadline_s(terms, offer)
        if at_prices is None:
            needed = credits_text(credits_needed(terms, offer))
            return f"no deadline can be met at present prices with less than {needed} credits"
        least_s = at_prices
    # Work as a controller reports it can take any time.
    if begin_s + least_s > LATEST_S:
        return "no deadline before the year 2100 can be met"
    # The text has whole seconds: round up, as an earlier deadline could not be met.
    return f"the least deadline that could be met is {utc_text(ceil(begin_s + least_s))}"


def _check_latest(terms: Terms, offer: MarketOffer) -> StartVerdict | None:
    if terms.latest_s is None or _begin_s(terms, offer) <= terms.latest_s:
        return None
    why = f"it had to start by {utc_text(terms.latest_s)}"
    return StartVerdict(StartAnswer.CANCEL, why, "a later `start.latest`")


def _check_not_before(terms: Terms, offer: MarketOffer) -> StartVerdict | None:
    if terms.not_before_s is None or terms.not_before_s <= offer.now_s:
        return None
    needs = f"{duration_text(terms.not_before_s - offer.now_s)} more"
    return StartVerdict(
        StartAnswer.WAIT, f"it must not start before {utc_text(terms.not_before_s)}", needs
    )


def _check_prices_known(_terms: Terms, offer: MarketOffer) -> StartVerdict | None:
    if offer.prices is not None:
        return None
    return StartVerdict(StartAnswer.WAIT, "no price is known yet", "the end of a period")


def _check_ceilings(terms: Terms, offer: MarketOffer) -> StartVerdict | None:
    prices = offer.prices or {}
    dear = {
        name: ceiling
        for name, ceiling in terms.price_ceiling.items()
        if prices.get(name, 0.0) > ceiling
    }
    if not dear or _last_moment(terms, offer):
        return None
    why = ", ".join(f"{name} costs {amount_text(prices[name])}" for name in dear)
    needs = ", ".join(f"{name} at {amount_text(ceiling)} or less" for name, ceiling in dear.items())
    return StartVerdict(
        StartAnswer.WAIT, f"{why} per unit and period, above its price ceiling", needs
    )


def _last_moment(terms: Terms, offer: MarketOffer) -> bool:
    """Return whether work with value even if unfinished has no time to wait for lower prices."""
    if terms.give_up or terms.deadline_s is None:
        return False
    return terms.deadline_s - offer.now_s <= (terms.ideal_s or 0.0)


def _rested(terms: Terms, offer: MarketOffer) -> StartVerdict | None:
    if terms.patient:  # its limit order has a least run instead
        return None
    left_s = rest_left_s(case_of(terms, offer))
    if left_s == 0.0:
        return None
    return StartVerdict(
        StartAnswer.WAIT, "it was suspended a short time ago", f"{duration_text(left_s)} more"
    )


def _affordable(terms: Terms, offer: MarketOffer) -> StartVerdict | None:
    if terms.patient:  # its limit order is already bounded by its credits
        return None
    case = case_of(terms, offer)
    if can_pay(case):
        return None
    if terms.least_part is None:
        return _too_dear_in_time(terms, offer, case)
    there = spending(case.purse, case.left_s, case.interval_s) / case.margin
    part = payable_part(there, case.full, case.prices)
    why = (
        f"at present prices it can pay for {part:.0%} of its VMs' full size, and needs"
        f" {terms.least_part:.0%}"
    )
    return StartVerdict(StartAnswer.WAIT, why, "lower prices, or more credits")


def _too_dear_in_time(terms: Terms, offer: MarketOffer, case: Case) -> StartVerdict:
    periods = case.left_s / offer.interval_s
    needed = case.margin * periods * cost(min(case.needed, 1.0), case.full, case.prices)
    why = (
        f"at present prices the work takes {credits_text(needed)} credits, and it has"
        f" {credits_text(terms.purse.credits)}"
    )
    if terms.purse.renewal > 0:
        had = terms.purse.credits + terms.purse.renewal * case.left_s / terms.purse.renewal_s
        why += f" now and {credits_text(had)} by its deadline"
    needs = f"lower prices, {credits_text(needed)} credits, or another deadline: "
    return StartVerdict(StartAnswer.WAIT, why, needs + _what_deadline(terms, offer))


_TIMELY = (too_late, _check_latest, _check_not_before)
_PRICED = (_check_prices_known, _check_ceilings, _rested, _affordable)
