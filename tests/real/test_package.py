"""The Debian package on a bare Debian: installed, run, removed, purged; and pip's extras."""

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
    """A Debian 12 in a folder, without the package; changes are visible to this instance only."""

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
        """Return the whole output of a command there."""
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
        """Return the output of a command that the daemon's user runs."""
        return self.run(*_AS_MERKAT, "merkatd", *words)

    def daemon(self, log: Path) -> subprocess.Popen[bytes]:
        """Run the daemon as its unit does, but without systemd."""
        with log.open("wb") as out:
            return subprocess.Popen(
                self._words(*_AS_MERKAT, "/usr/bin/merkatd", "run"),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def install(self) -> str:
        """Install the package; return dpkg's output."""
        return self.run("dpkg", "--install", f"/packages/{made.package().name}")

    def files(self) -> set[str]:
        """Return all files that a package could have left."""
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
"""Applies also to the daemon that the removal starts."""


@pytest.fixture
def debian(tmp_path: Path) -> Iterator[Debian]:
    """Yield a Debian for one test."""
    container = Debian(tmp_path)
    yield container
    container.close()


def test_installing_and_removing_leaves_only_the_database(
    debian: Debian, cloud: tuple[int, Any], tmp_path: Path
) -> None:
    """Installing starts nothing; after removal VMs have no limits, and the database stays."""
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
        output = debian.run("dpkg", "--remove", "merkat")
    finally:
        daemon.kill()
        daemon.wait()
    assert not quotas(proxy), output
    assert "/var/lib/merkat" in output
    left = debian.files() - before
    assert {path.partition("/")[0] for path in left} <= {"etc", "var"}, left
    debian.run("dpkg", "--purge", "merkat")
    kept = {file for file in debian.files() - before if not file.startswith("var/lib/merkat")}
    assert not {path for path in kept if "merkat" in path}, kept
    assert _tables(debian) == books


def test_removal_releases_the_limits_of_an_ended_daemon(
    debian: Debian, cloud: tuple[int, Any], tmp_path: Path
) -> None:
    """Removal starts a daemon only to release limits; a new installation continues the accounts."""
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


def test_lintian_finds_nothing() -> None:
    """Lintian finds nothing, apart from exceptions for which the package gives reasons."""
    done = subprocess.run(
        ["lintian", "--allow-root", "--fail-on", "error,warning", made.package()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


NEEDED = {"kvm": "libvirt", "mysql": "pymysql", "simulator": "matplotlib"}
"""The module for which each extra exists."""


def test_each_extra_installs_exactly_its_modules(tmp_path: Path) -> None:
    """Extras are installed one by one; without them the daemon's modules can be imported too."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    python, there = tmp_path / "bin/python", set[str]()
    _installed(python, "merkat")
    code = "import sys, merkatd.daemon.assembly"
    code += "; print([one for one in sys.argv[1:] if one in sys.modules])"
    assert _run_code(python, code, "pymysql", "matplotlib", "numba") == "[]\n"
    for extra in NEEDED:
        assert _importable(python) == there
        if extra in _ASKED_FOR:
            message = _refused(python, tmp_path, _ASKED_FOR[extra])
            assert f"merkat[{extra}]" in message
            assert "hush" not in message
        _installed(python, f"merkat[{extra}]")
        there.add(extra)
    assert _importable(python) == there


_ASKED_FOR = {
    "kvm": '[hypervisor]\nkind = "libvirt"',
    "mysql": '[database]\nurl = "mysql+pymysql://m:hush@db/merkat"',
}
"""Configurations that need an extra that is not installed."""


def _installed(python: Path, wanted: str) -> None:
    offline = ("--no-index", "--find-links", str(made.wheels()), "--quiet", "--no-compile")
    subprocess.run(
        [python, "-m", "pip", "--isolated", "install", *offline, wanted],
        env=_clean(),
        # In this folder pip can't find the sources and use them instead of the package.
        cwd=python.parent,
        check=True,
    )


def _importable(python: Path) -> set[str]:
    """Return the extras whose modules can be imported."""
    modules = _run_code(python, _IMPORT, *NEEDED.values()).split()
    return {extra for extra, module in NEEDED.items() if module in modules}


_IMPORT = """\
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError:
        continue
    print(name)
"""


def _run_code(python: Path, code: str, *words: str) -> str:
    """Return the output of a program there."""
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
    """Return the error of a daemon that can't start."""
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
    """Return the shared libraries that a module of the package would not find."""
    script = "find /usr/lib/merkat -name '*.so' -exec ldd {} + 2>/dev/null"
    output = debian.run("sh", "-c", f"{script} || true")
    return set(re.findall(r"^\s*(\S+) => not found", output, re.MULTILINE))


def _tables(debian: Debian) -> dict[str, int]:
    """Return the number of rows in the tables that must survive."""
    code = (
        "import json, sqlite3;"
        "c = sqlite3.connect('file:/var/lib/merkat/merkat.db?mode=ro', uri=True);"
        "print(json.dumps({t: c.execute(f'select count(*) from {t}').fetchone()[0]"
        " for t in ('accounts', 'tenants')}))"
    )
    rows_by_table: dict[str, int] = json.loads(debian.run("python3", "-c", code))
    return rows_by_table
