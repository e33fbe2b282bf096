"""Random numbers that can be drawn again.

The same period of the same market draws the same numbers, however often and wherever it is decided:
in the period itself, for its plan, for an approval, or after a restart. A saved snapshot has no
seed, so its decision draws others.
"""

from hashlib import blake2b

import numpy as np


def repeatable_random(seed: int, period: int, market: str) -> np.random.Generator:
    """Return the generator of a market's decision in a period.

    `seed` is the cloud's own, so that tenants can't know the numbers.
    """
    name = blake2b(market.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.random.default_rng([seed, period, int.from_bytes(name, "little")])
