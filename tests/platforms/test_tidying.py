"""What platforms leave on the disk: bounded, and gone in the end."""

from pathlib import Path

from merkatd.bus.platform_processes import sweep
from merkatd.platforms.processes.process_files import EVERY, MOST_OVER
from merkatd.scheduler.base.settings import Rhythm
from tests.platforms.site import Site


def test_the_folders_of_others_are_removed(tmp_path: Path) -> None:
    """With all that is in them; what is no platform's stays."""
    for name in ("1", "2", "11", "keys", "1.old"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "log").write_text("x")
    assert sweep(tmp_path, {2}) == 2
    assert {one.name for one in tmp_path.iterdir()} == {"2", "keys", "1.old"}
    assert sweep(tmp_path / "nowhere", set()) == 0


def test_a_tenant_that_begins_and_ends_platforms_all_day_fills_no_disk() -> None:
    """Those that run are kept, of the others the newest, as long as details are."""
    site = Site(rhythm=Rhythm(interval_s=60.0, keep_allocations=2 * EVERY))
    runs = site.submit()
    over = []
    for number in range(MOST_OVER + 3):
        over.append(site.submit(top=f'name = "weather{number}"'))
        site.wait(site.manager.stop(over[-1], "ann"))
        site.periods(3)
    site.periods(EVERY)
    assert site.notes.kept == {runs, *over[-MOST_OVER:]}
    site.periods(3 * EVERY)
    assert site.notes.kept == {runs}
    site.close()
