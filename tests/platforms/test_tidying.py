"""Files that platforms leave on the disk: limited, and removed in the end."""

from pathlib import Path

import pytest

from merkatd.bus.platform_processes import sweep
from merkatd.platforms.processes import process_files
from merkatd.scheduler.base.settings import Rhythm
from tests.lengths import shorten
from tests.platforms.site import Site


def test_folders_of_removed_platforms_are_deleted(tmp_path: Path) -> None:
    """Their content is deleted too, and other folders stay."""
    for name in ("1", "2", "11", "keys", "1.old"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "log").write_text("x")
    assert sweep(tmp_path, {2}) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"2", "keys", "1.old"}
    assert sweep(tmp_path / "nowhere", set()) == 0


def test_creating_and_ending_platforms_does_not_fill_the_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Files of running platforms stay, and of the newest ended ones as long as details."""
    most, every = shorten(process_files.MOST_OVER, 2), shorten(process_files.EVERY, 8)
    monkeypatch.setattr(process_files, "MOST_OVER", most)
    monkeypatch.setattr(process_files, "EVERY", every)
    site = Site(rhythm=Rhythm(interval_s=60.0, keep_allocations=2 * every))
    runs = site.submit()
    over = []
    for number in range(most + 2):
        over.append(site.submit(top=f'name = "weather{number}"'))
        site.wait(site.manager.stop(over[-1], "ann"))
        site.periods(3)
    site.periods(every)
    assert site.notes.kept == {runs, *over[-most:]}
    site.periods(3 * every)
    assert site.notes.kept == {runs}
    site.close()
