"""Two guests on one core: bids of 1 and 3 divide it 1 to 3, by weights or by the market."""

import numpy as np
import pytest

from merkatd.limits.cpu_limits import weights
from tests.opennebula.worlds import RealTime
from tests.real.domains import burner, cores_used
from tests.real.host import RealHost
from tests.real.measuring import measured
from tests.real.port import limit, opened

WINDOW_S = 4.0


def test_weights_follow_bids(real_time: RealTime, mortal_hosts: list[RealHost]) -> None:
    """Weights alone, without quotas, divide the core through the kernel's scheduler."""
    host = mortal_hosts[0]
    host.keep_to(0)
    guests = [burner(host, vm) for vm in (1, 2)]
    vms = {1: 0, 2: 0}
    light, heavy = weights(np.array([1.0, 3.0]), np.array([0, 0]), 1).tolist()
    for port in opened(real_time, mortal_hosts, "qemu"):
        port.read(vms)
        port.apply(limit(1, shares=light), limit(2, shares=heavy))
        assert port.read(vms).in_force.shares.tolist() == [light, heavy]
    got = measured(lambda: sum(guest.cpu_s for guest in guests), WINDOW_S)
    assert got.within(0.9, 1.1), got
    lower, higher = cores_used(guests, WINDOW_S)
    assert higher / lower == pytest.approx(3.0, rel=0.1)
