"""The first process of a host: it sets up the machine and reaps processes that end.

It is alone in its namespaces when it starts. If it is killed, the whole host ends with it.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.real import controls

_LIBRARIES = {
    "etc": "/etc/libvirt",
    "lib": "/var/lib/libvirt",
    "cache": "/var/cache/libvirt",
    "log": "/var/log/libvirt",
}
_PATIENCE_S = 120.0


def main(directory: Path) -> None:
    """Set up the host, then reap processes; never return."""
    host: dict[str, Any] = json.loads((directory / "host.json").read_text())
    _run("mount", "--make-rprivate", "/")
    _run("mount", "-t", "proc", "proc", "/proc")
    _own_control_groups()
    _own_files(directory, host)
    _own_address(host)
    for service in host["services"]:
        _run(*service)
    (directory / "ready").touch()
    while True:
        try:
            os.wait()
        except ChildProcessError:
            time.sleep(0.2)


def _own_control_groups() -> None:
    """Make the host's own groups the roots of the trees that it sees."""
    if controls.unified():
        _run("umount", str(controls.TOP))
        _run("mount", "-t", "cgroup2", "cgroup2", str(controls.TOP))
        controls.make("inside")
        controls.enter("inside")
        return
    for tree in controls.trees():
        _run("umount", str(tree))
        _run("mount", "-t", "cgroup", "-o", tree.name, "cgroup", str(tree))


def _own_files(directory: Path, host: dict[str, Any]) -> None:
    for name, place in _LIBRARIES.items():
        _run("mount", "--bind", str(directory / name), place)
    # Names that the host can't resolve would delay every connection for seconds.
    for name, text in (("hosts", host["hosts"]), ("resolv.conf", "")):
        (directory / name).write_text(text)
        _run("mount", "--bind", str(directory / name), f"/etc/{name}")
    # The commands in root's .bashrc may take a minute: SSH connections must not run them.
    shell = Path("~/.bashrc").expanduser()
    if shell.exists():
        _run("mount", "--bind", "/dev/null", str(shell))
    _run("mount", "-t", "tmpfs", "tmpfs", "/run")
    for name in ("sshd", "lock", "libvirt"):
        Path("/run", name).mkdir()
    _run("mount", "--bind", str(directory / "run"), "/run/libvirt")


def _own_address(host: dict[str, Any]) -> None:
    _run("hostname", host["name"])
    ending = time.monotonic() + _PATIENCE_S
    while f"{host['link']}:" not in Path("/proc/net/dev").read_text():
        if time.monotonic() > ending:
            raise TimeoutError(f"{host['link']}: the link did not come")
        time.sleep(0.01)
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "link", "set", host["link"], "name", "eth0")
    _run("ip", "address", "add", f"{host['address']}/24", "dev", "eth0")
    _run("ip", "link", "set", "eth0", "up")


def _run(*words: str) -> None:
    subprocess.run(words, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
