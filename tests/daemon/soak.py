"""How much is tried: a little in `make test`, by the hundred in `make soak`.

MERKAT_SOAK is the number of kills; MERKAT_SEED is the first seed. Seeds are part of the names
of the tests: to replay what failed, give its seed and leave MERKAT_SOAK out.
"""

import os
import time

KILLS_PER_SITE = 20
CLOUD_KILLS_PER_SITE = 3

KILLS = int(os.environ.get("MERKAT_SOAK", KILLS_PER_SITE))
_ANY = int(time.time()) if "MERKAT_SOAK" in os.environ else 1
FIRST_SEED = int(os.environ.get("MERKAT_SEED", _ANY))

SITES = range(FIRST_SEED, FIRST_SEED + max(1, KILLS // KILLS_PER_SITE))
"""Seeds of the sites on which daemons are killed, each so often."""

KILLS_BEFORE_REST = 1 if "MERKAT_SOAK" in os.environ else 5
"""After so many kills of the daemon the tenants rest, and all must come right."""

FAULT_ROUNDS = max(1, KILLS // 50)
"""How often each fault strikes."""
