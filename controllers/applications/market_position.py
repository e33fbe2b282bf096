"""The market without this controller, its own VMs, and which of those are of no use.

One that is out of OpenNebula's sight may compute on, and is back once its host is seen again: it is
of no use only where that lasts far longer.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from math import isinf
from typing import Any, Final, NamedTuple

from controllers.measurements import ABSENT
from merkatd.base.parameter_bounds import number
from merkatd.policies.batch_queue import by_clock
from merkatd.policies.deadline import Funds, Work, grace_s, least_deadline_s
from merkatd.policies.horizontal import Prices, bids_for, others_price
from merkatd.policies.suspension import Case
from merkatd.policies.vertical import BidTrace, VmPosition
from merkatd.protocol.platform_messages import Assignment, ClusterTerms, News, VmNow

"""How a monitor names what it tells of such a VM: for how many seconds it has run unanswering."""
OFF: Final = "powered_off"
UNKNOWN: Final = "unknown"
SEEN: Final = frozenset({"running", UNKNOWN})
"""States in which a worker may be at work, so that its batch system says whether it is there."""
MAX_REPLACEMENTS: Final = 2
"""So many of a cluster are replaced in a period for the same reason."""
_ABSENT: Final = "absent"
_GONE: Final = {
    "off": (OFF, "off_limit_s", "was found to be off"),
    "unknown": (UNKNOWN, "unknown_limit_s", "has been out of OpenNebula's sight for too long"),
}
"""By the word in a controller's memory: a state, the parameter with the longest time, and what is
told of a VM that is in it for longer."""
_GONE_S: Final = "gone_at_s"


@dataclass(frozen=True, slots=True)
class UnresponsiveVms:
    """By cluster and VM, for how long it has been missed."""

    by_cluster: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, memory: Mapping[str, Any]) -> "UnresponsiveVms":
        """As it was kept."""
        return cls(dict(memory))

    def after(self, cluster: str, values: Mapping[str, float]) -> "UnresponsiveVms":
        """When the cluster's monitor has told more: it names all that it misses each time."""
        missed = {
            name.removeprefix(ABSENT): seconds
            for name, seconds in values.items()
            if name.startswith(ABSENT)
        }
        return UnresponsiveVms({**self.by_cluster, cluster: missed})

    def kept(self) -> dict[str, Any]:
        """For a controller's memory."""
        return {name: dict(missed) for name, missed in self.by_cluster.items()}

    def to_replace(self, terms: ClusterTerms, vms: Iterable[VmNow]) -> tuple[int, ...]:
        """Those of the cluster's VMs that were missed for too long, the longest missed first.

        One that is leaving already is not named again.
        """
        limit_s = number(terms.monitor.parameters if terms.monitor else {}, "boot_limit_s")
        missed = self.by_cluster.get(terms.name, {})
        running = {
            one.vm
            for one in vms
            if one.cluster == terms.name and one.state == "running" and not one.leaving
        }
        late = {
            int(vm): seconds
            for vm, seconds in missed.items()
            if seconds >= limit_s and int(vm) in running
        }
        return tuple(sorted(late, key=lambda vm: (-late[vm], vm))[:MAX_REPLACEMENTS])


class MarketOrder(NamedTuple):
    """VMs of a cluster that are to be made anew, and why."""

    cluster: str
    vms: tuple[int, ...]
    why: str


def to_make_anew(
    given: Assignment, news: News, memory: dict[str, Any], spared: AbstractSet[int] = frozenset()
) -> Iterator[MarketOrder]:
    """Those that are said to run but were never reached, and those that are gone for too long.

    Since when they are is remembered. Those `spared` have nothing to do any more.
    """
    # While a platform starts or resumes one that went out would keep it from ever running.
    up = news.state in {"starting", "running", "resuming"}
    last_s, most_s = float(memory.get(_GONE_S, news.at_s)), 2 * given.interval_s
    memory[_GONE_S] = news.at_s
    gone = []
    for word, (state, limit, why) in _GONE.items():
        missed = [
            one.vm
            for one in news.vms
            if one.state == state and up and not one.leaving and one.vm not in spared
        ]
        since = {int(vm): since_s for vm, since_s in memory.get(word, {}).items()}
        counted = by_clock(since, last_s, news.at_s, most_s)
        limit_s = number(given.parameters, limit)
        kept = {str(vm): since_s for vm, since_s in counted.items()}
        memory[word], late = overdue_vms(missed, kept, news.at_s, limit_s)
        gone.append((late, why))
    absent = UnresponsiveVms.of(memory.get(_ABSENT, {}))
    for terms in given.clusters:
        mine = {one.vm for one in news.vms if one.cluster == terms.name}
        found = [(absent.to_replace(terms, news.vms), "never answered")]
        found += [(tuple(vm for vm in late if vm in mine), why) for late, why in gone]
        yield from (MarketOrder(terms.name, vms, why) for vms, why in found if vms)


def overdue_vms(
    missed: Iterable[int], since: Mapping[str, float], at_s: float, limit_s: float
) -> tuple[dict[str, float], tuple[int, ...]]:
    """Since when each has been missed, for a controller's memory; those missed for too long.

    These begin anew: whoever is still there after so long again is named again.
    """
    known = {vm: since.get(str(vm), at_s) for vm in missed}
    late = sorted(vm for vm, since_s in known.items() if abs(at_s - since_s) >= limit_s)[
        :MAX_REPLACEMENTS
    ]
    return {str(vm): at for vm, at in known.items() if vm not in late}, tuple(late)


SPARE_PERIODS: Final = 2
"""So many periods before its deadline the work is to be done,"""
SPARE_MOST: Final = 0.75
"""but for no more than this part of what is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionInput:
    """All that a decision is made of."""

    work: Work
    left_s: float
    """To the deadline,"""
    usable_s: float
    """and of that to be planned with: bids count a period later, as does what is seen."""
    pace_s: float
    """How long an iteration takes now,"""
    reachable_step_s: float
    """and how long it could at what may be spent,"""
    part: float
    """which buys this part of all that the VMs can use."""
    held: float
    """The part that those have now that run,"""
    whole: bool
    """and whether all do."""
    names: tuple[str, ...]
    """Of the resources."""
    case: Case
    """What the rule of suspensions judges,"""
    spending: float
    """and what can be spent in a period on all VMs."""
    seen: bool
    """Whether it is known how much is done,"""
    measured: bool
    """and whether an iteration was seen to be made; if not, the first takes `pace_s` at least."""
    sure: bool
    """Whether it is known well enough to give up."""
    overspent: bool
    """Whether the coming period costs far more than may be spent on one."""
    stale_s: float
    """How long ago the monitor looked: what was done since is not counted in `work`."""
    news: News
    """What all this was read from."""

    @property
    def hopeless(self) -> bool:
        """Whether the deadline can't be met, whatever was done since the monitor looked."""
        return self.sure and grace_s(self.work, self.left_s) + self.stale_s < 0


def usable_s(left_s: float, interval_s: float) -> float:
    """The time to plan with, of so much that is left."""
    return max(left_s - SPARE_PERIODS * interval_s, left_s * (1 - SPARE_MOST))


def in_words(scene: DecisionInput, spare_s: float) -> str:
    """How far it is, and when it will be done."""
    work = scene.work
    said = f"{int(work.done)} of {work.steps} iterations, {scene.pace_s:.3g} s each"
    away = "" if scene.whole else "; not all of its VMs run"
    if isinf(spare_s):
        return f"{said}{away}"
    if spare_s >= 0:
        return f"{said}: done {spare_s:.0f} s before the deadline{away}"
    least_s = least_deadline_s(work, scene.reachable_step_s)
    return f"{said}: {-spare_s:.0f} s late; could be done in {least_s:.0f} s{away}"


def too_late(scene: DecisionInput) -> str:
    """Why no deadline can be met."""
    return (
        f"{scene.work.left:.0f} iterations are left and take {scene.work.ideal_s:.0f} s at least,"
        f" with {max(scene.left_s, 0.0):.0f} s to the deadline"
    )


LEAST_BID = 1e-6
"""Credits; the ledger knows no less."""
Sizes = tuple[float, ...]
"""By resource, in the order of the prices."""


def bidding(vms: Iterable[VmNow], cluster: str | None = None) -> list[VmNow]:
    """Those whose bids count in the next period, of one cluster or of all."""
    there = {"running", "pending"}
    return [one for one in vms if one.state in there and cluster in {None, one.cluster}]


def market_without(news: News) -> Prices:
    """The market as it would be without one's own bids, which would chase themselves upward."""
    own = dict.fromkeys(news.prices, 0.0)
    for vm in bidding(news.vms):
        for name, bid in vm.bid.items():
            own[name] = own.get(name, 0.0) + bid
    market = news.market
    return Prices(
        others=tuple(
            others_price(price, own[name], market.capacity[name], market.reserve[name])
            for name, price in market.prices.items()
        ),
        capacity=tuple(market.capacity[name] for name in market.prices),
    )


def purse(assignment: Assignment, news: News) -> Funds:
    """What there is, and what will be added."""
    return Funds(
        credits=max(news.balance, 0.0),
        renewal=news.replenishment,
        renewal_s=assignment.replenishment_s or math.inf,
    )


def most(terms: ClusterTerms, names: Iterable[str]) -> Sizes:
    """All that a VM of the cluster can use; goods that it knows no bound for it does without."""
    return tuple(terms.ceiling.get(name, 0.0) for name in names)


def vm_positions(
    terms: ClusterTerms, vm: VmNow, market: Prices, names: Sequence[str]
) -> VmPosition:
    """A VM in the market."""
    sizes = most(terms, names)
    return VmPosition(
        bid=tuple(vm.bid.get(name, 0.0) for name in names),
        allocation=tuple(vm.allocation.get(name, 0.0) for name in names),
        least=tuple(terms.floor.get(name, 0.0) for name in names),
        most=sizes,
        keeping=bids_for(1, sizes, market),
    )


def held_part(now: VmPosition) -> float:
    """Of all that a VM can use, the part that it has, in its scarcest resource."""
    parts = [got / size for got, size in zip(now.allocation, now.most, strict=True) if size > 0]
    return min(parts, default=1.0)


def traces_to_keep(traces: Mapping[int, Sequence[BidTrace]]) -> dict[str, Any]:
    """Traces for JSON: of each VM one short text, as a platform may have thousands of them."""
    return {str(vm): ";".join(map(_written, rows)) for vm, rows in traces.items()}


def traces_of(memory: Mapping[str, Any]) -> dict[int, tuple[BidTrace, ...]]:
    """The traces that were kept so, or by the names of their numbers as they were once."""
    return {int(vm): tuple(map(_read, _apart(rows))) for vm, rows in memory.items()}


_ORDER: Final = ("change", "limit", "run", "market", "market_before", "short", "short_keeping")
"""In which the numbers of a trace are written: the last ones are often not known."""
_UNKNOWN: Final = "?"
_BLANK: Final = BidTrace()


def _written(trace: BidTrace) -> str:
    """Its numbers, to three digits: they are compared by factors of 1.1 and more."""
    words = [
        _UNKNOWN if value in {getattr(_BLANK, name), math.inf} else f"{value:.3g}"
        for name in _ORDER
        for value in (getattr(trace, name),)
    ]
    while words and words[-1] == _UNKNOWN:
        words.pop()
    return " ".join(words)


def _apart(rows: Any) -> Sequence[Any]:
    return rows.split(";") if isinstance(rows, str) else rows


def _read(one: Any) -> BidTrace:
    if isinstance(one, Mapping):
        return BidTrace(**one)
    known = {
        name: float(word)
        for name, word in zip(_ORDER, one.split(), strict=False)
        if word != _UNKNOWN
    }
    return BidTrace(**known | {"run": int(known.get("run", 0))})  # type: ignore[arg-type]


def all_run(news: News) -> bool:
    """Whether all VMs that the platform is to have run."""
    running = Counter(one.cluster for one in news.vms if one.state == "running" and not one.leaving)
    return all(running[name] >= size for name, size in news.sizes.items())


def cost_of(vms: list[VmNow], news: News) -> float:
    """What the coming period is charged for: all that is held, whatever was bid for it."""
    return sum(news.prices[name] * amount for one in vms for name, amount in one.allocation.items())
