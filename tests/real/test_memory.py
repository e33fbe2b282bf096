"""Memory moves between real guests when their bids change."""

from collections.abc import Callable
from pathlib import Path

from tests.real.domains import Guest
from tests.real.host import RealHost, until
from tests.real.site import Site, running

HOST_MIB, SIZE_MIB = 464, 256
CLAIM_MIB = 240
"""More than the bid pays for on its host, so the claim holds in part."""
POOR_MIB, EVEN_MIB = HOST_MIB - SIZE_MIB, HOST_MIB // 2
"""Differences below the least step; the memory that a claim lacks is given all the same."""
HERE = 'SCHED_REQUIREMENTS="NAME=host000"\n'
STEP_MIB = 16
STEPS = f'[limits.memory]\nmost_step = "{STEP_MIB}MiB"'
PATIENCE_S = 120.0


def test_balloons_follow_bids_and_floors(mortal_hosts: list[RealHost], tmp_path: Path) -> None:
    """The higher bid gets all that its guest can use, the lower the rest; equal bids get halves.

    A guest gives back at once the memory that its bid does not pay for, and a claim gets at once
    the memory that it lacks. Both guests never have more than the host, counting what the giving
    guest has not returned yet. The second host keeps the market's price low, and a claim still
    costs its own host's price.
    """
    options = {"memory_mib": HOST_MIB, "booted": True, "more": STEPS}
    with running(tmp_path, mortal_hosts, **options) as site:
        claim = f'{HERE}MERKAT_MIN_MEMORY="{CLAIM_MIB}"'
        low = site.new(1.0, vcpus=1, memory_mib=SIZE_MIB, more=claim)
        guest = site.guest(low)
        assert guest.balloon_mib == SIZE_MIB
        until(lambda: _measured(guest), "it says what it uses", patience_s=PATIENCE_S)
        high = site.new(9.0, vcpus=1, memory_mib=SIZE_MIB, more=HERE)
        other = site.guest(high)
        seen = _held_until(guest, other, lambda held: held == _by(POOR_MIB))
        assert min(seen)[0] == POOR_MIB
        assert site.balloons(low)[-1] == min(site.balloons(low)) == POOR_MIB

        until(lambda: _measured(other), "so does the other", patience_s=PATIENCE_S)
        site.call("one.vm.update", low, 'MERKAT_BID_MEMORY="9"', 1)
        seen = _held_until(guest, other, lambda held: held == _by(EVEN_MIB))
        assert min(seen)[0] == POOR_MIB
        assert max(map(sum, seen)) <= HOST_MIB + EVEN_MIB - POOR_MIB
        _stays(site, guest, other, EVEN_MIB)

        site.command("release", "--yes")
        _held_until(guest, other, lambda held: held == (SIZE_MIB, SIZE_MIB))
        assert not site.failed


def _by(low_mib: int) -> tuple[int, int]:
    return low_mib, HOST_MIB - low_mib


def _held(guest: Guest, other: Guest) -> tuple[int, int]:
    # Read in this order: memory that moves to the first guest is never counted twice.
    return guest.balloon_mib, other.balloon_mib


def _held_until(
    guest: Guest, other: Guest, met: Callable[[tuple[int, int]], bool]
) -> set[tuple[int, int]]:
    """Return all observed sums of both balloons, up to the first that meets a condition."""
    seen: set[tuple[int, int]] = set()

    def look() -> bool:
        held = _held(guest, other)
        seen.add(held)
        return met(held)

    until(look, f"{guest.name} and {other.name} hold what they should", patience_s=PATIENCE_S)
    return seen


def _stays(site: Site, guest: Guest, other: Guest, low_mib: int) -> None:
    """Check that the balloons stay the same for some periods."""
    wanted = site.periods() + 3
    seen = _held_until(guest, other, lambda _held: site.periods() >= wanted)
    assert seen == {_by(low_mib)}


def _measured(guest: Guest) -> bool:
    return "unused" in guest.domain.memoryStats()
