"""Memory moves between real guests, and nobody loses what their owner keeps back."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from tests.real.domains import Guest
from tests.real.host import RealHost, until
from tests.real.site import Site, running

HOST_MIB, SIZE_MIB = 464, 256
KEPT_MIB, FLOOR_MIB = 220, 240
"""Two floors, nearer to each other than what is worth a step: they are kept all the same."""
HERE = 'SCHED_REQUIREMENTS="NAME=host000"\n'
STEP_MIB = 16
STEPS = f'[limits.memory]\nmost_step = "{STEP_MIB}MiB"'
PATIENCE_S = 120.0


def test_balloons_follow_bids_and_floors(mortal_hosts: list[RealHost], tmp_path: Path) -> None:
    """The higher bid has all but the other's floor, at every moment; released, both have all.

    No guest gives or gets more at once than a step, and the two never hold more than what the host
    has and the one step that the giving guest may not have made yet. The second host keeps the
    market's price down, so that the bid pays for its floor; both VMs want the first one.
    """
    options = {"memory_mib": HOST_MIB, "booted": True, "more": STEPS}
    with running(tmp_path, mortal_hosts, **options) as site:
        kept = f'{HERE}MERKAT_MIN_MEMORY="{KEPT_MIB}"'
        low = site.new(1.0, vcpus=1, memory_mib=SIZE_MIB, more=kept)
        guest = site.guest(low)
        assert guest.balloon_mib == SIZE_MIB
        until(lambda: _measured(guest), "it says what it uses", patience_s=PATIENCE_S)
        high = site.new(9.0, vcpus=1, memory_mib=SIZE_MIB, more=HERE)
        other = site.guest(high)
        seen = _held_until(guest, other, lambda: _held(guest, other) == _by(KEPT_MIB))
        assert min(seen)[0] == KEPT_MIB
        told = [SIZE_MIB, *site.balloons(low)]
        assert told[-1] == min(told) == KEPT_MIB
        assert all(0 < before - after <= STEP_MIB for before, after in pairwise(told)), told

        until(lambda: _measured(other), "so does the other", patience_s=PATIENCE_S)
        site.call("one.vm.update", low, f'MERKAT_MIN_MEMORY="{FLOOR_MIB}"', 1)
        seen = _held_until(guest, other, lambda: _held(guest, other) == _by(FLOOR_MIB))
        assert min(seen)[0] == KEPT_MIB
        assert max(map(sum, seen)) <= HOST_MIB + STEP_MIB
        _stays(site, guest, other, FLOOR_MIB)

        site.command("release", "--yes")
        _held_until(guest, other, lambda: _held(guest, other) == (SIZE_MIB, SIZE_MIB))
        assert not site.failed


def _by(low_mib: int) -> tuple[int, int]:
    return low_mib, HOST_MIB - low_mib


def _held(guest: Guest, other: Guest) -> tuple[int, int]:
    # In this order: while the first one gets what the other gives, it is never shown too high.
    return guest.balloon_mib, other.balloon_mib


def _held_until(guest: Guest, other: Guest, met: Callable[[], bool]) -> set[tuple[int, int]]:
    """All that the two balloons were seen to hold, until something is so."""
    seen: set[tuple[int, int]] = set()

    def look() -> bool:
        seen.add(_held(guest, other))
        return met()

    until(look, f"{guest.name} and {other.name} hold what they should", patience_s=PATIENCE_S)
    return seen


def _stays(site: Site, guest: Guest, other: Guest, floor_mib: int) -> None:
    """For some periods."""
    wanted = site.periods() + 3
    seen = _held_until(guest, other, lambda: site.periods() >= wanted)
    assert seen == {_by(floor_mib)}


def _measured(guest: Guest) -> bool:
    return "unused" in guest.domain.memoryStats()
