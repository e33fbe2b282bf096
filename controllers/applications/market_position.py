"""A controller's view of the market: other bids, its own VMs, and VMs to replace.

If OpenNebula loses contact to a VM, its guest may still run, and the VM returns when its host does.
So such a VM is replaced only after a much longer time.
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
from merkatd.base.quantities import duration_text
from merkatd.policies.batch_queue import by_clock
from merkatd.policies.deadline import Funds, Work, grace_s, least_deadline_s
from merkatd.policies.horizontal import Prices, bids_for, others_price
from merkatd.policies.suspension import Case
from merkatd.policies.vertical import BidTrace, VmPosition
from merkatd.protocol.platform_messages import Assignment, ClusterTerms, News, VmNow

OFF: Final = "powered_off"
UNKNOWN: Final = "unknown"
SEEN: Final = frozenset({"running", UNKNOWN})
"""States in which a worker may work, so that its batch system knows whether it is present."""
MAX_REPLACEMENTS: Final = 2
"""The most VMs of a cluster that are replaced in a period for the same reason."""
_ABSENT: Final = "absent"
_GONE: Final = {
    "off": (OFF, "off_limit_s", "powered off for too long"),
    "unknown": (UNKNOWN, "unknown_limit_s", "without contact to OpenNebula for too long"),
}
"""The key in a controller's memory, with a VM state, the parameter of its time limit, and the
reason for replacing a VM that exceeds the limit."""
_GONE_S: Final = "gone_at_s"


@dataclass(frozen=True, slots=True)
class UnresponsiveVms:
    """The seconds for which VMs have not answered, by cluster and VM id."""

    by_cluster: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, memory: Mapping[str, Any]) -> "UnresponsiveVms":
        """Restore the record from a controller's memory."""
        return cls(dict(memory))

    def after(self, cluster: str, values: Mapping[str, float]) -> "UnresponsiveVms":
        """Return the record after a report of the cluster's monitor, which names all such VMs."""
        missed = {
            name.removeprefix(ABSENT): seconds
            for name, seconds in values.items()
            if name.startswith(ABSENT)
        }
        return UnresponsiveVms({**self.by_cluster, cluster: missed})

    def kept(self) -> dict[str, Any]:
        """Return the record as values for a controller's memory."""
        return {name: dict(missed) for name, missed in self.by_cluster.items()}

    def to_replace(self, terms: ClusterTerms, vms: Iterable[VmNow]) -> tuple[int, ...]:
        """Return the cluster's VMs that have not answered for too long, the longest first.

        VMs that are already leaving are left out.
        """
        limit_s = number(terms.monitor.parameters if terms.monitor else {}, "boot_limit_s")
        missed = self.by_cluster.get(terms.name, {})
        running = {
            vm.vm
            for vm in vms
            if vm.cluster == terms.name and vm.state == "running" and not vm.leaving
        }
        late = {
            int(vm): seconds
            for vm, seconds in missed.items()
            if seconds >= limit_s and int(vm) in running
        }
        return tuple(sorted(late, key=lambda vm: (-late[vm], vm))[:MAX_REPLACEMENTS])


class MarketOrder(NamedTuple):
    """VMs of a cluster to replace, and the reason."""

    cluster: str
    vms: tuple[int, ...]
    why: str


def to_make_anew(
    given: Assignment, news: News, memory: dict[str, Any], spared: AbstractSet[int] = frozenset()
) -> Iterator[MarketOrder]:
    """Yield the VMs to replace: running VMs that never answered, and VMs gone for too long.

    The memory records since when VMs are gone. VMs in `spared` have no work left, and stay.
    """
    # Also while a platform starts or resumes: a VM that is off would keep it from ever running.
    up = news.state in {"starting", "running", "resuming"}
    last_s, most_s = float(memory.get(_GONE_S, news.at_s)), 2 * given.interval_s
    memory[_GONE_S] = news.at_s
    gone = []
    for word, (state, limit, why) in _GONE.items():
        missed = [
            vm.vm
            for vm in news.vms
            if vm.state == state and up and not vm.leaving and vm.vm not in spared
        ]
        since = {int(vm): since_s for vm, since_s in memory.get(word, {}).items()}
        counted = by_clock(since, last_s, news.at_s, most_s)
        limit_s = number(given.parameters, limit)
        kept = {str(vm): since_s for vm, since_s in counted.items()}
        memory[word], late = overdue_vms(missed, kept, news.at_s, limit_s)
        gone.append((late, why))
    absent = UnresponsiveVms.of(memory.get(_ABSENT, {}))
    for terms in given.clusters:
        mine = {vm.vm for vm in news.vms if vm.cluster == terms.name}
        replaced = [(absent.to_replace(terms, news.vms), "never answered")]
        replaced += [(tuple(vm for vm in late if vm in mine), why) for late, why in gone]
        yield from (MarketOrder(terms.name, vms, why) for vms, why in replaced if vms)


def overdue_vms(
    missed: Iterable[int], since: Mapping[str, float], at_s: float, limit_s: float
) -> tuple[dict[str, float], tuple[int, ...]]:
    """Return since when each VM is missing, for a controller's memory, and the overdue VMs.

    The time of an overdue VM restarts: if it is still there after the limit, it is overdue again.
    """
    known = {vm: since.get(str(vm), at_s) for vm in missed}
    late = sorted(vm for vm, since_s in known.items() if abs(at_s - since_s) >= limit_s)[
        :MAX_REPLACEMENTS
    ]
    return {str(vm): at for vm, at in known.items() if vm not in late}, tuple(late)


SPARE_PERIODS: Final = 2
"""The number of periods before its deadline by which the work is planned to end."""
SPARE_MOST: Final = 0.75
"""The largest part of the remaining time that is kept spare for this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionInput:
    """The input of a controller's decision."""

    work: Work
    left_s: float
    """The time to the deadline."""
    usable_s: float
    """The part of `left_s` for planning: bids take effect, and work is seen, a period later."""
    pace_s: float
    """The present time of an iteration."""
    reachable_step_s: float
    """The time of an iteration at the spending limit."""
    part: float
    """The part of the VMs' full size that the spending limit buys."""
    held: float
    """The part of their full size that the running VMs have now."""
    whole: bool
    """Whether all VMs of the platform run."""
    names: tuple[str, ...]
    """The names of the resources."""
    case: Case
    """The input of the suspension rule."""
    spending: float
    """The spending limit of all VMs in a period."""
    seen: bool
    """Whether the amount of finished work is known."""
    measured: bool
    """Whether an iteration was measured; if not, the first takes at least `pace_s`."""
    sure: bool
    """Whether the pace is known well enough to give up."""
    overspent: bool
    """Whether the next period costs far more than the spending limit."""
    stale_s: float
    """The time since the monitor's last look; `work` does not include work done since then."""
    news: News
    """The news from which this input was made."""

    @property
    def hopeless(self) -> bool:
        """Return whether the deadline can't be met, whatever was done since the last look."""
        return self.sure and grace_s(self.work, self.left_s) + self.stale_s < 0


def usable_s(left_s: float, interval_s: float) -> float:
    """Return the time for planning, given the time to the deadline."""
    return max(left_s - SPARE_PERIODS * interval_s, left_s * (1 - SPARE_MOST))


def progress_text(decision_input: DecisionInput, spare_s: float) -> str:
    """Describe the progress and the expected end."""
    work = decision_input.work
    pace = duration_text(decision_input.pace_s)
    progress = f"{int(work.done)} of {work.steps} iterations, {pace} each"
    away = "" if decision_input.whole else "; not all of its VMs run"
    if isinf(spare_s):
        return f"{progress}{away}"
    if spare_s >= 0:
        return f"{progress}: will end {duration_text(spare_s)} before the deadline{away}"
    least_s = least_deadline_s(work, decision_input.reachable_step_s)
    return (
        f"{progress}: {duration_text(-spare_s)} late; could end in {duration_text(least_s)}{away}"
    )


def why_too_late(decision_input: DecisionInput) -> str:
    """Describe why the deadline can't be met."""
    work = decision_input.work
    return (
        f"the remaining {work.left:.0f} iterations take at least {duration_text(work.ideal_s)},"
        f" and only {duration_text(max(decision_input.left_s, 0.0))} are left until the deadline"
    )


LEAST_BID = 1e-6
"""The least bid in credits, which is the ledger's smallest unit."""
Sizes = tuple[float, ...]
"""Amounts by resource, in the order of the prices."""


def bidding(vms: Iterable[VmNow], cluster: str | None = None) -> list[VmNow]:
    """Return the VMs whose bids count in the next period, of one cluster or of all."""
    there = {"running", "pending"}
    return [vm for vm in vms if vm.state in there and cluster in {None, vm.cluster}]


def market_without(news: News) -> Prices:
    """Return the market without the own bids: with them, the bids would drive themselves up."""
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


def available_credits(assignment: Assignment, news: News) -> Funds:
    """Return the platform's credits and its replenishment."""
    return Funds(
        credits=max(news.balance, 0.0),
        renewal=news.replenishment,
        renewal_s=assignment.replenishment_s or math.inf,
    )


def most(terms: ClusterTerms, names: Iterable[str]) -> Sizes:
    """Return the full size of a VM of the cluster; 0 for goods without a ceiling."""
    return tuple(terms.ceiling.get(name, 0.0) for name in names)


def has_market(news: News) -> bool:
    """Return whether the market has hosts in sight. Without any, no bid buys anything.

    So every VM would count as too expensive; but its guest may run on unseen.
    """
    return any(amount > 0 for amount in news.market.capacity.values())


def vm_positions(
    terms: Mapping[str, ClusterTerms], vms: Iterable[VmNow], market: Prices, names: Sequence[str]
) -> dict[int, VmPosition]:
    """Return each VM's position in the market; `terms` are those of each cluster."""
    sizes = {name: most(cluster, names) for name, cluster in terms.items()}
    keeping = {name: bids_for(1, size, market) for name, size in sizes.items()}
    least = {
        name: tuple(cluster.floor.get(good, 0.0) for good in names)
        for name, cluster in terms.items()
    }
    return {
        vm.vm: VmPosition(
            bid=tuple(vm.bid.get(name, 0.0) for name in names),
            allocation=tuple(vm.allocation.get(name, 0.0) for name in names),
            least=least[vm.cluster],
            most=sizes[vm.cluster],
            keeping=keeping[vm.cluster],
        )
        for vm in vms
    }


def held_part(now: VmPosition) -> float:
    """Return the part of its full size that a VM has, in its scarcest resource."""
    parts = [got / size for got, size in zip(now.allocation, now.most, strict=True) if size > 0]
    return min(parts, default=1.0)


def traces_to_keep(traces: Mapping[int, Sequence[BidTrace]]) -> dict[str, Any]:
    """Return traces for JSON: one short text per VM, as a platform may have thousands of VMs."""
    return {str(vm): ";".join(map(_written, rows)) for vm, rows in traces.items()}


def traces_of(memory: Mapping[str, Any]) -> dict[int, tuple[BidTrace, ...]]:
    """Return traces from a memory, in the format of `traces_to_keep` or in the older one."""
    return {int(vm): tuple(map(_read, _apart(rows))) for vm, rows in memory.items()}


_ORDER: Final = ("change", "limit", "run", "market", "market_before", "short", "short_keeping")
"""The order of a trace's numbers in its text; the last ones are often unknown, and left out."""
_UNKNOWN: Final = "?"
_BLANK: Final = BidTrace()


def _written(trace: BidTrace) -> str:
    """Return a trace as text; three digits suffice for comparisons by factors of 1.1 and more."""
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


def _read(value: Any) -> BidTrace:
    if isinstance(value, Mapping):
        return BidTrace(**value)
    known = {
        name: float(word)
        for name, word in zip(_ORDER, value.split(), strict=False)
        if word != _UNKNOWN
    }
    return BidTrace(**known | {"run": int(known.get("run", 0))})  # type: ignore[arg-type]


def all_run(news: News) -> bool:
    """Return whether all VMs that the platform should have are running."""
    running = Counter(vm.cluster for vm in news.vms if vm.state == "running" and not vm.leaving)
    return all(running[name] >= size for name, size in news.sizes.items())


def cost_of(vms: list[VmNow], news: News) -> float:
    """Return the charge for the next period: prices times allocations, whatever the bids."""
    return sum(news.prices[name] * amount for vm in vms for name, amount in vm.allocation.items())
