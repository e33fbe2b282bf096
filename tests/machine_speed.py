"""The present speed of the machine: other programs lengthen even the CPU time of a computation."""

import time

QUIET_S = 0.04
"""The reference time of the quiet machine for which limits of time hold."""


def reference_s() -> float:
    """Return the CPU seconds of a fixed piece of Python, as a unit for other times."""
    begun = time.process_time()
    parts = [f"<{number}><![CDATA[{number * 7}]]></{number}>" for number in range(200_000)]
    assert "".join(parts)
    return time.process_time() - begun


def slowness() -> float:
    """Return how many times as long as on the quiet machine a computation takes, at least 1."""
    return max(reference_s() / QUIET_S, 1.0)
