"""The number of tries: few in `make test`, hundreds in `make soak`.

MERKAT_SOAK is the number of kills; MERKAT_SEED is the first seed. The names of the tests contain
their seeds: to replay a failure, set its seed and leave MERKAT_SOAK out.
"""

import os
import time

from tests.lengths import shorten

KILLS_PER_SITE = 20
CLOUD_KILLS_PER_SITE = shorten(3, 1)

KILLS = int(os.environ.get("MERKAT_SOAK", KILLS_PER_SITE))
_ANY = int(time.time()) if "MERKAT_SOAK" in os.environ else 1
FIRST_SEED = int(os.environ.get("MERKAT_SEED", _ANY))

SITES = range(FIRST_SEED, FIRST_SEED + max(1, KILLS // KILLS_PER_SITE))
"""Seeds of the sites on which daemons are killed, KILLS_PER_SITE times each."""

KILLS_BEFORE_REST = shorten(1, 3)
"""The number of daemon kills before the tenants rest and the site must settle."""

FAULT_ROUNDS = max(1, KILLS // 50)
"""The number of rounds of each fault."""
