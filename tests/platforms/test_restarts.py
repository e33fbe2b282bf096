"""Platforms after a restart of the daemon or of a controller."""

import pytest

from merkatd.protocol.platform_messages import ProgressReport
from tests.lengths import SOAK, shorten
from tests.platforms.site import Site


@pytest.mark.parametrize(
    "state",
    [
        *["starting", "running", "suspending", "resuming", "stopping"],
        *["postponed", "suspended"] * SOAK,
    ],
)
def test_a_restarted_daemon_continues_in_every_state(site: Site, state: str) -> None:
    """From the database alone it brings the platform to its expected state."""
    platform = site.submit()
    if state in {"suspending", "suspended", "resuming"}:
        site.until(platform, "running")
        site.wait(site.manager.suspend(platform, "ann"))
    if state == "resuming":
        site.until(platform, "suspended")
        site.wait(site.manager.resume(platform, "ann"))
    if state == "stopping":
        site.until(platform, "running")
        site.wait(site.manager.stop(platform, "ann"))
    site.until(platform, state)
    site.start_daemon()
    if state in {"suspending", "suspended"}:
        site.until(platform, "suspended")
        site.wait(site.manager.resume(platform, "ann"))
    if state == "stopping":
        site.until(platform, "cancelled")
        assert site.alive() == []
        return
    site.until(platform, "running")
    site.periods(1)
    assert site.notes.running.keys() == {platform}
    assert len(site.alive()) == 2


@pytest.mark.parametrize("lost_after", [0, 1, 2])
def test_a_crash_during_creations_creates_none_twice(site: Site, lost_after: int) -> None:
    """The daemon may end before the call, after it, or before its answer is stored."""
    platform = site.submit()
    site.periods(1)
    calls = site.cut_off_after(lost_after)
    site.try_period()
    site.restore(calls)
    site.clock.advance(60)
    site.start_daemon()
    site.until(platform, "running")
    site.periods(shorten(8, 3))
    assert len(site.alive()) == 2
    assert sorted(site.alive()) == sorted(site.vms(platform))


def test_the_controllers_memory_survives_a_restart(site: Site) -> None:
    """The new controller's assignment has it."""
    platform = site.submit()
    site.until(platform, "running")
    site.wait(site.manager.remember(platform, {"step": [1, 2.5, "three"]}))
    site.act(platform, ProgressReport(done=0.5, on_track=True))
    site.start_daemon()
    site.periods(1)
    assert site.notes.started[-1].memory == {"step": [1, 2.5, "three"]}
    assert (site.platform(platform).report or {})["done"] == 0.5


def test_a_controller_that_cannot_be_kept_running_ends_its_platform(site: Site) -> None:
    """A restarted controller is only recorded."""
    platform = site.submit()
    site.until(platform, "running")
    site.wait(site.manager.ended(platform, "exit code 1", final=False))
    site.periods(1)
    assert site.platform(platform).state == "running"
    site.wait(site.manager.ended(platform, "exit code 1, ten times", final=True))
    assert "ten times" in site.until(platform, "failed").why
