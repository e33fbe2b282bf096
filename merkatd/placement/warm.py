"""Getting compiled code ready, so that the first decision is as quick as the next.

`python -m merkatd.placement.warm` does it for every strategy, and for whoever starts later.
"""

import numpy as np

from merkatd.cluster.json_form import loads
from merkatd.placement.registry import STRATEGIES, Entry

_SMALL = """
{"merkat_snapshot": 1, "now_s": 0, "period": 0, "resources": ["cpu"],
 "markets": [{"name": "m"}],
 "hosts": [%s],
 "vms": [%s]}
"""
_HOST = '{"id": %d, "name": "%d", "market": "m", "capacity": {"cpu": 100}}'
_VM = '{"id": %d, "host": %s, "state": "%s", "market": "m", "bid": {"cpu": %d}, "cap": {"cpu": 60}}'


def warm_up(entry: Entry) -> None:
    """Run the strategy on small clouds that reach all of its compiled code."""
    for hosts, vms in ((2, 4), (8, 24)):
        rows = [_VM % (at, '"0"', "running", 1 + at % 3) for at in range(vms)]
        rows.append(_VM % (vms, "null", "pending", 2))
        text = _SMALL % (",".join(_HOST % (at, at) for at in range(hosts)), ",".join(rows))
        entry.decide(loads(text), np.random.default_rng(0))


if __name__ == "__main__":
    for each in STRATEGIES.values():
        warm_up(each)
