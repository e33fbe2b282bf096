"""Whether a platform may start, or resume, now; if not, why, and what would be needed.

The work is taken to go as fast as what its VMs get of all they can use, and each period to cost
the present price of what they get: what a platform has to spend until its deadline then says
how fast it can go. Deadlines and grace are the policies' own (section 3.1.1).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, inf, isfinite

from controllers.policies.deadline import Purse, Verdict, Work, bid_max, verdict
from controllers.policies.patience import Book, Temper, limit_price, may_start, need_of
from merkatd.platforms.ports import Amounts
from merkatd.platforms.words import at, credit, lasting

CPU = "cpu"
TEMPER = Temper()


class Answer(StrEnum):
    """What is to become of it now."""

    START = "start"
    WAIT = "wait"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer, why, and what would be needed."""

    answer: Answer
    why: str = ""
    needs: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a platform asks of the moment in which it starts."""

    deadline_s: float | None = None
    ideal_s: float | None = None
    """For what is left of its work."""
    give_up: bool = True
    not_before_s: float | None = None
    latest_s: float | None = None
    price_ceiling: Amounts
    full: Amounts
    """All that its VMs can use together: units by resource."""
    purse: Purse
    patient: bool = False
    """Whether it waits for room in the book of claims, and for nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What the cloud offers now."""

    now_s: float
    interval_s: float
    prices: Amounts | None
    """Of the platform's market, None where no period has set any."""
    book: Book | None = None
    """Of its market, as it was published last."""


def judged(terms: Terms, offer: Offer) -> Judged:
    """The first condition that is not met decides, those that waiting can't help come first."""
    for check in (_in_time, _not_too_late, _not_too_early, _priced, _cheap, _roomy, _affordable):
        found = check(terms, offer)
        if found is not None:
            return found
    return Judged(Answer.START)


def cost_of_all(terms: Terms, offer: Offer) -> float:
    """Credits for a period in which its VMs get all they can use, at present prices."""
    prices: Mapping[str, float] = offer.prices or {}
    return sum(
        prices.get(name, 0.0) * amount for name, amount in terms.full.items() if amount > 0.0
    )


def credits_needed(terms: Terms, offer: Offer) -> float:
    """What all its work costs at present prices: the same, however fast it goes."""
    return cost_of_all(terms, offer) * (terms.ideal_s or 0.0) / offer.interval_s


def least_deadline_s(terms: Terms, offer: Offer) -> float | None:
    """How long from now the work takes at least at present prices; None where no time is enough."""
    missing = credits_needed(terms, offer) - terms.purse.credits
    ideal_s = terms.ideal_s or 0.0
    if missing <= 0:
        return ideal_s
    if terms.purse.renewal <= 0 or not isfinite(missing):
        return None
    return max(ideal_s, missing * terms.purse.renewal_s / terms.purse.renewal)


def reachable_s(terms: Terms, offer: Offer, left_s: float) -> float:
    """How long the work would take, spending evenly until the deadline."""
    cost, ideal_s = cost_of_all(terms, offer), terms.ideal_s or 0.0
    if cost == 0:
        return ideal_s
    part = bid_max(terms.purse, left_s, offer.interval_s, 1) / cost
    return ideal_s / min(part, 1.0) if part > 0 else inf


def limit_of(terms: Terms, offer: Offer) -> float:
    """Up to which price of CPU a patient one would run now; 0 where it can't say."""
    units = terms.full.get(CPU, 0.0)
    if offer.book is None or terms.deadline_s is None or terms.ideal_s is None or units <= 0:
        return 0.0
    left_s = terms.deadline_s - offer.now_s
    need = need_of(terms.purse, units, offer.book.capacity, terms.ideal_s, left_s)
    return limit_price(need, offer.interval_s, TEMPER)


def _begin_s(terms: Terms, offer: Offer) -> float:
    return max(offer.now_s, terms.not_before_s or offer.now_s)


def _in_time(terms: Terms, offer: Offer) -> Judged | None:
    """Less time to the deadline than the ideal run time: waiting can't help."""
    if terms.deadline_s is None:
        return None
    left_s = terms.deadline_s - _begin_s(terms, offer)
    ideal_s = terms.ideal_s or 0.0
    if left_s > 0 and (left_s >= ideal_s or not terms.give_up):
        return None
    first = (
        f"{lasting(max(left_s, 0.0))} are left until its deadline, and the work takes"
        f" {lasting(ideal_s)} with all it can use"
    )
    return Judged(Answer.CANCEL, first, _what_deadline(terms, offer))


def _what_deadline(terms: Terms, offer: Offer) -> str:
    """The least deadline that could be met."""
    begin_s = _begin_s(terms, offer)
    least_s = terms.ideal_s or 0.0
    if offer.prices is not None:
        at_prices = least_deadline_s(terms, offer)
        if at_prices is None:
            needed = credit(credits_needed(terms, offer))
            return f"no deadline can be met at present prices with less than {needed} credits"
        least_s = at_prices
    # Told in whole seconds, and never one that would be just too early.
    return f"the least deadline that could be met is {at(ceil(begin_s + least_s))}"


def _not_too_late(terms: Terms, offer: Offer) -> Judged | None:
    if terms.latest_s is None or _begin_s(terms, offer) <= terms.latest_s:
        return None
    why = f"it was to start by {at(terms.latest_s)} at the latest"
    return Judged(Answer.CANCEL, why, "a later start.latest")


def _not_too_early(terms: Terms, offer: Offer) -> Judged | None:
    if terms.not_before_s is None or terms.not_before_s <= offer.now_s:
        return None
    needs = f"{lasting(terms.not_before_s - offer.now_s)} more"
    return Judged(Answer.WAIT, f"it is not to start before {at(terms.not_before_s)}", needs)


def _priced(_terms: Terms, offer: Offer) -> Judged | None:
    if offer.prices is not None:
        return None
    return Judged(Answer.WAIT, "no price is known yet", "a period that ends")


def _cheap(terms: Terms, offer: Offer) -> Judged | None:
    prices = offer.prices or {}
    dear = {
        name: ceiling
        for name, ceiling in terms.price_ceiling.items()
        if prices.get(name, 0.0) > ceiling
    }
    if not dear or _last_moment(terms, offer):
        return None
    why = ", ".join(f"{name} costs {credit(prices[name])}" for name in dear)
    needs = ", ".join(f"{name} at {credit(ceiling)} or less" for name, ceiling in dear.items())
    return Judged(Answer.WAIT, f"{why} a unit and period, more than it is to pay", needs)


def _last_moment(terms: Terms, offer: Offer) -> bool:
    """Whether work that is worth something undone too has no time left to wait for lower prices."""
    if terms.give_up or terms.deadline_s is None:
        return False
    return terms.deadline_s - offer.now_s <= (terms.ideal_s or 0.0)


def _roomy(terms: Terms, offer: Offer) -> Judged | None:
    if not terms.patient:
        return None
    if offer.book is None:
        return Judged(Answer.WAIT, "no claims are known yet", "a period that ends")
    limit, units = limit_of(terms, offer), terms.full.get(CPU, 0.0)
    if may_start(offer.book, limit, units):
        return None
    room = max(offer.book.room_above(limit), 0.0)
    why = (
        f"it would pay {credit(limit)} a unit of CPU and period now, and those who pay as much or"
        f" more leave {room:g} of the {units:g} units it needs"
    )
    return Judged(Answer.WAIT, why, "room, or time: it offers more as its deadline comes near")


def _affordable(terms: Terms, offer: Offer) -> Judged | None:
    if terms.patient:  # it has no more than it would pay
        return None
    if terms.deadline_s is None or terms.ideal_s is None or _last_moment(terms, offer):
        return None
    left_s = terms.deadline_s - offer.now_s
    work = Work(steps=1, done=0, ideal_step_s=terms.ideal_s)
    reachable = reachable_s(terms, offer, left_s)
    # A deadline that can just be met must not fail for the last bit of a float.
    given = verdict(
        work,
        left_s,
        running=False,
        reachable_step_s=reachable * (1 - 1e-9),
        give_up=terms.give_up,
    )
    if given is Verdict.RESUME:
        return None
    needed = credits_needed(terms, offer)
    why = (
        f"at present prices the work takes {credit(needed)} credits, and it has"
        f" {credit(terms.purse.credits)}"
    )
    if terms.purse.renewal > 0:
        had = terms.purse.credits + terms.purse.renewal * left_s / terms.purse.renewal_s
        why += f" now and {credit(had)} by its deadline"
    needs = f"lower prices, {credit(needed)} credits, or another deadline: "
    return Judged(Answer.WAIT, why, needs + _what_deadline(terms, offer))
