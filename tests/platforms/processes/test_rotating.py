"""Output is kept in order, in files of limited size and number."""

import os
from contextlib import suppress
from errno import ENFILE, ENOSPC
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.platforms.processes.warden import RotatingFile, Warden


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=50), max_size=20), st.integers(1, 30), st.integers(1, 4))
def test_the_newest_output_is_kept(outputs: list[bytes], most: int, files: int) -> None:
    """All files together are the end of the output, and no file is too large."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "deep" / "one.log"
        for data in outputs:
            # Opened again each time, as after a restart.
            log = RotatingFile(path, most, files)
            log.write(data)
            log.close()
        if not outputs:
            return
        numbered = [path, *(path.with_name(f"one.log.{row}") for row in range(1, files + 1))]
        kept = [file.read_bytes() for file in numbered if file.exists()]
        output = b"".join(outputs)
        assert len(kept) <= files
        assert all(len(data) <= most for data in kept)
        assert output.endswith(b"".join(reversed(kept)))
        assert sum(map(len, kept)) >= min(len(output), most * (files - 1))
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_full_disk_closes_no_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While no next file can be created, the full one stays open, and output is dropped."""
    full = [False]
    opening = os.open

    def opened(path: Path, flags: int, mode: int = 0o777) -> int:
        if full[0] and not Path(path).exists():
            raise OSError(ENOSPC, "no inode is left")
        return opening(path, flags, mode)

    monkeypatch.setattr(os, "open", opened)
    log = RotatingFile(tmp_path / "one.log", 10, 2)
    log.write(b"a" * 10)
    full[0] = True
    others: list[int] = []
    for data in (b"b", b"c", b"d"):
        with suppress(OSError):
            log.write(data)
        others += os.pipe()
        assert os.fstat(log._fd).st_ino == (tmp_path / "one.log").stat().st_ino
    for fd in others:  # each is still open
        os.close(fd)
    assert (tmp_path / "one.log").read_bytes() == b"a" * 10
    full[0] = False
    log.write(b"e")
    assert (tmp_path / "one.log").read_bytes() == b"e"
    assert (tmp_path / "one.log.1").read_bytes() == b"a" * 10
    log.close()


def test_a_closed_log_writes_to_no_other_file(tmp_path: Path) -> None:
    """Its descriptor may belong to another file by then."""
    log = RotatingFile(tmp_path / "one.log", 10, 2)
    log.close()
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    with pytest.raises(OSError, match="Bad file descriptor"):
        log.write(b"x")
    with pytest.raises(OSError, match="Bad file descriptor"):
        log.close()
    assert os.fstat(other).st_size == 0
    os.close(other)


def test_a_failed_start_leaves_no_descriptor_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warden has few descriptors, and all processes need them."""
    piping, pipes = os.pipe2, [0]

    def piped(flags: int) -> tuple[int, int]:
        pipes[0] += 1
        if pipes[0] % 2 == 0:
            raise OSError(ENFILE, "too many files")
        return piping(flags)

    monkeypatch.setattr(os, "pipe2", piped)
    before = len([*Path("/proc/self/fd").iterdir()])
    for _ in range(3):
        with pytest.raises(OSError, match="too many files"):
            Warden.__new__(Warden)._start(
                "1/controller", {"log": str(tmp_path / "c.log"), "log_bytes": 10, "logs": 2}
            )
    assert len([*Path("/proc/self/fd").iterdir()]) == before
