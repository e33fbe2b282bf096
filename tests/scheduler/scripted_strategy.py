"""A strategy that does as the default one, and also takes steps and has wishes by a script."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from merkatd.cluster import Decision, Plan, Scale, Snapshot
from merkatd.cluster.plan import Step
from merkatd.placement.registry import STRATEGIES

_PLAIN = STRATEGIES["tabu"]


@dataclass
class Script:
    """The further steps and wishes for a snapshot."""

    steps: Callable[[Snapshot], Sequence[Step]] = lambda _snapshot: ()
    wishes: Callable[[Snapshot], Sequence[Scale]] = lambda _snapshot: ()

    def decide(
        self,
        snapshot: Snapshot,
        settings: Any,
        memory: Mapping[str, Any],
        random: np.random.Generator,
    ) -> Decision:
        """Return the decision of the default strategy with what the script adds."""
        decision = _PLAIN.strategy(snapshot, settings, memory, random)
        plan = Plan.ordered([*self.steps(snapshot), *decision.plan])
        return replace(decision, plan=plan, wishes=tuple(self.wishes(snapshot)))


@contextmanager
def scripted(**declared: Any) -> Iterator[Script]:
    """Replace the default strategy by one with a script, which declares these fields."""
    script = Script()
    entries = cast("dict[str, Any]", STRATEGIES)
    entries["tabu"] = replace(_PLAIN, strategy=script.decide, **declared)
    try:
        yield script
    finally:
        entries["tabu"] = _PLAIN
