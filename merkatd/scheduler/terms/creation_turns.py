"""Turns of new VMs: a limited number per owner and period, each owner's first VM first.

A tenant may order thousands of VMs at once. OpenNebula needs one call for each, so they would take
the time of all other steps for many periods. Each VM's text has up to 32 KiB, so a step is only
built when there is room for it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from merkatd.cluster import Create, Step


class CreationRoom:
    """The remaining number of creations per owner in one period."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: Counter[int] = Counter()

    def of(self, owner: int) -> int:
        """Return the number of creations left for an owner."""
        return self._most - self._made[owner]

    def count(self, owner: int, steps: Sequence[Step]) -> None:
        """Subtract all creations among an owner's steps."""
        self._made[owner] += sum(isinstance(step, Create) for step in steps)


def take_turns(steps: Sequence[Step], most: int) -> list[Step]:
    """Return all other steps, then at most `most` creations of each owner, in turn.

    The remaining creations are proposed again in the next period.
    """
    by_owner: defaultdict[int, list[Create]] = defaultdict(list)
    others: list[Step] = []
    for step in steps:
        if not isinstance(step, Create):
            others.append(step)
        elif len(by_owner[step.owner]) < most:
            by_owner[step.owner].append(step)
    return [*others, *_round_by_round(list(by_owner.values()))]


def _round_by_round(queues: Sequence[Sequence[Create]]) -> Iterator[Create]:
    for at_once in zip_longest(*queues):
        yield from (step for step in at_once if step is not None)
