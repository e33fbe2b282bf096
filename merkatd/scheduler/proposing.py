"""Several who ask the period for steps, as one."""

from collections.abc import Awaitable, Callable, Sequence

from merkatd.cluster import Step
from merkatd.scheduler.observe import Seen
from merkatd.scheduler.transactions import Transactions

Proposals = Callable[[Transactions, Seen], Awaitable[Sequence[Step]]]


def all_of(*askers: Proposals) -> Proposals:
    """What all of them ask for, one after the other."""

    async def proposals(database: Transactions, seen: Seen) -> Sequence[Step]:
        return [step for ask in askers for step in await ask(database, seen)]

    return proposals
