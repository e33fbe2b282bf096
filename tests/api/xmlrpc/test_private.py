"""Files written by a daemon that is started by hand are private to its user."""

import os
import stat
from pathlib import Path

import pytest

from merkatd.daemon.safe_files import make_new_files_private, remove_permissions_of_others
from tests.api.xmlrpc.site import Site

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def test_other_users_cannot_read_the_state(site: Site) -> None:
    """It contains the database with VM templates, logins, keys, logs and sockets."""
    umask = os.umask(0)
    os.umask(umask)
    assert not umask & stat.S_IROTH, "the shell of this test keeps others out already"
    paths = [path for path in site.state.rglob("*") if not path.is_symlink()]
    assert site.state / "merkat.db" in paths
    open_ = {str(path) for path in paths if stat.S_IMODE(path.stat().st_mode) & OTHERS}
    assert not open_


@pytest.mark.parametrize(
    ("before", "after"),
    [(0o022, 0o077), (0o002, 0o077), (0, 0o077), (0o027, 0o027), (0o007, 0o007)],
)
def test_a_mask_that_excludes_others_stays(before: int, after: int) -> None:
    """The service's mask lets its group read."""
    kept = os.umask(before)
    try:
        make_new_files_private()
        assert os.umask(0) == after
    finally:
        os.umask(kept)


@pytest.mark.parametrize(
    ("before", "after"), [(0o755, 0o750), (0o700, 0o700), (0o750, 0o750), (0o1777, 0o1777)]
)
def test_a_state_directory_of_an_earlier_version_becomes_private(
    tmp_path: Path, before: int, after: int
) -> None:
    """A shared directory is left unchanged."""
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(before)
    remove_permissions_of_others(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == after
    remove_permissions_of_others(tmp_path / "missing")
