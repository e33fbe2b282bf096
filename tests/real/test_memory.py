"""Memory moves between real guests, and nobody loses what their owner keeps back."""

from collections.abc import Callable
from pathlib import Path

from tests.real.domains import Guest
from tests.real.host import RealHost, until
from tests.real.site import Site, running

HOST_MIB, SIZE_MIB = 464, 256
KEPT_MIB, FLOOR_MIB = 220, 240
"""Two floors, nearer to each other than what is worth a step: they are kept all the same."""
PATIENCE_S = 40.0


def test_balloons_follow_bids_and_floors(mortal_hosts: list[RealHost], tmp_path: Path) -> None:
    """Who bids more has all but the other's floor, at every moment; released, both have all."""
    with running(tmp_path, mortal_hosts[:1], memory_mib=HOST_MIB, booted=True) as site:
        low = site.new(1.0, vcpus=1, memory_mib=SIZE_MIB, more=f'MERKAT_MIN_MEMORY="{KEPT_MIB}"')
        guest = site.guest(low)
        assert guest.balloon_mib == SIZE_MIB
        until(lambda: _measured(guest), "it says what it uses", patience_s=PATIENCE_S)
        high = site.new(9.0, vcpus=1, memory_mib=SIZE_MIB)
        other = site.guest(high)
        seen = _held_until(guest, lambda: (guest.balloon_mib, other.balloon_mib) == _by(KEPT_MIB))
        assert len(seen) > 1
        assert min(seen) == KEPT_MIB
        until(lambda: _measured(other), "so does the other", patience_s=PATIENCE_S)
        site.call("one.vm.update", low, f'MERKAT_MIN_MEMORY="{FLOOR_MIB}"', 1)
        seen = _held_until(guest, lambda: (guest.balloon_mib, other.balloon_mib) == _by(FLOOR_MIB))
        assert min(seen) == KEPT_MIB
        _stays(site, guest, FLOOR_MIB)
        site.command("release", "--yes")
        _held_until(guest, lambda: guest.balloon_mib == other.balloon_mib == SIZE_MIB)
        assert not site.failed


def _by(low_mib: int) -> tuple[int, int]:
    return low_mib, HOST_MIB - low_mib


def _held_until(guest: Guest, met: Callable[[], bool]) -> set[int]:
    """All sizes that its balloon was seen at, until something holds."""
    seen: set[int] = set()

    def look() -> bool:
        seen.add(guest.balloon_mib)
        return met()

    until(look, f"{guest.name} and its neighbour hold what they should", patience_s=PATIENCE_S)
    return seen


def _stays(site: Site, guest: Guest, floor_mib: int) -> None:
    """For some periods."""
    wanted = site.periods() + 3
    seen = _held_until(guest, lambda: site.periods() >= wanted)
    assert seen == {floor_mib}


def _measured(guest: Guest) -> bool:
    return "unused" in guest.domain.memoryStats()
