"""systemd as the first process of its own namespaces, on a copy of a system's files.

The files are an overlay: all changes are discarded with it. It knows only the tested units and the
targets that every service needs, and no other unit of that system.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from tests.real.host import ROOT, until

_TARGETS = (
    *("basic", "local-fs", "multi-user", "network", "network-online", "paths", "remote-fs"),
    *("shutdown", "slices", "sockets", "swap", "sysinit", "time-set", "timers", "umount"),
)
_CGROUP = """\
set -e
mkdir -p "$1"
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then mount -t cgroup2 cgroup2 "$1"
else mount -t cgroup -o none,name=systemd cgroup "$1"; fi
"""
"""Mounts in the directory $1 the tree of control groups that systemd uses."""
_BEGIN = (
    _CGROUP
    + """
mkdir "$1/$2"
echo $$ > "$1/$2/cgroup.procs"
shift 2
network=$1
shift
exec unshare --fork --pid --kill-child --uts --ipc $network --cgroup /bin/bash "$@"
"""
)
"""Starts systemd in its own control group and namespaces."""
_SYSTEM = """\
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=$5,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
mkdir -p opt/merkat-src opt/python "$1/source" "$1/building"
# Who builds in there leaves nothing in the checkout.
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/source,workdir=$1/building" opt/merkat-src
mount --bind "$4" opt/python
mount -t proc proc proc
mount -t sysfs sysfs sys || mount --rbind /sys sys
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then mount -t cgroup2 cgroup2 sys/fs/cgroup; else
  mount -t tmpfs tmpfs sys/fs/cgroup
  mkdir sys/fs/cgroup/systemd
  mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
fi
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs tmpfs etc/systemd/system
mkdir -p run/trial
cp -a "$3"/. run/trial
shift 5
while [ $# -gt 0 ]; do
  mkdir -p "./$1"
  mount --bind "$2" "./$1"
  shift 2
done
# In a changed root nobody could make a namespace of users.
pivot_root . mnt
cd /
umount -l /mnt
exec env -i container=merkat PATH=/usr/bin:/usr/sbin \\
  SYSTEMD_UNIT_PATH=/etc/systemd/system:/run/trial \\
  /usr/lib/systemd/systemd --system --unit=basic.target --show-status=no
"""
_PACKAGES = Path(np.__file__).parents[1].relative_to(ROOT)
_PROGRAM = f"""\
#!/bin/sh
export LD_LIBRARY_PATH=/opt/python/lib PYTHONPATH=/opt/merkat-src:/opt/merkat-src/{_PACKAGES}
exec /opt/python/bin/python{sys.version_info.major}.{sys.version_info.minor} -m merkatd.cli "$@"
"""
"""Runs the checkout with its Python from /opt, because the service sees no homes."""


class PidOne:
    """A systemd that runs until it is closed."""

    def __init__(
        self,
        place: Path,
        drop_in: str,
        *,
        below: Path = Path("/"),
        units: Sequence[str] = (),
        alone: bool = True,
        shown: Mapping[str, Path] = MappingProxyType({}),
    ) -> None:
        """Start systemd on this machine, with the checkout's unit and this drop-in.

        If not `alone`, it has neither Merkat's program nor its unit yet, and shares the tests'
        network. The same applies with the files `below` another root, of which it uses only the
        named units. Folders of this machine are `shown` under these names.
        """
        self._below = below
        here = alone and below == Path("/")
        self._group = f"{os.environ['MERKAT_REAL_GROUP']}-service"
        self._cgroups = place / "cgroups"
        self._write_units(place / "units", drop_in, units, ours=here)
        begin, system, root = place / "begin", place / "system", place / "root"
        begin.write_text(_BEGIN)
        system.write_text(_SYSTEM)
        root.mkdir()
        self._started = subprocess.Popen(
            [
                *("unshare", "--mount", "/bin/bash", str(begin), str(self._cgroups), self._group),
                *("--net" if here else "", str(system), str(root), str(ROOT)),
                *(str(place / "units"), sys.base_prefix, str(below)),
                *(str(word) for folder in shown.items() for word in folder),
            ]
        )
        until(self._runs, "systemd runs")
        if here:
            self.put("/usr/bin/merkatd", _PROGRAM, mode="755")

    def _runs(self) -> bool:
        return self.run("systemctl", "is-system-running").out.strip() in {"running", "degraded"}

    def _write_units(self, units: Path, drop_in: str, named: Sequence[str], *, ours: bool) -> None:
        units.mkdir()
        for name in _TARGETS:
            shutil.copy(self._below / f"usr/lib/systemd/system/{name}.target", units)
        for name in named:
            (units / name).symlink_to(f"/lib/systemd/system/{name}")
        if ours:
            shutil.copy(ROOT / "systemd/merkatd.service", units)
        (units / "merkatd.service.d").mkdir()
        (units / "merkatd.service.d" / "trial.conf").write_text(drop_in)

    @property
    def _pid(self) -> int:
        """Return the process id of systemd, as this test sees it."""
        first = self._started.pid
        return int(Path(f"/proc/{first}/task/{first}/children").read_text())

    def run(self, *words: str, typed: str = "") -> "Ran":
        """Run a command on that system, with `typed` as its input."""
        try:
            called = self.words(*words)
        except (OSError, ValueError):
            return Ran(1, "")
        done = subprocess.run(
            called,
            input=typed,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Ran(done.returncode, done.stdout)

    def ok(self, *words: str, typed: str = "") -> str:
        """Return the output of a command that must succeed."""
        ran = self.run(*words, typed=typed)
        assert ran.code == 0, f"{words}: {ran.out}"
        return ran.out.strip()

    def words(self, *words: str) -> list[str]:
        """Return the command with which this machine runs a command on that system."""
        enter = ("nsenter", "-t", str(self._pid), "-m", "-p", "-u", "-i", "-n", "-C", "-r", "-w")
        return [*enter, *words]

    def put(self, path: str, text: str, mode: str = "644") -> None:
        """Write a file there."""
        self.ok("/bin/sh", "-c", 'mkdir -p "${1%/*}"; printf %s "$2" > "$1"; chmod "$3" "$1"', "-",
                path, text, mode)  # fmt: skip

    def show(self, name: str) -> str:
        """Return a property of the service."""
        return self.ok("systemctl", "show", "--value", "-p", name, "merkatd")

    def close(self) -> None:
        """End systemd and all processes that it started."""
        with contextlib.suppress(OSError, ValueError):
            os.kill(self._pid, signal.SIGKILL)
        self._started.kill()
        self._started.wait()
        until(self._removed, f"control group {self._group} is removed")

    def _removed(self) -> bool:
        """Return whether the control groups are gone, shortly after their processes have ended."""
        find = 'test ! -d "$1/$2" || find "$1/$2" -depth -type d -exec rmdir {} +'
        words = ["/bin/bash", "-c", _CGROUP + find, "-", str(self._cgroups), self._group]
        done = subprocess.run(["unshare", "--mount", *words], capture_output=True, check=False)
        return done.returncode == 0


class Ran:
    """The result of a command."""

    def __init__(self, code: int, out: str) -> None:
        self.code = code
        self.out = out
