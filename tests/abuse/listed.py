"""The list of all strategies, and their common parts.

Each is a generator: it acts as a tenant can, and yields the number of seconds to wait. It starts
right after a period; a period begins every minute and observes the cloud at that moment.
"""

from collections.abc import Generator

from tests.abuse.arena import PERIOD_S, Play

Moves = Generator[float, None, None]

BEFORE_S = 5.0
"""The time before a period at which a strategy prepares for it."""
AFTER_S = PERIOD_S - BEFORE_S

STRATEGIES: dict[str, Play] = {}


def list_strategy(play: Play) -> Play:
    """List a strategy by its name."""
    STRATEGIES[play.__name__] = play
    return play


def forever() -> Moves:
    """Wait for ever."""
    while True:
        yield PERIOD_S
