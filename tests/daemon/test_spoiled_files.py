"""A daemon with a damaged file names the file and the remedy."""

from pathlib import Path

import pytest

from tests.daemon.harness import Site
from tests.daemon.processes import until


@pytest.mark.parametrize(
    ("name", "why"), [("holder", "is not UTF-8 text"), ("ssh_secret", "must contain 32 bytes")]
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, why: str) -> None:
    """The error is one line, and the daemon ends."""
    site = Site(tmp_path, 1)
    try:
        site.start_cloud()
        path = tmp_path / "state" / name
        path.write_bytes(b"\xcb\xff\n")
        path.chmod(0o600)
        made = site.start_daemon()
        until(lambda: not made.running, "the daemon ends")
        output = made.output()
        assert output.strip().splitlines() == [output.strip()]
        assert f"{path} {why}" in output
        assert "remove it" in output
    finally:
        site.close()
