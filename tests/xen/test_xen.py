"""Limits on a real Xen, through libvirt and `xl`: what is decided is what guests get."""

import sys
import time

import pytest

from merkatd.scheduler.base.ports import FullSize
from tests.real.host import until
from tests.real.port import PERIOD_US, Port, balloon, limit, pin
from tests.xen.fixtures import MEMORY_MIB, VMS, SlowTime, opened
from tests.xen.host import CORES, XenGuest, XenHost, cores_used

WINDOW_S = 8.0
SETTLING_S = 1.0
ABOVE, BELOW = 1.05, 0.85
"""Xen takes a little of a cap for what it could not divide more finely."""
LIGHT, HEAVY = 1024, 3072
PATIENCE_S = 60.0
HOST = dict.fromkeys(VMS, 0)
OWN = {"weight": 512, "cap": 0}
"""Of a VM of two cores, as OpenNebula has it."""


@pytest.mark.parametrize("percent", [50, 20])
def test_a_cap_is_what_is_really_got(port: Port, guests: list[XenGuest], percent: int) -> None:
    """In percent of a core, over all its virtual CPUs."""
    guest = guests[0]
    port.read(HOST)
    quota_us = percent * PERIOD_US // 100 // guest.vcpus
    port.apply(limit(guest.vm, vcpu=quota_us))
    assert guest.scheduling["cap"] == percent
    time.sleep(SETTLING_S)
    got = guest.cores_used(WINDOW_S) * 100
    _say(f"a cap of {percent}: {got:.1f} % of a core")
    assert percent * BELOW <= got <= percent * ABOVE
    assert port.read(HOST).in_force.vcpu_quota_us[0] == quota_us


def test_readings_are_the_cpu_time_used(port: Port, guests: list[XenGuest]) -> None:
    """CPU time in core-seconds, as it passes."""
    port.read(HOST)
    port.apply(limit(guests[0].vm, vcpu=25_000))
    time.sleep(SETTLING_S)
    first_s, _ = guests[0].sample()
    before_s = port.read(HOST).cpu_s[0]
    time.sleep(SETTLING_S)
    after_s = port.read(HOST).cpu_s[0]
    last_s, _ = guests[0].sample()
    assert first_s <= before_s < after_s <= last_s


def test_weights_divide_the_cores(port: Port, guests: list[XenGuest]) -> None:
    """Between two guests that want all of them, where nothing caps either."""
    port.read(HOST)
    port.apply(limit(VMS[0], shares=LIGHT), limit(VMS[1], shares=HEAVY))
    time.sleep(SETTLING_S)
    lower, higher = cores_used(guests, WINDOW_S)
    _say(
        f"weights of 1 to 3 on {CORES} cores: {lower:.3f} and {higher:.3f},"
        f" 1 to {higher / lower:.2f}"
    )
    assert higher / lower == pytest.approx(3.0, rel=0.15)


def test_pins_stand_in_xen(port: Port, guests: list[XenGuest]) -> None:
    """Each virtual CPU on the core that is for it, of those that the host is known to have."""
    port.read(HOST)
    assert set(port.hypervisors.topologies()[0].cell) == set(range(CORES))
    port.apply(pin(VMS[0], (1,), (0,)), pin(VMS[1], (0,), (0, 1)))
    assert [guest.affinity for guest in guests] == [["1", "0"], ["0", "all"]]
    assert port.read(HOST).in_force.pins == {VMS[0]: ((1,), (0,)), VMS[1]: ((0,), ())}
    port.apply(*(pin(vm) for vm in VMS))
    assert [guest.affinity for guest in guests] == [["all"] * 2] * 2


def test_memory_moves(port: Port, guests: list[XenGuest]) -> None:
    """Down to what the balloon was told and never below, and back again."""
    guest = guests[0]
    port.read(HOST)
    port.apply(limit(guest.vm))
    for wanted_mib in (MEMORY_MIB - 32, MEMORY_MIB):
        began_s = time.monotonic()
        seen: set[int] = set()
        port.apply(balloon(guest.vm, wanted_mib))
        until(lambda: _look(guest, seen) == wanted_mib, "it holds it", patience_s=PATIENCE_S)  # noqa: B023 - called at once
        took_s = time.monotonic() - began_s
        _say(f"its balloon came to {wanted_mib} MiB in {took_s:.1f} s")
        assert MEMORY_MIB - 32 <= min(seen) <= max(seen) <= MEMORY_MIB


def test_release_leaves_no_trace(
    real_time: SlowTime, xen: XenHost, port: Port, guests: list[XenGuest]
) -> None:
    """Weights, caps, pins and memory are as they were, even for a daemon that set none of it."""
    guest = guests[0]
    port.read(HOST)
    port.apply(
        limit(guest.vm, vcpu=80_000, shares=HEAVY),
        pin(guest.vm, (0,), (1,)),
        balloon(guest.vm, MEMORY_MIB - 16),
    )
    assert guest.scheduling != OWN
    assert guest.affinity == ["0", "1"]
    until(lambda: guest.balloon_mib < MEMORY_MIB, "it gives", patience_s=PATIENCE_S)
    full_sizes = [FullSize(guest.vm, 0, 200.0, MEMORY_MIB, guest.vcpus) for guest in guests]
    for other in opened(real_time, xen):
        released = real_time.run(other.hypervisors.release(full_sizes))
        assert [outcome.problem for outcome in released.values()] == ["", ""]
    for released_guest in guests:
        assert released_guest.scheduling == OWN
        assert released_guest.affinity == ["all", "all"]
    until(
        lambda: [guest.balloon_mib for guest in guests] == [MEMORY_MIB for guest in guests],
        "all have their memory back",
        patience_s=PATIENCE_S,
    )


def _look(guest: XenGuest, seen: set[int]) -> int:
    held = guest.balloon_mib
    seen.add(held)
    return held


def _say(what: str) -> None:
    sys.stdout.write(f"\n{what}\n")
