"""The tenants' tutorial on a second machine: a Debian with the tenants' package alone.

It has its own files, processes and network, and reaches the daemon over a cable and TLS.
"""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.api.xmlrpc.site import ANN, Site, until
from tests.docs.sections import sections
from tests.real import made
from tests.real.network import plug, switch, unplug

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "merkat.md"
LINK = "tenant0"
FRONTEND, OWN = "10.77.0.254", "10.77.0.50"
STRANGERS_S = 300.0
"""A stranger must be through the tutorial in this time."""
LIBRARIES = ("twisted", "numpy", "sqlalchemy", "zmq", "lxml", "merkatd.daemon")
_USER = "ann"
_PEM = f"/home/{_USER}/authority.pem"


class SecondMachine:
    """A Debian 12 with the first process of its own namespaces, on the bridge."""

    def __init__(self, place: Path, packages: Path) -> None:
        self.root = place / "root"
        self._stack = ExitStack()
        self.root.mkdir(parents=True)
        self._stack.callback(self._remove)
        subprocess.run(["tar", "-xf", made.debian(), "-C", self.root], check=True)
        namespaces = ("--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child")
        self._first = subprocess.Popen(
            ["unshare", *namespaces, "/bin/sh", "-c", _FIRST, "sh", self.root, packages],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._stack.callback(self._end)
        assert self._first.stdout is not None
        # The child of `unshare` is the first process of the namespaces.
        assert self._first.stdout.readline() == "ready\n"
        children = Path(f"/proc/{self._first.pid}/task/{self._first.pid}/children")
        (self._pid,) = children.read_text().split()
        plug(LINK, int(self._pid))
        self._stack.callback(unplug, LINK)
        for words in (
            ("address", "add", f"{OWN}/24", "dev", f"{LINK}-in"),
            ("link", "set", f"{LINK}-in", "up"),
        ):
            subprocess.run(["nsenter", "-t", self._pid, "-n", "ip", *words], check=True)
        self.ok(f"useradd --create-home {_USER}")

    def _remove(self) -> None:
        subprocess.run(["rm", "-rf", self.root], check=True)

    def _end(self) -> None:
        with self._first:
            self._first.kill()

    def run(self, command: str, user: str = "root") -> subprocess.CompletedProcess[str]:
        """Run a command line there, in the user's home."""
        inside = ("nsenter", "-t", self._pid, "-a", "-r", "-w")
        clean = ("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DPKG_FORCE=unsafe-io")
        shell = ("su", "-", user, "-c", command) if user != "root" else ("sh", "-c", command)
        return subprocess.run(
            [*inside, *clean, *shell],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def ok(self, command: str, user: str = "root") -> str:
        """Return the whole output of a command line that must succeed."""
        done = self.run(command, user)
        assert done.returncode == 0, f"{command}: {done.stdout}"
        return done.stdout

    def put(self, path: str, text: str) -> None:
        """Write a file of the user's."""
        file = self.root / "home" / _USER / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.ok(f"chown -R {_USER} /home/{_USER}")

    def close(self) -> None:
        """End all its processes, and remove its files and its cable."""
        self._stack.close()


_FIRST = """\
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount -t tmpfs -o mode=755 tmpfs "$1/dev"
for name in null zero urandom; do
  touch "$1/dev/$name"
  mount --bind "/dev/$name" "$1/dev/$name"
done
mkdir -p "$1/packages"
mount --bind "$2" "$1/packages"
hostname tenant
cd "$1"
pivot_root . mnt
umount -l /mnt
echo ready
exec sleep infinity
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the tenants' package, as `make client` builds it."""
    folder = tmp_path_factory.mktemp("packages")
    build: list[str | Path] = [ROOT / "packaging" / "build-client", sys.executable, folder]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    return folder


@pytest.fixture
def site(plugs: None, tmp_path: Path) -> Iterator[Site]:  # noqa: ARG001
    """Return a daemon that listens on the bridge, with a certificate for this address."""
    pem, key = tmp_path / "authority.pem", tmp_path / "key.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    words += f" -subj /CN=cloud -addext subjectAltName=IP:{FRONTEND}"
    subprocess.run(
        ["openssl", *words.split(), "-keyout", key, "-out", pem], check=True, capture_output=True
    )
    running = Site(tmp_path, f'address = "{FRONTEND}"\ncertificate = "{pem}"\nkey = "{key}"\n')
    try:
        yield running
        running.end()
    finally:
        running.program.kill()


@pytest.fixture
def machine(site: Site, packages: Path, tmp_path: Path) -> Iterator[SecondMachine]:  # noqa: ARG001
    """Return the second machine; the bridge exists already."""
    running = SecondMachine(tmp_path, packages)
    try:
        yield running
    finally:
        running.close()


def test_a_stranger_follows_the_page(site: Site, machine: SecondMachine, tmp_path: Path) -> None:
    """From the package to the statement, with nothing else of Merkat's on the machine."""
    for library in LIBRARIES:
        assert "ModuleNotFoundError" in machine.run(f"python3 -c 'import {library}'").stdout
    assert "not found" in machine.run("merkat price").stdout
    text = PAGE.read_text(encoding="utf-8")
    began_s = time.monotonic()
    steps = sections(PAGE)
    (install,) = [step for step in steps["1. Install it"] if step.startswith("apt ")]
    machine.ok(f"cd /packages && DEBIAN_FRONTEND=noninteractive {install}")
    (settings,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    endpoint = (site.state / "merkat_xmlrpc").read_text().strip()
    assert endpoint.startswith(f"https://{FRONTEND}:")
    settings = re.sub(r"https://[^\"]*", endpoint, settings)
    machine.put(".config/merkat/config.toml", settings)
    machine.put(".config/merkat/authority.pem", (tmp_path / "authority.pem").read_text())
    machine.put(".one/one_auth", f"{ANN}\n")
    (template,) = re.findall(r"```\n(CPU.*?)```", text, re.DOTALL)
    machine.put("vm.template", template)
    outputs = dict[str, str]()
    for heading in ("3. A VM with a bid", "4. Why it gets what it gets", "5. Credits"):
        for step in steps[heading]:
            outputs[step] = machine.ok(step, _USER)
            if step.startswith("merkat vm create "):
                until(
                    lambda: "RUNNING" in machine.ok("merkat list vms -f NAME=first", _USER),
                    "it runs",
                )
    assert time.monotonic() - began_s < STRANGERS_S
    assert "first" in outputs["merkat list vms"]
    assert "first" in outputs["merkat explain first"]
    header, *rows = machine.ok("cat statement.csv", _USER).splitlines()
    assert "," in header
    assert rows
    until(
        lambda: ",4" in machine.ok("merkat list vms --csv -l NAME,BID_CPU -f NAME=first", _USER),
        "the last bid",
    )


def test_what_it_says_without_the_daemon(site: Site, machine: SecondMachine) -> None:
    """One line each: the certificate is unknown, the login is wrong, the cable is out."""
    machine.ok("apt install /packages/merkat-client_*_all.deb")
    endpoint = (site.state / "merkat_xmlrpc").read_text().strip()
    machine.put(".one/one_auth", f"{ANN}\n")
    asked = f"MERKAT_ENDPOINT={endpoint} merkat price"
    for before, wanted in (
        ("", "certificate"),
        (f"echo nobody:wrong > .one/one_auth; export MERKAT_CERTIFICATE={_PEM};", "login"),
    ):
        machine.put("authority.pem", (site.folder / "authority.pem").read_text())
        done = machine.run(f"{before} {asked}", _USER)
        assert done.returncode == 1, done
        assert wanted in done.stdout
        assert len(done.stdout.splitlines()) == 1, done.stdout
    switch(LINK, "down")
    done = machine.run(f"timeout 100 env MERKAT_CERTIFICATE={_PEM} {asked}", _USER)
    assert done.returncode == 1, done
    assert endpoint in done.stdout
    assert len(done.stdout.splitlines()) == 1, done.stdout
