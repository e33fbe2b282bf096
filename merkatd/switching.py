"""How soon a thread gives the interpreter to another: the reactor waits for none of them long.

Of all threads of a Python process one computes at a time. A thread that wants its turn waits until
the present one has had it for the switch interval, by default 5 ms. The reactor's thread gives its
turn away with each call of the system and has to wait for the next one: twenty reads of sockets
beside a worker that computes all the time take a tenth of a second. With the interval below they
take a hundredth, and workers computed no less in benchmarks/reactor.py.
"""

import sys
from collections.abc import Callable

SWITCH_S = 0.0005
"""The switch interval of the daemon."""


def switch_quickly() -> Callable[[], None]:
    """Set the interval; the result sets it back."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    return lambda: sys.setswitchinterval(before)
