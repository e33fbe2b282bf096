"""Output is kept in order, in files of bounded size and number."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.platforms.processes.rotating import RotatingFile


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=50), max_size=20), st.integers(1, 30), st.integers(1, 4))
def test_the_newest_is_kept(said: list[bytes], most: int, files: int) -> None:
    """All files together are the end of what was said, and no file is too large."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "deep" / "one.log"
        for data in said:
            # Opened anew each time, as after a restart.
            log = RotatingFile(path, most, files)
            log.write(data)
            log.close()
        if not said:
            return
        numbered = [path, *(path.with_name(f"one.log.{row}") for row in range(1, files + 1))]
        kept = [one.read_bytes() for one in numbered if one.exists()]
        whole = b"".join(said)
        assert len(kept) <= files
        assert all(len(one) <= most for one in kept)
        assert whole.endswith(b"".join(reversed(kept)))
        assert sum(map(len, kept)) >= min(len(whole), most * (files - 1))
        assert path.stat().st_mode & 0o777 == 0o600
