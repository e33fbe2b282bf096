"""A daemon whose disk is full says so in a line, with the way out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MOUNT = 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"'
ALONE = ("unshare", "--mount", *(() if os.geteuid() == 0 else ("--map-root-user",)))
"""A program with mounts of its own, so that no other one sees the small disk."""


def on_a_disk(size: str, place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program with a disk of this size at a folder; skip the test where none can be made."""
    done = subprocess.run(
        [*ALONE, "sh", "-c", MOUNT, "sh", size, str(place), *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if "unshare failed" in done.stderr or "mount:" in done.stderr:
        pytest.skip("this machine permits no mounts")
    return done


@pytest.mark.parametrize("kind", ["embedded", "opennebula"])
def test_a_start_on_a_full_disk_is_one_line(kind: str, tmp_path: Path) -> None:
    """It names the full disk and the way out, and the daemon ends."""
    place, config = tmp_path / "disk", tmp_path / "merkatd.toml"
    place.mkdir()
    (tmp_path / "one_auth").write_text("merkat:secret\n")
    cloud = f'kind = "{kind}"\n'
    if kind == "opennebula":
        cloud += f'endpoint = "http://127.0.0.1:1/RPC2"\nauth_file = "{tmp_path}/one_auth"\n'
    config.write_text(f'[daemon]\nstate_directory = "{place}/state"\n[cloud]\n{cloud}')
    run = ("-m", "merkatd.cli", "run", "--config", str(config))
    done = on_a_disk("32k", place, sys.executable, *run)
    assert done.returncode == 1, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("merkatd run:")]
    assert len(said) == 1, done.stderr
    assert "full" in said[0] or "No space left on device" in said[0], said
    assert "free some space there" in said[0], said
    assert "Traceback" not in done.stderr
