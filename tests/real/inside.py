"""The first process of the tests' namespaces: it starts pytest and reaps processes that end."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.real import controls

_SSH = Path("/etc/ssh/ssh_config.d")


def main(group: str, tests: list[str]) -> int:
    """Run pytest and return its exit code."""
    # Beside the hosts' groups, with more weight: busy guests must not delay the tests.
    controls.make(f"{group}/tests", heavy=True)
    controls.enter(f"{group}/tests")
    place = os.environ["MERKAT_REAL"]
    for command in (
        ("mount", "--make-rprivate", "/"),
        ("mount", "-t", "proc", "proc", "/proc"),
        ("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", place),
        ("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(_SSH)),
        ("ip", "link", "set", "lo", "up"),
    ):
        subprocess.run(command, check=True)
    # The user's list of known hosts must not contain these hosts.
    (_SSH / "tests.conf").write_text("UserKnownHostsFile /dev/null\nLogLevel ERROR\n")
    _prepare_control_groups()
    os.environ["MERKAT_REAL_GROUP"] = group
    os.environ["TMPDIR"] = place
    tempfile.tempdir = None
    # The names of sockets are limited, and they are deep below this directory.
    brief = f"--basetemp={place}/t"
    pytest = subprocess.Popen([sys.executable, "-m", "pytest", brief, *tests])
    return _buried(pytest.pid)


def _prepare_control_groups() -> None:
    # libvirt mistakes a machine with both versions for one with the second alone.
    for name in ("unified", "systemd"):
        if not controls.unified() and (controls.TOP / name).is_mount():
            subprocess.run(["umount", controls.TOP / name], check=True)


def _buried(until: int) -> int:
    """Reap all orphans until this process ends; return its exit code."""
    # Ctrl-C is for pytest, which closes its hosts and daemons.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        pid, status = os.wait()
        if pid == until:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
