"""docs/install.md from its start to the removal, word for word, without the package."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from merkatd.embedded.model.access import ObjectType, Right
from tests.real import made
from tests.real.beside import SESSION, VMS, cloud, running
from tests.real.host import ROOT, until
from tests.real.pid_one import PidOne
from tests.real.walking import Walker

__all__ = ["cloud"]

PAGE = "install.md"
PATIENCE_S = 180.0
PATH = "/opt/python/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DROP_IN = """\
[Service]
Environment=NUMBA_DISABLE_JIT=1
StandardOutput=append:/run/merkatd.log
StandardError=append:/run/merkatd.log
"""
SHORTER = '\n[period]\ninterval = "500ms"\n'
_OLD_SCHEDULER = "mm_sched"
UNITS = {
    "opennebula": "[Unit]\nWants=opennebula-scheduler.service\n"
    "[Service]\nExecStart=sleep infinity\n",
    "opennebula-scheduler": f"[Service]\nExecStart=/usr/local/bin/{_OLD_SCHEDULER} infinity\n",
}
"""Units in place of OpenNebula's, under their names, for systemd and `merkatd check`."""
EDITOR = """\
#!/bin/sh
printf '[Service]\\nExecStart=\\nExecStart=/opt/merkat/bin/merkatd run\\n' > "$1"
"""
_EVERYBODYS = 0x100000000
_ALL = 0x400000000


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Walker]:
    """Yield a reader at a frontend with Python, systemd, the checkout and pip's wheels."""
    (tmp_path / "system").mkdir()
    shown = {"opt/wheels": made.wheels()}
    system = PidOne(tmp_path / "system", DROP_IN, alone=False, shown=shown)
    try:
        prepare(system)
        environment = (
            *(f"PATH={PATH}", "NUMBA_DISABLE_JIT=1", "SYSTEMD_EDITOR=/usr/local/bin/editor"),
            *("PIP_NO_INDEX=1", "PIP_FIND_LINKS=/opt/wheels", "PIP_NO_COMPILE=1"),
        )
        names = {"VM": "vm0", "HOST": "host000"}
        yield Walker(system, names, place="/opt/merkat-src", environment=environment)
    finally:
        # pytest shows the output of a failed test.
        sys.stdout.write(system.run("cat", "/run/merkatd.log").out)
        system.close()


def prepare(system: PidOne) -> None:
    """Create what a frontend has before its administrator reads the page."""
    # The library of this Python may be readable by root only.
    system.put("/etc/ld.so.conf.d/trial.conf", "/opt/python/lib\n")
    system.ok("ldconfig")
    system.put("/etc/sudoers.d/trial", "Defaults env_keep += NUMBA_DISABLE_JIT\n", mode="440")
    system.put("/usr/local/bin/editor", EDITOR, mode="755")
    system.ok("cp", "/bin/sleep", f"/usr/local/bin/{_OLD_SCHEDULER}")
    system.ok("useradd", "--system", "oneadmin")
    system.ok("mkdir", "-p", "/var/lib/one/remotes/scheduler")
    for name, unit in UNITS.items():
        system.put(f"/run/trial/{name}.service", unit)
    system.ok("systemctl", "daemon-reload")
    system.ok("systemctl", "start", "opennebula")


def test_every_command_of_the_page_works(reader: Walker, cloud: tuple[int, Any]) -> None:
    """The commands work in order; after each, the page's statements about it are true."""
    port, proxy = cloud
    install(reader)
    account(reader, proxy)
    configure(reader, port)
    stop_the_other(reader)
    start(reader, proxy)
    maintain(reader)
    go_back(reader)


def install(reader: Walker) -> None:
    """Create a virtual environment, and check that its programs are found."""
    reader.walk(PAGE, "Elsewhere")
    assert reader.system.ok("stat", "-c", "%U", "/var/lib/merkat") == "merkat"
    reader.command("onegroup.md", "ln -s /opt/merkat/bin/merkat-onegroup /usr/local/bin/")
    assert "usage: merkat-onegroup" in reader.type("merkat-onegroup --help")


def account(reader: Walker, proxy: Any) -> None:
    """Create the rules of the page's lines, as `oneacl` would send them."""
    name, password, core = "merkat", "A-LONG-PASSWORD", "core"
    user, *rules = reader.left(PAGE, "2. The account")
    assert shlex.split(user) == ["oneuser", "create", name, password]
    answer = proxy.one.user.allocate(SESSION, name, password, core)
    assert answer[0] is True, answer
    reader.names["ID"] = str(answer[1])
    for rule in (reader.filled(rule) for rule in rules if rule.startswith("oneacl create ")):
        spoken = reader.type(f"printf '%s\\n' {rule.removeprefix('oneacl create ')}").splitlines()
        answer = proxy.one.acl.addrule(SESSION, *(spoken if spoken[1:] else numbers(spoken[0])))
        assert answer[0] is True, (rule, answer)
    reader.walk(PAGE, "2. The account")
    login = "/var/lib/merkat/one_auth"
    assert reader.system.ok("stat", "-c", "%U %a", login) == "merkat 600"
    assert reader.system.ok("cat", login) == f"{name}:{password}"


def numbers(rule: str) -> list[str]:
    """Return a rule in OpenNebula's numbers: user, resources, rights."""
    who, what, rights = rule.split()
    kinds = sum(ObjectType[kind] for kind in what.removesuffix("/*").split("+"))
    given = sum(Right[right] for right in rights.split("+"))
    return [f"{number:x}" for number in (_EVERYBODYS + int(who[1:]), kinds + _ALL, given)]


def configure(reader: Walker, port: int) -> None:
    """Write the page's configuration with a shorter period; `check` finds all rights."""
    page = (ROOT / "docs" / PAGE).read_text()
    (table,) = re.findall(r"## 3\. .*?```toml\n(.*?)```", page, re.DOTALL)
    text = table.replace("2633", str(port)) + SHORTER
    reader.system.put("/etc/merkat/merkatd.toml", text)
    output = reader.walk(PAGE, "3. The configuration", user="merkat")["merkatd check"]
    assert "lacks a right" not in output
    assert "own scheduler runs" in output


def stop_the_other(reader: Walker) -> None:
    """Check that the old scheduler does not run again and that oneadmin owns the driver."""
    folder = "/var/lib/one/remotes/scheduler/merkat"
    reader.walk(PAGE, "4. The other scheduler")
    assert active(reader, "opennebula") == "active"
    assert active(reader, "opennebula-scheduler") == "inactive"
    assert set(reader.system.ok("find", folder, "-printf", "%u\\n").split()) == {"oneadmin"}
    assert "own scheduler runs" not in reader.type("sudo -u merkat merkatd check")


def active(reader: Walker, unit: str) -> str:
    """Return systemd's state of a unit."""
    return reader.system.run("systemctl", "is-active", unit).out.strip()


def start(reader: Walker, proxy: Any) -> None:
    """Start by hand and paused, which changes nothing; then VMs run, and the service continues."""
    looking: list[subprocess.Popen[bytes]] = []
    waiting: list[int] = []
    system = reader.system

    def look() -> None:
        looking.append(
            subprocess.Popen(
                system.words(*reader.words("sudo -u merkat merkatd run --paused")),
                stdin=subprocess.DEVNULL,
            )
        )
        until(lambda: system.run(*reader.words("sudo -u merkat merkatd status")).code == 0, "it")

    def end() -> None:
        system.ok("pkill", "-INT", "-u", "merkat", "merkatd")
        assert looking[0].wait() == 0

    output = reader.walk(
        PAGE,
        "5. A first look, and the start",
        user="merkat",
        instead={
            "sudo -u merkat merkatd run --paused": look,
            "merkatd top": lambda: reader.press("merkatd top", "q", user="merkat"),
        },
        then={
            "merkatd plan": lambda: waiting.append(running(proxy)),
            "merkatd resume": lambda: until(lambda: running(proxy) == VMS, "VMs run"),
        },
        before={"sudo systemctl daemon-reload": end},
        typed={"systemctl edit merkatd": ""},
    )
    assert waiting == [0]
    assert output["merkatd plan"].count("deploy") >= VMS
    assert system.show("UnitFileState") == "enabled"
    assert "path=/opt/merkat/bin/merkatd " in system.show("ExecStart")
    assert output["merkatd log --since 1h"].count("deploy") >= VMS


def maintain(reader: Walker) -> None:
    """Check that a drained host takes no VMs, and takes VMs again afterwards."""
    drained: list[str] = []
    reader.walk(
        PAGE,
        "6. Maintenance",
        user="merkat",
        then={"merkatd host drain HOST": lambda: drained.append(hosts(reader))},
    )
    assert "drain" in drained[0]
    until(lambda: "drain" not in hosts(reader), "it is used again")


def hosts(reader: Walker) -> str:
    """Return the hosts as `merkatd list hosts` shows them."""
    return reader.type("merkatd list hosts", user="merkat")


def go_back(reader: Walker) -> None:
    """Check that no part of Merkat runs and that the old scheduler does."""
    reader.walk(PAGE, "8. Back again", user="merkat", typed={"merkatd release": "y\n"})
    assert reader.system.run("pgrep", "-u", "merkat").out == ""
    assert reader.system.show("UnitFileState") == "disabled"
    assert active(reader, "opennebula-scheduler") == "active"
