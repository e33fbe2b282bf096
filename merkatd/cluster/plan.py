"""Plan: the steps a decision asks for, and which must come before which."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from merkatd.cluster.steps import Step

Kind = TypeVar("Kind", bound=Step)


class CyclicPlanError(ValueError):
    """Steps that wait for each other can never start."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in an order in which they can be carried out."""

    steps: tuple[Step, ...] = ()

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def of(self, kind: type[Kind]) -> tuple[Kind, ...]:
        """The steps of one kind, in order."""
        return tuple(step for step in self.steps if isinstance(step, kind))

    @classmethod
    def ordered(cls, steps: list[Step]) -> "Plan":
        """The plan with each step behind all that it comes after, else in the order given.

        A step named in `after` that is not among these steps belongs to somebody else and
        holds nothing up here. Raises CyclicPlanError where steps wait for each other.
        """
        present = {step.id: step for step in steps}
        if len(present) != len(steps):
            raise ValueError("a plan holds at most one step of a kind for each VM")
        waiting = {step.id: [e for e in step.after if e in present] for step in steps}
        followers: dict[str, list[str]] = {}
        for step_id, earlier in waiting.items():
            for one in earlier:
                followers.setdefault(one, []).append(step_id)
        blockers = {step_id: len(earlier) for step_id, earlier in waiting.items()}
        ready = [step_id for step_id, count in blockers.items() if count == 0]
        for step_id in ready:
            for follower in followers.get(step_id, []):
                blockers[follower] -= 1
                if blockers[follower] == 0:
                    ready.append(follower)
        if len(ready) != len(steps):
            stuck = sorted(str(present[s].vm) for s, count in blockers.items() if count)
            raise CyclicPlanError(f"the steps of VMs {', '.join(stuck)} wait for each other")
        return cls(tuple(present[step_id] for step_id in ready))
