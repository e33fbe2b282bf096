"""New VMs in turn: a bounded number per owner and period, each owner's first before any second.

A tenant may ask for thousands of VMs at once. OpenNebula makes each by a call of its own, so that
they would take the time of all other steps, for many periods.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from merkatd.cluster import Create, Step


def in_turn(steps: Sequence[Step], most: int) -> list[Step]:
    """Return all steps but creations, then at most so many creations of each owner in turn.

    The others are proposed again in the next period.
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
