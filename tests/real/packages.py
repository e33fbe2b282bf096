"""The Debian packages that real hosts and guests need, and their installation."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

PACKAGES = {
    "libvirt-daemon": "/usr/sbin/libvirtd",
    "libvirt-daemon-system": "/etc/libvirt/libvirtd.conf",
    "libvirt-daemon-driver-qemu": "/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/"
    "libvirt_driver_qemu.so",
    "libvirt-daemon-driver-lxc": "/usr/lib/libvirt/libvirt_lxc",
    "libvirt-clients": "/usr/bin/virsh",
    "libvirt-dev": "/usr/include/libvirt/libvirt.h",
    "pkg-config": "/usr/bin/pkg-config",
    "gcc": "/usr/bin/gcc",
    "python3-dev": "/usr/include/python3.11/Python.h",
    "qemu-system-x86": "/usr/bin/qemu-system-x86_64",
    "openssh-server": "/usr/sbin/sshd",
    "iproute2": "/usr/sbin/ip",
    "procps": "/usr/bin/ps",
    "sudo": "/usr/bin/sudo",
    "curl": "/usr/bin/curl",
    "cpio": "/usr/bin/cpio",
    "mariadb-server": "/usr/sbin/mariadbd",
    "prometheus": "/usr/bin/prometheus",
    "mmdebstrap": "/usr/bin/mmdebstrap",
    "docker.io": "/usr/sbin/dockerd",
    "docker-compose": "/usr/bin/docker-compose",
    "lintian": "/usr/bin/lintian",
    "chromium": "/usr/bin/chromium",
    "fonts-dejavu-core": "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "slurmctld": "/usr/sbin/slurmctld",
    "slurmd": "/usr/sbin/slurmd",
    "slurm-client": "/usr/bin/squeue",
    "munge": "/usr/sbin/munged",
    "gridengine-master": "/usr/sbin/sge_qmaster",
    "gridengine-exec": "/usr/sbin/sge_execd",
    "gridengine-client": "/usr/bin/qstat",
}
"""Packages by name, each with a file that exists if the package is installed."""

SERVICES_STAY_OFF = Path("/usr/sbin/policy-rc.d")


class MissingError(Exception):
    """The tests need a program or package that is missing and can't be installed."""


def install(more: Mapping[str, str] = MappingProxyType({})) -> None:
    """Install missing packages, without starting a service. Raise MissingError.

    `more` are further packages, in the form of PACKAGES.
    """
    if os.geteuid() != 0:
        raise MissingError("real hosts need root: their namespaces, bridges and control groups")
    wanted = {**PACKAGES, **more}
    missing = [name for name, file in wanted.items() if not Path(file).exists()]
    if missing:
        say(f"installing {', '.join(missing)}")
        _install(missing)
    if find_spec("libvirt") is None:
        say("building libvirt-python")
        run(sys.executable, "-m", "pip", "install", "--quiet", "libvirt-python")


def _install(names: list[str]) -> None:
    if shutil.which("apt-get") is None:
        raise MissingError(f"{', '.join(names)}: this is no Debian, install them by hand")
    off = not SERVICES_STAY_OFF.exists()
    if off:
        SERVICES_STAY_OFF.write_text("#!/bin/sh\nexit 101\n")
        SERVICES_STAY_OFF.chmod(0o755)
    try:
        run("apt-get", "-qq", "update")
        run("apt-get", "-qq", "install", "-y", "--no-install-recommends", *names)
    finally:
        if off:
            SERVICES_STAY_OFF.unlink()


def run(*words: str) -> None:
    """Run a command to its end. Raise MissingError with the last lines of its output."""
    done = subprocess.run(
        words,
        env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        output = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise MissingError(f"{' '.join(words)}: exit code {done.returncode}\n{output}")


def say(what: str) -> None:
    """Print a line for the user who started the tests."""
    sys.stderr.write(f"real hosts: {what}\n")
