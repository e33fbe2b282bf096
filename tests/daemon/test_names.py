"""Files that are written once: the daemon's name and its login."""

import shutil
from pathlib import Path

import pytest

from merkatd.daemon.safe_files import read_or_create, write_whole_file
from merkatd.daemon.single_instance import holder_of


def test_a_daemon_keeps_its_name(tmp_path: Path) -> None:
    """It is the same after each start."""
    assert holder_of(tmp_path / "holder") == holder_of(tmp_path / "holder")


def test_a_copy_of_a_state_directory_is_another_daemon(tmp_path: Path) -> None:
    """Two daemons of one name would take the lease from each other."""
    first, other = tmp_path / "one", tmp_path / "other"
    first.mkdir()
    name = holder_of(first / "holder")
    shutil.copytree(first, other)
    assert holder_of(other / "holder") != name
    assert holder_of(first / "holder") == name


@pytest.mark.parametrize("content", ["", "\n", "  \n"])
def test_an_incomplete_file_is_written_anew(tmp_path: Path, content: str) -> None:
    """A kill or a full disk can interrupt the first write."""
    path = tmp_path / "holder"
    path.write_text(content)
    assert len(holder_of(path)) > 20
    assert path.read_text().strip()
    assert read_or_create(path, "another") == path.read_text().strip()


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No reader sees half a file, and only the owner can read it."""
    path = tmp_path / "one_auth"
    write_whole_file(path, "oneadmin:first\n")
    assert path.stat().st_mode & 0o777 == 0o600

    def full(_number: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_whole_file(path, "oneadmin:second\n")
    assert path.read_text() == "oneadmin:first\n"
    monkeypatch.undo()
    write_whole_file(path, "oneadmin:third\n")
    assert path.read_text() == "oneadmin:third\n"
