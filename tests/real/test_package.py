"""The Debian package on a bare Debian: installed, run, removed, purged; and what pip installs."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.real import made
from tests.real.beside import SESSION, cloud, quotas
from tests.real.host import until

__all__ = ["cloud"]

_CONFIG = """\
[daemon]
state_directory = "/var/lib/merkat"
[period]
interval = "1s"
[cloud]
kind = "opennebula"
endpoint = "http://127.0.0.1:{port}/RPC2"
auth_file = "/etc/merkat/one_auth"
[hypervisor]
kind = "embedded"
"""


class Debian:
    """A Debian 12 in a folder, without the package; changed where this one alone sees it."""

    def __init__(self, place: Path) -> None:
        self.root = place / "root"
        self._stack = ExitStack()
        self.root.mkdir(parents=True)
        subprocess.run(["tar", "-xf", made.debian(), "-C", self.root], check=True)
        self._mount("-t", "proc", "proc", self.root / "proc")
        self._mount("--bind", "/dev", self.root / "dev")
        (self.root / "packages").mkdir()
        self._mount("--bind", made.package().parent, self.root / "packages")

    def run(self, *words: str, fails: bool = False) -> str:
        """What a command says there, all of it."""
        done = subprocess.run(
            self._words(*words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert (done.returncode != 0) == fails, f"{' '.join(words)}: {done.stdout}"
        return done.stdout

    def merkatd(self, *words: str) -> str:
        """What a command of the daemon's own user says."""
        return self.run(*_AS_MERKAT, "merkatd", *words)

    def daemon(self, log: Path) -> subprocess.Popen[bytes]:
        """As its unit starts it, but for systemd."""
        with log.open("wb") as out:
            return subprocess.Popen(
                self._words(*_AS_MERKAT, "/usr/bin/merkatd", "run"),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def install(self) -> str:
        """The package; what dpkg says."""
        return self.run("dpkg", "--install", f"/packages/{made.package().name}")

    def files(self) -> set[str]:
        """All there are that a package could have left."""
        return {
            str(path.relative_to(self.root))
            for top in ("etc", "usr", "lib/systemd", "var/lib/merkat")
            for path in (self.root / top).rglob("*")
            if "__pycache__" not in path.parts
        }

    def close(self) -> None:
        """Undo the mounts."""
        self._stack.close()

    def _words(self, *words: str) -> list[str]:
        return ["env", "-i", *_ENVIRONMENT, "chroot", str(self.root), *words]

    def _mount(self, *words: object) -> None:
        subprocess.run(["mount", *map(str, words)], check=True)
        self._stack.callback(subprocess.run, ["umount", "--lazy", str(words[-1])], check=True)


_AS_MERKAT = (
    *("setpriv", "--reuid", "merkat", "--regid", "merkat", "--init-groups"),
    *("env", "HOME=/var/lib/merkat"),
)
_ENVIRONMENT = ("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "NUMBA_DISABLE_JIT=1")
"""Also of the daemon that removing starts."""


@pytest.fixture
def debian(tmp_path: Path) -> Iterator[Debian]:
    """One for each test."""
    found = Debian(tmp_path)
    yield found
    found.close()


def test_it_is_installed_runs_and_goes_without_a_trace_but_the_books(
    debian: Debian, cloud: tuple[int, Any], tmp_path: Path
) -> None:
    """Nothing is started by installing; removed, VMs have no limits; the database stays."""
    port, proxy = cloud
    before = debian.files()
    debian.install()
    assert debian.run("ps", "-eo", "user:20").split().count("merkat") == 0
    assert debian.run("stat", "-c", "%U %G %a", "/etc/merkat/merkatd.toml").split() == [
        *("root", "merkat", "640")
    ]
    assert ": valid; " in debian.merkatd("check", "--offline")
    assert _missing_libraries(debian) == set()
    assert debian.run("merkat-onegroup", "--help")
    (debian.root / "etc/merkat/merkatd.toml").write_text(_CONFIG.format(port=port))
    login = debian.root / "etc/merkat/one_auth"
    login.write_text(SESSION)
    os.chown(login, *_owner(debian, "/var/lib/merkat"))
    daemon = debian.daemon(tmp_path / "daemon.log")
    try:
        until(lambda: quotas(proxy), f"VMs are limited: {(tmp_path / 'daemon.log').read_text()}")
        books = _tables(debian)
        said = debian.run("dpkg", "--remove", "merkat")
    finally:
        daemon.kill()
        daemon.wait()
    assert not quotas(proxy), said
    assert "/var/lib/merkat" in said
    left = debian.files() - before
    assert {one.partition("/")[0] for one in left} <= {"etc", "var"}, left
    debian.run("dpkg", "--purge", "merkat")
    kept = {one for one in debian.files() - before if not one.startswith("var/lib/merkat")}
    assert not {one for one in kept if "merkat" in one}, kept
    assert _tables(debian) == books


def test_it_releases_also_what_a_daemon_left_that_is_gone(
    debian: Debian, cloud: tuple[int, Any], tmp_path: Path
) -> None:
    """Removing starts one for that alone, and ends it; installed anew, the old books go on."""
    port, proxy = cloud
    debian.install()
    (debian.root / "etc/merkat/merkatd.toml").write_text(_CONFIG.format(port=port))
    login = debian.root / "etc/merkat/one_auth"
    login.write_text(SESSION)
    os.chown(login, *_owner(debian, "/var/lib/merkat"))
    daemon = debian.daemon(tmp_path / "daemon.log")
    until(lambda: quotas(proxy), "VMs are limited")
    daemon.kill()
    daemon.wait()
    assert quotas(proxy)
    debian.run("dpkg", "--remove", "merkat")
    assert not quotas(proxy)
    assert debian.run("ps", "-eo", "user:20").split().count("merkat") == 0
    assert _CONFIG.format(port=port) == (debian.root / "etc/merkat/merkatd.toml").read_text()


def test_debian_s_own_checks_find_nothing() -> None:
    """Lintian, with the exceptions that the package gives reasons for."""
    done = subprocess.run(
        ["lintian", "--allow-root", "--fail-on", "error,warning", made.package()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


NEEDED = {"kvm": "libvirt", "mysql": "pymysql", "simulator": "matplotlib"}
"""By extra, the module that it is for."""


def test_an_extra_brings_what_it_is_for_and_nothing_else(tmp_path: Path) -> None:
    """One after the other; without them the daemon's modules are imported all the same."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    python, there = tmp_path / "bin/python", set[str]()
    _installed(python, "merkat")
    code = "import sys, merkatd.daemon.assembly"
    code += "; print([one for one in sys.argv[1:] if one in sys.modules])"
    assert _told(python, code, "pymysql", "matplotlib", "numba") == "[]\n"
    for extra in NEEDED:
        assert _importable(python) == there
        if extra in _ASKED_FOR:
            said = _refused(python, tmp_path, _ASKED_FOR[extra])
            assert f"merkat[{extra}]" in said
            assert "hush" not in said
        _installed(python, f"merkat[{extra}]")
        there.add(extra)
    assert _importable(python) == there


_ASKED_FOR = {
    "kvm": '[hypervisor]\nkind = "libvirt"',
    "mysql": '[database]\nurl = "mysql+pymysql://m:hush@db/merkat"',
}
"""What can't be had without the extra."""


def _installed(python: Path, wanted: str) -> None:
    offline = ("--no-index", "--find-links", str(made.wheels()), "--quiet", "--no-compile")
    subprocess.run(
        [python, "-m", "pip", "--isolated", "install", *offline, wanted],
        env=_clean(),
        # Where it would not find the sources, and be content with them.
        cwd=python.parent,
        check=True,
    )


def _importable(python: Path) -> set[str]:
    """The extras whose modules are there."""
    found = _told(python, _IMPORT, *NEEDED.values()).split()
    return {extra for extra, module in NEEDED.items() if module in found}


_IMPORT = """\
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError:
        continue
    print(name)
"""


def _told(python: Path, code: str, *words: str) -> str:
    """What a program prints there."""
    done = subprocess.run(
        [python, "-c", code, *words],
        env=_clean(),
        cwd=python.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _clean() -> dict[str, str]:
    ours = ("PIP_", "PYTHON")
    return {key: value for key, value in os.environ.items() if not key.startswith(ours)}


def _refused(python: Path, place: Path, words: str) -> str:
    """What a daemon says that can't start."""
    file = place / "merkatd.toml"
    file.write_text(f'[daemon]\nstate_directory = "{place / "state"}"\n{words}\n')
    done = subprocess.run(
        [python.with_name("merkatd"), "run", "--config", file],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def _owner(debian: Debian, path: str) -> tuple[int, int]:
    user, group = debian.run("stat", "-c", "%u %g", path).split()
    return int(user), int(group)


def _missing_libraries(debian: Debian) -> set[str]:
    """Shared ones that some module of the package would not find."""
    script = "find /usr/lib/merkat -name '*.so' -exec ldd {} + 2>/dev/null"
    said = debian.run("sh", "-c", f"{script} || true")
    return set(re.findall(r"^\s*(\S+) => not found", said, re.MULTILINE))


def _tables(debian: Debian) -> dict[str, int]:
    """How many rows there are of what must not be lost."""
    code = (
        "import json, sqlite3;"
        "c = sqlite3.connect('file:/var/lib/merkat/merkat.db?mode=ro', uri=True);"
        "print(json.dumps({t: c.execute(f'select count(*) from {t}').fetchone()[0]"
        " for t in ('accounts', 'tenants')}))"
    )
    found: dict[str, int] = json.loads(debian.run("python3", "-c", code))
    return found
