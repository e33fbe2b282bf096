"""The list of all strategies, and what they have in common.

Each is a generator: it acts as a tenant can, and yields the seconds that it waits then. It begins
right after a period; periods are a minute apart, and see the cloud at that moment.
"""

from collections.abc import Generator

from tests.abuse.arena import PERIOD_S, Play

Moves = Generator[float, None, None]

BEFORE_S = 5.0
"""So long before a period a strategy prepares for it."""
AFTER_S = PERIOD_S - BEFORE_S

STRATEGIES: dict[str, Play] = {}


def strategy(play: Play) -> Play:
    """List it by its name."""
    STRATEGIES[play.__name__] = play
    return play


def forever() -> Moves:
    """Nothing more is done."""
    while True:
        yield PERIOD_S
