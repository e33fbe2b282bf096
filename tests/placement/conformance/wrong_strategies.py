"""Strategies that each break a promise: the default one with a mistake."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from merkatd.cluster import Decision, Deploy, HostState, Migrate, Plan, Snapshot, Terminate, VmState
from merkatd.cluster.plan import Step
from merkatd.placement import StrategyEntry, strategy_named
from merkatd.placement.contract import Allocation, Charge, MoveLimits, Pricing, parameter

PLAIN = strategy_named("tabu")
Changed = Callable[[Snapshot, Mapping[str, Any], np.random.Generator, Decision], Decision]


def _entry(change: Changed, **declared: Any) -> StrategyEntry:
    """Return the default strategy with a mistake."""

    def strategy(
        snapshot: Snapshot,
        settings: Any,
        memory: Mapping[str, Any],
        random: np.random.Generator,
    ) -> Decision:
        return change(snapshot, memory, random, PLAIN.strategy(snapshot, settings, {}, random))

    return replace(PLAIN, strategy=strategy, **declared)


@dataclass(frozen=True, slots=True, kw_only=True)
class StrangeSettings:
    """Settings whose default is outside its range."""

    part: float = parameter(2.0, most=1.0)
    """A part of more than one."""
    pricing: Pricing = field(default_factory=Pricing)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnNames:
    """Settings that limit migrations under names of their own."""

    at_most: int = parameter(2, unit="migrations", most=100)
    """The most migrations in a period."""
    rest_s: float = parameter(300.0, unit="seconds", most=3600.0)
    """The time for which a migrated VM stays."""
    pricing: Pricing = field(default_factory=Pricing)


def restless_under_own_names() -> StrategyEntry:
    """Return a strategy that moves every VM, and declares limits by settings of its own."""

    def strategy(
        snapshot: Snapshot,
        settings: Any,  # noqa: ARG001 - it ignores its limits
        memory: Mapping[str, Any],  # noqa: ARG001
        random: np.random.Generator,
    ) -> Decision:
        plain = PLAIN.strategy(snapshot, PLAIN.defaults, {}, random)
        return replace(plain, plan=Plan(tuple(_moves_of_all(snapshot))))

    limits = MoveLimits(
        most=lambda settings, _vms: settings.at_most,
        hold_s=lambda settings: settings.rest_s,
        settings=frozenset({"at_most", "rest_s"}),
    )
    return replace(PLAIN, settings=OwnNames, strategy=strategy, moves=limits)


def unknown_limits() -> StrategyEntry:
    """Return a strategy whose limits depend on a setting that it does not have."""
    return replace(PLAIN, moves=MoveLimits(settings=frozenset({"at_most"})))


_counted: list[int] = []


def counting() -> StrategyEntry:
    """Return a strategy that remembers outside of its memory."""

    def change(
        _snapshot: Snapshot, _memory: Any, _random: np.random.Generator, decision: Decision
    ) -> Decision:
        _counted.append(1)
        return replace(decision, memory={"count": len(_counted)})

    return _entry(change)


def clocked() -> StrategyEntry:
    """Return a strategy that draws its own random numbers."""
    return _entry(
        lambda _snapshot, _memory, _random, decision: replace(
            decision, memory={"drawn": float(np.random.default_rng().random())}
        )
    )


def writing() -> StrategyEntry:
    """Return a strategy that writes into its memory."""

    def change(
        _snapshot: Snapshot, memory: Any, _random: np.random.Generator, decision: Decision
    ) -> Decision:
        memory["seen"] = memory.get("seen", 0) + 1
        return replace(decision, memory={"seen": 1})

    return _entry(change)


def unstorable() -> StrategyEntry:
    """Return a strategy whose memory changes in a file: pairs become lists."""
    return _entry(
        lambda _snapshot, memory, _random, decision: replace(
            decision,
            memory={"pair": (1, 2)},
            prices=decision.prices + float(isinstance(memory.get("pair"), list)),
        )
    )


def eager() -> StrategyEntry:
    """Return a strategy that starts VMs that may not be placed."""

    def change(
        snapshot: Snapshot, _memory: Any, _random: np.random.Generator, decision: Decision
    ) -> Decision:
        vms = snapshot.vms
        rows = (vms.state == VmState.PENDING) & ~vms.placeable & (vms.market == 0)
        hosts = snapshot.hosts.id[snapshot.hosts.market == 0].tolist()
        why = "it is started anyway"
        more = [
            Deploy(period=snapshot.period, vm=vm, host=hosts[0], reason=why)
            for vm in vms.id[rows].tolist()
            if hosts
        ]
        return replace(decision, plan=Plan.ordered([*decision.plan, *more]))

    return _entry(change)


def generous() -> StrategyEntry:
    """Return a strategy that gives every VM twice its cap."""
    return _entry(
        lambda snapshot, _memory, _random, decision: replace(
            decision, allocations=2 * snapshot.vms.cap
        )
    )


def silent() -> StrategyEntry:
    """Return a strategy whose steps have no reasons in words, and whose VMs wait for none."""
    return _entry(
        lambda _snapshot, _memory, _random, decision: replace(
            decision,
            plan=Plan(tuple(replace(step, reason="gain") for step in decision.plan)),
            reasons={},
        )
    )


def _moves_of_all(snapshot: Snapshot) -> list[Step]:
    vms, on = snapshot.vms, np.flatnonzero(snapshot.hosts.state == HostState.ON)
    steps: list[Step] = []
    for row in np.flatnonzero((vms.state == VmState.RUNNING) & (vms.market == 0)):
        source, host = int(vms.host[row]), int(on[int(row) % len(on)]) if len(on) else -1
        if host not in {-1, source}:
            ids = snapshot.hosts.id
            steps.append(
                Migrate(
                    period=snapshot.period,
                    vm=int(vms.id[row]),
                    source=int(ids[source]),
                    host=int(ids[host]),
                    reason="all are moved",
                )
            )
    return steps


def restless() -> StrategyEntry:
    """Return a strategy that moves every VM, whatever the rules and limits are."""
    return _entry(
        lambda snapshot, _memory, _random, decision: replace(
            decision, plan=Plan(tuple(_moves_of_all(snapshot)))
        )
    )


def nostalgic() -> StrategyEntry:
    """Return a strategy that has steps for VMs that it remembers, also those that are gone."""

    def change(
        snapshot: Snapshot, memory: Any, _random: np.random.Generator, decision: Decision
    ) -> Decision:
        there = set(snapshot.vms.id.tolist())
        gone = [vm for vm in memory.get("vms", []) if vm not in there]
        why = "it was there before"
        ends = [Terminate(period=snapshot.period, vm=vm, reason=why) for vm in gone]
        kept = {"vms": [*there, 10**6]}
        return replace(decision, plan=Plan.ordered([*decision.plan, *ends]), memory=kept)

    return _entry(change)


def free_with_prices() -> StrategyEntry:
    """Return a strategy that charges nothing and has prices."""
    return _entry(
        lambda _snapshot, _memory, _random, decision: replace(
            decision, prices=decision.prices + 1.0
        ),
        charges=Charge.NONE,
    )


def own_for_a_share() -> StrategyEntry:
    """Return a strategy that states allocations and charges for shares."""
    return _entry(lambda *given: given[3], allocates=Allocation.OWN)


def blind() -> StrategyEntry:
    """Return a strategy that can't live with unknown numbers."""

    def change(
        snapshot: Snapshot, _memory: Any, _random: np.random.Generator, decision: Decision
    ) -> Decision:
        part = snapshot.hosts.used / np.maximum(snapshot.hosts.capacity, 1.0)
        return replace(decision, prices=decision.prices * (1.0 + part.sum()))

    return _entry(change)


def needing_hosts() -> StrategyEntry:
    """Return a strategy that looks at the first host before it looks whether there is one."""

    def change(
        snapshot: Snapshot, _memory: Any, _random: np.random.Generator, decision: Decision
    ) -> Decision:
        assert snapshot.hosts.id[0] >= 0
        return decision

    return _entry(change)


def strange_defaults() -> StrategyEntry:
    """Return a strategy with a default outside its range."""
    return replace(PLAIN, settings=StrangeSettings)


def any_version() -> StrategyEntry:
    """Return a strategy of another form of memory that has not raised its version."""

    def change(
        _snapshot: Snapshot, memory: Any, _random: np.random.Generator, decision: Decision
    ) -> Decision:
        assert "old" not in memory
        return replace(decision, memory={"old": 1})

    return _entry(change)
